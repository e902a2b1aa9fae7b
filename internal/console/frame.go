package console

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"atrium"
)

// A frame is what every page shows around its content.
type frame struct {
	Title   string
	Section string // the entry of the navigation that is current
	User    atrium.User
	Tenant  tenant   // zero on pages about no tenant
	Done    string   // a message about a change; "" for none
	Refused *failure // why the user's change was refused; nil for none
	Content any

	request *request // nil if nobody is signed in
}

// A tenant is a tenant as the API shows it.
type tenant struct {
	TenantID  atrium.TenantID `json:"tenantId"`
	Name      string          `json:"name"`
	CreatedAt string          `json:"createdAt"`
	Deletion  *struct {
		RequestedAt string `json:"requestedAt"`
		Rows        int64  `json:"rows"` // that are deleted so far
	} `json:"deletion"` // only while the tenant is being deleted
}

// frame returns the frame of a page.
func (r *request) frame(title string) frame {
	f := frame{Title: title, User: r.user, Done: r.takeDone(title), request: r}
	f.Tenant.TenantID = r.tenant
	if r.refused != nil {
		f.Refused = &failure{Kept: r.kept}
		if r.kept == "" && r.http.Method == http.MethodPost {
			f.Refused.Kept = "Nothing was changed."
		}
		if e, ok := asError(r.refused); ok {
			f.Refused.Detail, f.Refused.Faults = e.Detail, showFaults(e.Faults)
		}
	}
	return f
}

// show shows a page.
func (r *request) show(name, section, title string, content any) error {
	status := http.StatusOK
	if r.refused != nil && r.http.Method == http.MethodPost {
		status = statusOf(r.refused)
	}
	return r.showStatus(status, name, section, title, content)
}

// usualSize is the initial size of the buffer for a page, in bytes.
const usualSize = 16 << 10

// showStatus shows a page with a status.
func (r *request) showStatus(status int, name, section, title string, content any) error {
	f := r.frame(title)
	f.Section, f.Content = section, content
	if err := r.nameTenant(&f); err != nil {
		return err
	}
	b := bytes.NewBuffer(make([]byte, 0, usualSize))
	var page []byte
	if err := r.heavily(func() (err error) {
		if err = execute(b, name, f); err != nil {
			return err
		}
		if page = b.Bytes(); r.refused != nil {
			page, err = r.showRefusal(page)
		}
		return err
	}); err != nil {
		return err
	}
	r.made.status, r.made.page = status, page
	return nil
}

// nameTenant sets the tenant that a page is about, if it is about one. The session has the name of the user's own.
func (r *request) nameTenant(f *frame) (err error) {
	switch r.tenant {
	case "":
	case r.user.TenantID:
		f.Tenant.Name = r.session.TenantName
	default:
		_, err = r.get(&f.Tenant, "/tenant", nil)
	}
	return err
}

// Path returns the path of a page about the tenant.
func (f frame) Path(segments ...string) string { return f.request.path(segments...) }

// May reports whether the user has a scope.
func (f frame) May(scope string) bool { return f.request.may(atrium.Scope(scope)) }

// SignedIn reports whether a user is signed in.
func (f frame) SignedIn() bool { return f.request != nil && f.User.ID != "" }

// IsOperator reports whether the user is an operator.
func (f frame) IsOperator() bool { return f.SignedIn() && f.User.TenantID == "" }

// Role returns the role of the user; "" if the name says the same.
func (f frame) Role() string {
	if strings.EqualFold(f.User.Name, string(f.User.Role)) {
		return ""
	}
	return string(f.User.Role)
}

// Searched returns the words in the search of the header.
func (f frame) Searched() string {
	if p, ok := f.Content.(findPage); ok {
		return p.Words
	}
	return ""
}

// An action is a button that changes the state that the user has seen, which a tag names.
type action struct {
	Path, Title, Tag string
	Question         string // before it is done; "" for none
}

// Ask returns the action with a question.
func (a action) Ask(question string) action {
	a.Question = question
	return a
}

// Act returns an action on what a path shows.
func (f frame) Act(path, name, title, tag string) action {
	return action{Path: path + "/" + name, Title: title, Tag: tag}
}

// functions are the functions of all templates.
var functions = template.FuncMap{
	"time": showTime, "moment": showMoment, "date": showDate, "clock": showClock, "bytes": showBytes, "count": showCount, "short": atrium.Shorten,
	"domain": showDomain, "minute": minute, "lower": strings.ToLower,
}

// pages returns the templates by name, each with the layout. The first call parses them: that takes
// longer than most commands, which show no page.
var pages = sync.OnceValue(parse)

func parse() map[string]*template.Template {
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	entries, err := files.ReadDir("templates")
	if err != nil {
		panic(err) //nolint:forbidigo // the templates are embedded
	}
	all := map[string]*template.Template{}
	for _, entry := range entries {
		page := template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+entry.Name()))
		all[strings.TrimSuffix(entry.Name(), ".html")] = page
	}
	return all
}

// execute writes a page.
func execute(b *bytes.Buffer, name string, f frame) error {
	if err := pages()[name].ExecuteTemplate(b, "layout", f); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	return nil
}

// render writes and sends a small page.
func render(w http.ResponseWriter, status int, name string, f frame) error {
	var page bytes.Buffer
	if err := execute(&page, name, f); err != nil {
		return err
	}
	send(w, status, page.Bytes())
	return nil
}

// typeHTML is the Content-Type of all pages: do not modify.
var typeHTML = []string{"text/html; charset=utf-8"}

// send sends a small page.
func send(w http.ResponseWriter, status int, page []byte) {
	h := w.Header()
	h["Content-Type"] = typeHTML
	h.Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(status)
	_, _ = w.Write(page) // the browser may have gone
}
