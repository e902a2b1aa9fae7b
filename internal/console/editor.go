package console

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// A field is a field of the editor of pages.
type field struct {
	Name, Title, Value, Help string
	Rows                     int      // of a text area; 0 for a line
	JSON                     bool     // the value is a JSON text
	Seen                     string   // the current value, which the next save is compared with
	Theirs                   string   // the stored value that differs from what the user has seen
	List                     *rowList // fields for the elements of a list; nil if there are none
	Options                  []option // to choose from; nil for all values
	Changed                  bool     // since the user has seen it: Theirs is set
	Advanced                 bool     // most pages do not need it
}

// An option is a value that can be chosen.
type option struct{ Value, Title string }

// An editor is a form with the fields of a page.
type editor struct {
	Page   sitePage
	Tag    string // what the user has seen
	Fields []field
	Public bool
	Clash  bool // the page has changed since the user opened it
}

// ChangedAdvanced reports whether an advanced field has changed since.
func (e *editor) ChangedAdvanced() bool {
	return slices.ContainsFunc(e.Fields, func(f field) bool { return f.Advanced && f.Changed })
}

// pageFields returns the fields of a page.
func pageFields(p *sitePage) []field {
	fields := []field{
		{Name: "name", Title: "Name", Value: p.Name, Help: "For you; visitors do not see it."},
		{Name: "title", Title: "Title", Value: p.Title, Help: "What visitors see."},
		{Name: "pageContext", Title: "Context", Value: p.PageContext, Rows: 3, Help: "About the visitors of the page."},
		{Name: "actions", Title: "Actions", Value: indent(p.Actions), Rows: 10, JSON: true, Help: "Buttons and links."},
		{Name: "headerActionId", Title: "Action in the header", Value: p.HeaderActionID, Options: headers(p)},
		{Name: "scripts", Title: "Scripts", Value: indent(p.Scripts), Rows: 8, JSON: true, Help: "What the site runs.", Advanced: true},
		{Name: "footerLinks", Title: "Footer links", Value: indent(p.FooterLinks), Rows: 8, JSON: true, Help: "Groups of links."},
		{Name: "maxAgeSeconds", Title: "Cache time in seconds", Value: strconv.FormatInt(p.MaxAgeSeconds, 10), Help: "How long browsers and proxies may keep the page.", Advanced: true},
	}
	for i := range fields {
		fields[i].Seen = fields[i].Value
		fields[i].list()
	}
	return fields
}

// list sets the fields for the elements of the value, if they have the conventional form.
func (f *field) list() {
	if s := shapes[f.Name]; s != nil {
		f.List = s.rows(f.Name, f.Value)
	}
}

// headers returns the actions that the header of a page can have.
func headers(p *sitePage) []option {
	options := []option{{"", "none"}}
	var actions []struct {
		ID    string `json:"actionId"`
		Title string `json:"buttonTitle"`
	}
	_ = json.Unmarshal(p.Actions, &actions) // those of another form are not listed
	for _, a := range actions {
		if a.ID != "" {
			options = append(options, option{a.ID, cmp.Or(a.Title, a.ID)})
		}
	}
	if p.HeaderActionID != "" && !slices.ContainsFunc(options, func(o option) bool { return o.Value == p.HeaderActionID }) {
		options = append(options, option{p.HeaderActionID, p.HeaderActionID})
	}
	return options
}

// entered returns what the user has entered into a field, and why that is refused. A list can be changed by its
// fields or as JSON; the form has the JSON that the fields are based on.
func entered(name string, form url.Values) (value, fault string) {
	value = lines(form.Get(name))
	base := lines(form.Get("base:" + name))
	if s := shapes[name]; s != nil && form.Has("base:"+name) {
		built, err := s.build(name, jsontext.Value(base), form)
		switch {
		case err != nil:
			return value, err.Error()
		case string(built) == base: // not changed by its fields
		case value == base:
			value = indent(built)
		default:
			return value, "is changed both as JSON and in its fields: the fields are as before, the JSON is as you have entered it"
		}
	}
	return value, ""
}

func (r *request) pagePath() string { return "/pages/" + url.PathEscape(r.http.PathValue("page_id")) }

func (c *Console) editPage(r *request) error {
	if err := r.require(atrium.ScopeManagePages); err != nil {
		return err
	}
	var e editor
	var err error
	if e.Tag, err = r.get(&e.Page, r.pagePath(), nil); err != nil {
		return err
	}
	if err := r.heavily(func() error { e.Fields, e.Public = pageFields(&e.Page), e.Page.Public; return nil }); err != nil {
		return err
	}
	return r.show("edit", "pages", "Edit "+e.Page.Name, &e)
}

// savePage changes the fields of a page that the user has changed. Hidden fields have what the user has seen.
// If the page has changed since, it shows both changes and saves nothing.
func (c *Console) savePage(r *request) error {
	e := editor{Tag: r.form("tag"), Public: r.form("public") == "true"}
	body := map[string]any{}
	var faults []atrium.Fault
	if e.Public != (r.form("seen:public") == "true") {
		body["public"] = e.Public
	}
	if err := r.heavily(func() error {
		e.Fields = pageFields(&e.Page)
		for i := range e.Fields {
			f := &e.Fields[i]
			var fault string
			f.Value, fault = entered(f.Name, r.http.PostForm)
			if changed := f.Value != lines(r.http.PostForm.Get("seen:"+f.Name)); fault == "" && changed {
				if body[f.Name] = f.Value; f.JSON || f.Name == "maxAgeSeconds" {
					value := jsontext.Value(strings.TrimSpace(f.Value))
					if fault = faultOf(value); fault != "" && !f.JSON {
						fault = "must be a whole number"
					}
					body[f.Name] = value
				}
			}
			if fault != "" {
				faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/" + f.Name, Detail: fault})
			}
			if f.Name == "headerActionId" && body[f.Name] == "" {
				body[f.Name] = nil
			}
		}
		return nil
	}); err != nil {
		return err
	}
	var err error
	switch {
	case len(faults) > 0:
		err = &atrium.Error{Code: atrium.CodeInvalidRequest, Faults: faults}
	case len(body) == 0:
		return r.redirect(r.path("pages", r.http.PathValue("page_id")), "unchanged")
	default:
		_, err = r.call(call{method: http.MethodPatch, path: r.pagePath(), ifMatch: e.Tag, body: body})
	}
	if atrium.CodeOf(err) == atrium.CodePreconditionFailed {
		e.Clash = true
		return r.showEditor(e, http.StatusPreconditionFailed)
	}
	if err := r.refuse(err); err != nil {
		return err
	}
	if r.refused != nil {
		return r.showEditor(e, statusOf(r.refused))
	}
	return r.redirect(r.path("pages", r.http.PathValue("page_id")), "page")
}

