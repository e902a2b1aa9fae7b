package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// A version is a version of an audience as the API shows it.
type version struct {
	ID            string         `json:"id"`
	VersionNumber int64          `json:"versionNumber"`
	Archived      bool           `json:"archived"`
	Published     bool           `json:"published"`
	Note          string         `json:"note"`
	CreatedAt     string         `json:"createdAt"`
	Content       jsontext.Value `json:"content"`
}

// Raw returns the content as text.
func (v version) Raw() string { return indent(v.Content) }

func (r *request) audiencePath() string {
	return r.pagePath() + "/audiences/" + url.PathEscape(r.http.PathValue("audience_id"))
}

func (r *request) versionPath() string {
	return r.audiencePath() + "/versions/" + url.PathEscape(r.http.PathValue("number"))
}

// own returns the path of a page about the audience.
func (r *request) own() string {
	return r.path("pages", r.http.PathValue("page_id"), "audiences", r.http.PathValue("audience_id"))
}

type audiencePage struct {
	Page     sitePage
	Audience audience
	Tag      string // what the user has seen of Audience
	Versions list[version]
	Own      string        // the path of the page
	Draft    string        // the content that a new version starts with
	Texts    []contentText // of Draft
	Note     string
	Fault    string // why the new version was refused; "" for none
	New      bool   // show the form
}

func (c *Console) createAudience(r *request) error {
	a, err := r.call(call{method: http.MethodPost, path: r.pagePath() + "/audiences", body: map[string]any{"name": r.form("name")}})
	if err != nil {
		return err
	}
	var made audience
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	return r.redirect(r.path("pages", r.http.PathValue("page_id"), "audiences", string(made.AudienceID)), "created")
}

func (c *Console) showAudience(r *request) error {
	return r.showAudience(audiencePage{}, http.StatusOK)
}

func (r *request) showAudience(p audiencePage, status int) error {
	if _, err := r.get(&p.Page, r.pagePath(), nil); err != nil {
		return err
	}
	var err error
	if p.Tag, err = r.get(&p.Audience, r.audiencePath(), nil); err != nil {
		return err
	}
	if p.Versions, err = readList[version](r, r.audiencePath()+"/versions"); err != nil {
		return err
	}
	p.Own = r.own()
	if p.Draft == "" && len(p.Versions.Items) > 0 {
		var last version
		if _, err := r.get(&last, r.audiencePath()+"/versions/"+strconv.FormatInt(p.Versions.Items[0].VersionNumber, 10), nil); err != nil {
			return err
		}
		if err := r.heavily(func() error { p.Draft = last.Raw(); return nil }); err != nil {
			return err
		}
	}
	if p.Draft == "" {
		p.Draft = firstContent
	}
	if err := r.heavily(func() error { p.Texts = contentTexts(p.Draft); return nil }); err != nil {
		return err
	}
	return r.showStatus(status, "audience", "pages", p.Audience.Name, p)
}

// firstContent is what the first version of an audience starts with. What sites read in it is up to them.
const firstContent = `{
  "headline": "",
  "text": ""
}`

func (c *Console) createVersion(r *request) error {
	p := audiencePage{Draft: lines(r.http.PostForm.Get("content")), Note: r.form("note"), New: true}
	var content jsontext.Value
	if err := r.heavily(func() error {
		r.changeTexts(&p)
		content = jsontext.Value(strings.TrimSpace(p.Draft))
		if fault := faultOf(content); fault != "" && p.Fault == "" {
			p.Fault = "The content " + fault + "."
		}
		return nil
	}); err != nil {
		return err
	}
	if p.Fault != "" {
		return r.showAudience(p, http.StatusBadRequest)
	}
	_, err := r.call(call{method: http.MethodPost, path: r.audiencePath() + "/versions", body: map[string]any{"content": content, "note": p.Note}})
	if problem, ok := asError(err); ok && problem.Code == atrium.CodeInvalidRequest {
		p.Fault = problem.Error()
		return r.showAudience(p, http.StatusBadRequest)
	}
	if err != nil {
		return err
	}
	return r.redirect(r.own(), "version")
}

// changeTexts puts the texts of the form into the content. The form has the content that they are based on.
func (r *request) changeTexts(p *audiencePage) {
	base := lines(r.http.PostForm.Get("base:content"))
	changed, _ := changeTexts(base, r.http.PostForm) // without texts, that is the base
	switch {
	case changed == base: // only JSON is changed
	case p.Draft == base:
		p.Draft = changed
	default:
		p.Fault = "The content is changed both as JSON and in its texts. The texts are as in the JSON that you have entered."
	}
}

