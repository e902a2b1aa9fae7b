package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// A sitePage is a page of a site as the API shows it.
type sitePage struct {
	PageID         atrium.PageID  `json:"pageId"`
	BrandID        string         `json:"brandId"`
	Name           string         `json:"name"`
	Title          string         `json:"title"`
	PageContext    string         `json:"pageContext"`
	Status         string         `json:"status"`
	Actions        jsontext.Value `json:"actions"`
	Scripts        jsontext.Value `json:"scripts"`
	FooterLinks    jsontext.Value `json:"footerLinks"`
	HeaderActionID string         `json:"headerActionId"`
	Public         bool           `json:"public"`
	MaxAgeSeconds  int64          `json:"maxAgeSeconds"`
	AudiencesCount int64          `json:"audiencesCount"`
	CreatedAt      string         `json:"createdAt"`
	UpdatedAt      string         `json:"updatedAt"`
	DeletedAt      string         `json:"deletedAt"`
	Schedule       struct {
		PublishAt   string `json:"publishAt"`
		UnpublishAt string `json:"unpublishAt"`
	} `json:"schedule"`
}

// Live reports whether sites show the page.
func (p sitePage) Live() bool { return p.Status == string(atrium.PagePublished) && p.DeletedAt == "" }

// State says in a sentence what the status of the page is.
func (p sitePage) State() string {
	if p.Status == string(atrium.PageDraft) {
		return "a draft"
	}
	return p.Status
}

// Publishes reports whether the schedule of the page publishes it, unless its status changes first.
func (p sitePage) Publishes() bool {
	return p.Schedule.PublishAt != "" && p.Status == string(atrium.PageDraft)
}

// Unpublishes reports whether the schedule of the page unpublishes it, unless its status changes first.
func (p sitePage) Unpublishes() bool {
	return p.Schedule.UnpublishAt != "" && (p.Publishes() || p.Status == string(atrium.PagePublished))
}

// An audience is an audience as the API shows it.
type audience struct {
	AudienceID       atrium.AudienceID `json:"audienceId"`
	Name             string            `json:"name"`
	Archived         bool              `json:"archived"`
	PublishedVersion *int64            `json:"publishedVersion"`
	VersionsCount    int64             `json:"versionsCount"`
	UpdatedAt        string            `json:"updatedAt"`
}

type pagesPage struct {
	Status   string
	Deleted  bool
	Statuses []string
	Pages    list[sitePage]
}

// pageFilters are the parameters of the list of pages.
var pageFilters = []string{"status", "brandId", "deleted"}

func (c *Console) listPages(r *request) error {
	p := pagesPage{Status: r.query("status"), Deleted: r.query("deleted") == "true", Statuses: []string{"published", "draft", "archived"}}
	var err error
	if p.Pages, err = readList[sitePage](r, "/pages", pageFilters...); err != nil {
		return err
	}
	return r.show("pages", "pages", "Pages", p)
}

type sitePagePage struct {
	Page      sitePage
	Tag       string // what the user has seen
	Audiences list[audience]
	Previews  list[preview]
	Parts     []part
}

// A part is a list in a page, such as its actions.
type part struct {
	Title string
	JSON  string
	Cut   bool // JSON is only the beginning
	Tree  node
	List  *rowList // the elements, if they have the conventional form
}

// EmptyParts names the lists that have no elements.
func (p sitePagePage) EmptyParts() string {
	var titles []string
	for _, part := range p.Parts {
		if len(part.Tree.Children) == 0 {
			titles = append(titles, strings.ToLower(part.Title))
		}
	}
	if n := len(titles); n > 1 {
		titles = append(titles[:n-2], titles[n-2]+" or "+titles[n-1])
	}
	return strings.Join(titles, ", ")
}

func (c *Console) showPage(r *request) error {
	var p sitePagePage
	path := "/pages/" + url.PathEscape(r.http.PathValue("page_id"))
	var err error
	if p.Tag, err = r.get(&p.Page, path, nil); err != nil {
		return err
	}
	if _, err := r.get(&p.Audiences, path+"/audiences", url.Values{"limit": {"100"}}); err != nil {
		return err
	}
	if _, err := r.get(&p.Previews, path+"/previews", nil); err != nil {
		return err
	}
	if err := r.heavily(func() error {
		for _, shown := range []struct {
			title, name string
			text        jsontext.Value
		}{{"Actions", "actions", p.Page.Actions}, {"Scripts", "scripts", p.Page.Scripts}, {"Footer links", "footerLinks", p.Page.FooterLinks}} {
			tree, err := parseNode(shown.text)
			if err != nil {
				return err
			}
			text, cut := raw(shown.text)
			p.Parts = append(p.Parts, part{shown.title, text, cut, tree, shapes[shown.name].rows(shown.name, string(shown.text))})
		}
		return nil
	}); err != nil {
		return err
	}
	return r.show("page", "pages", p.Page.Name, p)
}

// pageActions are the actions on a page that need no further input.
var pageActions = map[string]bool{"publish": true, "unpublish": true, "archive": true, "restore": true, "undelete": true}

// changePage publishes, archives or deletes a page, or undoes that. The form has the state that the user has seen.
func (c *Console) changePage(r *request) error {
	action := r.http.PathValue("action")
	change := call{method: http.MethodPost, path: r.pagePath() + "/" + action, ifMatch: r.form("tag")}
	message := action
	switch {
	case action == "delete":
		change.method, change.path, message = http.MethodDelete, r.pagePath(), "pagedeleted"
	case !pageActions[action]:
		return atrium.NotFound()
	}
	if _, err := r.call(change); err != nil {
		return err
	}
	return r.redirect(r.path("pages", r.http.PathValue("page_id")), message)
}