// faultOf says where and why a text is not a JSON value; "" if it is one.
func faultOf(value jsontext.Value) string {
	if value.IsValid() {
		return ""
	}
	d := jsontext.NewDecoder(bytes.NewReader(value))
	_, err := d.ReadValue()
	at, reason := d.InputOffset(), "more than one value"
	if err != nil {
		at, reason = int64(len(value)), "it ends too early"
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		at, reason = e.ByteOffset, e.Err.Error()
	}
	before := string(value[:min(at, int64(len(value)))])
	return fmt.Sprintf("is not valid JSON: line %d, column %d: %s", strings.Count(before, "\n")+1,
		utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])+1, reason)
}

// lines returns the text of a form with the line breaks of the API.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// showEditor shows what the user has entered again, beside the current state of the page. The next save is
// based on that state.
func (r *request) showEditor(e editor, status int) error {
	tag, err := r.get(&e.Page, r.pagePath(), nil)
	if err != nil {
		return err
	}
	var current []field
	if err := r.heavily(func() error { current = pageFields(&e.Page); return nil }); err != nil {
		return err
	}
	for i := range e.Fields {
		e.Fields[i].Seen = current[i].Value
	}
	if e.Clash = e.Clash || tag != e.Tag; e.Clash {
		e.Tag = tag
		for i := range e.Fields {
			f := &e.Fields[i]
			if seen := lines(r.http.PostForm.Get("seen:" + f.Name)); current[i].Value != seen {
				f.Changed, f.Theirs = true, current[i].Value
				if f.Value == seen { // the user has not changed it
					f.Value = f.Theirs
				}
			}
		}
	}
	if err := r.heavily(func() error {
		for i := range e.Fields {
			f := &e.Fields[i]
			f.list()
			f.Options = current[i].Options
		}
		return nil
	}); err != nil {
		return err
	}
	return r.showStatus(status, "edit", "pages", "Edit "+e.Page.Name, &e)
}

func (c *Console) newPage(r *request) error {
	if err := r.require(atrium.ScopeManagePages); err != nil {
		return err
	}
	var brands list[brand]
	if _, err := r.get(&brands, "/brands", url.Values{"limit": {"100"}}); err != nil {
		return err
	}
	return r.show("newpage", "pages", "New page", brands)
}

func (c *Console) createPage(r *request) error {
	brandID := r.form("brandId")
	if name := r.form("brandName"); brandID == "" {
		a, err := r.call(call{method: http.MethodPost, path: "/brands", body: map[string]any{"name": name}})
		if err != nil {
			return at("brandName", err)
		}
		var made brand
		if err := json.Unmarshal(a.body, &made); err != nil {
			return err
		}
		brandID, r.kept = made.BrandID, "The brand was created, the page was not."
	}
	a, err := r.call(call{method: http.MethodPost, path: "/pages", body: map[string]any{"brandId": brandID, "name": r.form("name"), "title": r.form("title")}})
	if err != nil {
		return err
	}
	var made sitePage
	if err := json.Unmarshal(a.body, &made); err != nil {
		return err
	}
	return r.redirect(r.path("pages", string(made.PageID), "edit"), "pagecreated", made.Name)
}

// schedulePage sets when a page is published and unpublished, or removes the schedule if both are empty. It refuses what
// would have no effect, which the API allows, because the status of the page can change first.
func (c *Console) schedulePage(r *request) error {
	schedule := map[string]any{}
	for _, name := range []string{"publishAt", "unpublishAt"} {
		if at := r.form(name); at != "" {
			schedule[name] = at + ":00Z" // a datetime-local input has minutes
		}
	}
	var p sitePage
	if _, err := r.get(&p, r.pagePath(), nil); err != nil {
		return err
	}
	p.Schedule.PublishAt, p.Schedule.UnpublishAt = r.form("publishAt"), r.form("unpublishAt")
	var faults []atrium.Fault
	if p.Schedule.PublishAt != "" && !p.Publishes() {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/publishAt", Detail: "has no effect: the page is " + p.State()})
	}
	if p.Schedule.UnpublishAt != "" && !p.Unpublishes() {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/unpublishAt", Detail: "has no effect: the page is " + p.State()})
	}
	if len(faults) > 0 {
		return &atrium.Error{Code: atrium.CodeConflict, Detail: "The schedule has no effect.", Faults: faults}
	}
	change := call{method: http.MethodPut, path: r.pagePath() + "/schedule", body: schedule}
	if len(schedule) == 0 {
		change = call{method: http.MethodDelete, path: r.pagePath() + "/schedule"}
	}
	if _, err := r.call(change); err != nil {
		return err
	}
	return r.redirect(r.path("pages", r.http.PathValue("page_id")), "schedule")
}