// changeAudience renames or archives an audience, or restores it. The form has the state that the user has seen.
func (c *Console) changeAudience(r *request) error {
	change := call{method: http.MethodPost, path: r.audiencePath() + "/" + r.http.PathValue("action"), ifMatch: r.form("tag")}
	switch r.http.PathValue("action") {
	case "rename":
		change.method, change.path, change.body = http.MethodPatch, r.audiencePath(), map[string]any{"name": r.form("name")}
	case "archive", "restore":
	default:
		return atrium.NotFound()
	}
	if _, err := r.call(change); err != nil {
		return err
	}
	return r.redirect(r.own(), "audience")
}

// endPreview makes a preview stop working.
func (c *Console) endPreview(r *request) error {
	if _, err := r.call(call{method: http.MethodDelete, path: r.pagePath() + "/previews/" + url.PathEscape(r.http.PathValue("preview_id"))}); err != nil {
		return err
	}
	return r.redirect(r.path("pages", r.http.PathValue("page_id")), "previewended")
}

// versionActions are the actions on a version.
var versionActions = map[string]string{"publish": "published", "archive": "versionarchived", "restore": "versionrestored"}

func (c *Console) changeVersion(r *request) error {
	action := r.http.PathValue("action")
	if action == "preview" {
		return r.createPreview()
	}
	message, ok := versionActions[action]
	if !ok {
		return atrium.NotFound()
	}
	if _, err := r.call(call{method: http.MethodPost, path: r.versionPath() + "/" + action}); err != nil {
		return err
	}
	if action == "publish" {
		var p sitePage
		if _, err := r.get(&p, r.pagePath(), nil); err != nil {
			return err
		}
		if p.Status != "published" {
			message = "publishedlater"
		}
	}
	return r.redirect(r.own(), message)
}

type versionPage struct {
	Audience audience
	Version  version
	Own      string
	Bytes    int64
	Laid     node // the content; zero for none
	Partly   bool // Laid is only a part of it
	Raw      string
	Cut      bool     // Raw is only the beginning
	Preview  *preview // just created; nil for none
}

// A preview is a preview of a version as the API shows it.
type preview struct {
	PreviewID     string            `json:"previewId"`
	AudienceID    atrium.AudienceID `json:"audienceId"`
	VersionNumber int64             `json:"versionNumber"`
	CreatedAt     string            `json:"createdAt"`
	ExpiresAt     string            `json:"expiresAt"`
	Token         string            `json:"token"` // only of a new one
	Address       string            `json:"-"`     // of what a site receives
}

func (c *Console) showVersion(r *request) error { return r.showVersion(nil) }

// createPreview shows a new preview in its response, because its token can be shown only once.
func (r *request) createPreview() error {
	number, err := strconv.ParseInt(r.http.PathValue("number"), 10, 64)
	if err != nil {
		return atrium.NotFound()
	}
	a, err := r.once(call{
		method: http.MethodPost, path: r.pagePath() + "/previews",
		body: map[string]any{"audienceId": r.http.PathValue("audience_id"), "versionNumber": number},
	})
	if err != nil {
		return err
	}
	var made preview
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	made.Address = r.server() + "/content/v0/" + string(r.tenant) + r.audiencePath() + "?preview=" + url.QueryEscape(made.Token)
	return r.showVersion(&made)
}

func (r *request) showVersion(made *preview) error {
	p := versionPage{Own: r.own(), Preview: made}
	if _, err := r.get(&p.Audience, r.audiencePath(), nil); err != nil {
		return err
	}
	if _, err := r.get(&p.Version, r.versionPath(), nil); err != nil {
		return err
	}
	p.Bytes = int64(len(p.Version.Content))
	if err := r.heavily(func() error {
		p.Laid, p.Partly = layOut(p.Version.Content)
		p.Raw, p.Cut = raw(p.Version.Content)
		return nil
	}); err != nil {
		return err
	}
	return r.show("version", "pages", "Version "+strconv.FormatInt(p.Version.VersionNumber, 10), p)
}

type comparePage struct {
	Audience   audience
	From, To   version
	Own        string
	Difference *difference
}

// compareVersions shows what differs between two versions.
func (c *Console) compareVersions(r *request) error {
	p := comparePage{Own: r.own()}
	if _, err := r.get(&p.Audience, r.audiencePath(), nil); err != nil {
		return err
	}
	for name, v := range map[string]*version{"from": &p.From, "to": &p.To} {
		if _, err := r.get(v, r.audiencePath()+"/versions/"+url.PathEscape(r.query(name)), nil); err != nil {
			return err
		}
	}
	if err := r.heavily(func() error { p.Difference = compare(p.From.Content, p.To.Content); return nil }); err != nil {
		return err
	}
	return r.show("compare", "pages", "Compare versions", p)
}
