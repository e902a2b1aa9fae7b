package console

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"atrium"
	"atrium/internal/rest"
)

// A frame is what every page shows around its content.
type frame struct {
	Title   string
	Section string // the entry of the navigation that is current
	User    atrium.User
	Tenant  tenant   // zero on pages about no tenant
	Done    string   // a message about a change; "" for none
	Refused *failure // why the change was refused that the user asked for; nil for none
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

// usualSize is the size in bytes for which room is made for a page.
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

// A section is an entry of the navigation.
type section struct {
	name            constant // and the last segment of the path
	title, shortcut constant
	apart           bool         // it begins a group: connections, or administration
	needs           atrium.Scope // of its page; "" for none
}

// sections are the entries of the navigation, the home of the tenant first.
var sections = []section{
	{name: "overview", title: "Overview", shortcut: "o"},
	{name: "accounts", title: "Accounts", shortcut: "a"},
	{name: "activity", title: "Activity", shortcut: "t"},
	{name: "prospects", title: "Prospects", shortcut: "r"},
	{name: "pages", title: "Pages", shortcut: "p"},
	{name: "receivers", title: "Receivers", shortcut: "e", apart: true, needs: atrium.ScopeManageReceivers},
	{name: "webhooks", title: "Webhooks", shortcut: "w", needs: atrium.ScopeManageEvents},
	{name: "keys", title: "Keys", shortcut: "k"},
	{name: "people", title: "Users", shortcut: "u", apart: true},
	{name: "privacy", title: "Privacy", shortcut: "y"},
	{name: "audit", title: "Audit log", shortcut: "l"},
	{name: "refused", title: "Refused requests", shortcut: "f"},
	{name: "transfer", title: "Import and export", shortcut: "i"},
}

// HasSections reports whether the page has the navigation of a tenant.
func (f frame) HasSections() bool { return f.request != nil && f.Tenant.TenantID != "" }

// visibleSections returns the sections that the user may open. If the first of a group is hidden, the next one begins the
// group.
func (f frame) visibleSections() []section {
	visible := make([]section, 0, len(sections))
	apart := false
	for _, s := range sections {
		apart = apart || s.apart
		if s.needs == "" || f.request.may(s.needs) {
			s.apart, apart = apart, false
			visible = append(visible, s)
		}
	}
	return visible
}

// SectionTitle returns the title of the current section, or what the closed navigation is called on other pages.
func (f frame) SectionTitle() string {
	for _, s := range sections {
		if string(s.name) == f.Section {
			return string(s.title)
		}
	}
	return "Menu"
}

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

// Sections returns the navigation of a tenant.
func (f frame) Sections() template.HTML {
	var m markup
	home := f.Path()
	for _, s := range f.visibleSections() {
		m.add("\n<li")
		if s.apart {
			m.add(` class="apart"`)
		}
		m.text("><a href=\"", home)
		if s.name != sections[0].name {
			m.add("/" + s.name)
		}
		m.add("\" data-shortcut=\"" + s.shortcut + "\"")
		if string(s.name) == f.Section {
			m.add(` aria-current="page"`)
		}
		m.add(">" + s.title + "</a></li>")
	}
	return m.HTML()
}

// Shortcuts returns the shortcuts to the sections.
func (f frame) Shortcuts() template.HTML {
	var m markup
	for _, s := range f.visibleSections() {
		m.add("<div><dt><kbd>g</kbd> <kbd>" + s.shortcut + "</kbd></dt><dd>" + s.title + "</dd></div>")
	}
	return m.HTML()
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

// A failure is an error as a page shows it.
type failure struct {
	Title, Detail, RequestID string
	Faults                   []shownFault
	Kept                     string // what was changed nevertheless
	Busy                     bool   // so it is unknown who is signed in
}

// fail shows an error as a page of the tenant. That costs as much as any page, so if the tenant makes too many, it shows the page for
// that, which costs nothing.
func (r *request) fail(err error) {
	if errors.Is(err, errPages) {
		sendBusy(r.w)
		return
	}
	if atrium.CodeOf(err) == atrium.CodeInternal {
		r.console.Log.ErrorContext(r.http.Context(), "a page of the console failed", "requestId", rest.ExchangeOf(r.w).RequestID, "error", err)
	}
	if r.tenant == "" {
		r.tenant = r.user.TenantID // a page about no tenant, or about another one: show the user's own navigation
	}
	release, busy := r.admitPage()
	if busy != nil {
		sendBusy(r.w)
		return
	}
	f := r.frame("Error")
	if err := r.nameTenant(&f); err != nil {
		f.Tenant = tenant{} // no navigation
	}
	status, page := errorPage(r.w, f, err)
	release() // before the browser reads
	send(r.w, status, page)
}

// busyPage is the page for users of a tenant that makes too many pages. It is the same for everyone.
var busyPage = sync.OnceValue(func() []byte {
	return makeErrorPage(frame{}, failure{Title: "Try again", Detail: "The service is busy. Look whether what you have changed was done, and try again.", Busy: true})
})

func sendBusy(w http.ResponseWriter) {
	rest.SetRetryAfter(w.Header(), &atrium.Error{Code: atrium.CodeUnavailable})
	send(w, http.StatusServiceUnavailable, busyPage())
}

// showError shows an error as a page without navigation.
func showError(w http.ResponseWriter, err error) {
	status, page := errorPage(w, frame{}, err)
	send(w, status, page)
}

// errorPage returns the page of an error, and sets the header Retry-After.
func errorPage(w http.ResponseWriter, f frame, err error) (status int, page []byte) {
	code := cmp.Or(atrium.CodeOf(err), atrium.CodeInternal)
	info := rest.Info(code)
	shown := failure{Title: info.Title, RequestID: rest.ExchangeOf(w).RequestID}
	if e, ok := asError(err); ok {
		shown.Detail, shown.Faults = e.Detail, showFaults(e.Faults)
		rest.SetRetryAfter(w.Header(), e)
	}
	switch code {
	case atrium.CodeForbidden:
		shown.Title = "Not allowed"
	case atrium.CodeNotFound:
		shown.Title = "Not found"
		if shown.Detail == "" || shown.Detail == atrium.NotFound().Detail { // which speaks of a key
			shown.Detail = notFoundDetail
		}
	case atrium.CodeUnavailable:
		shown.Title, shown.Detail = "Try again", "The service is busy or cannot reach its database. Nothing was changed."
		if errors.Is(err, errUnshown) {
			shown.Detail = "The service is busy and cannot show the page now. If you have changed something, that was done."
		}
	case atrium.CodeInternal:
		shown.Title, shown.Detail = "Something failed", "This is a fault of the service. Its log has the details, with this request ID."
	}
	return info.Status, makeErrorPage(f, shown)
}

func makeErrorPage(f frame, shown failure) []byte {
	f.Title, f.Content = shown.Title, shown
	var page bytes.Buffer
	_ = execute(&page, "error", f) // the template has no dependencies that can fail
	return page.Bytes()
}

// showTime shows an instant of the API, which a script changes to the zone of the browser.
func showTime(text string) template.HTML { return timeElement(text, "", "2 Jan 2006, 15:04 UTC") }

// showMoment shows an instant with its seconds.
func showMoment(text string) template.HTML {
	return timeElement(text, ` data-shown="second"`, "2 Jan 2006, 15:04:05 UTC")
}

// timeElement returns the element of an instant with attributes and a layout, which are constants.
func timeElement(text, attributes, layout string) template.HTML {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339Nano) + `" title="` + at.Format(exactTime) + `"` + attributes + `>` + //nolint:gosec // has digits and constants only
		at.Format(layout) + `</time>`)
}

// showDate shows the day of an instant, in UTC.
func showDate(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return at.UTC().Format("Monday, 2 January 2006")
}

// showClock shows the time of day of an instant under a heading with its day. A script groups instants by
// the days of the browser's zone.
func showClock(text string) template.HTML {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339Nano) + `" title="` + at.Format(exactTime) + `" data-shown="clock">` + //nolint:gosec // has digits and constants only
		at.Format("15:04 UTC") + `</time>`)
}

// exactTime is the format of an exact instant for people.
const exactTime = "2006-01-02 15:04:05.000 UTC"

// showBytes shows a number of bytes.
func showBytes(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// labels are the titles of the fields of forms, by the members that the API names.
var labels = map[string]string{
	"name": "Name", "title": "Title", "domain": "Domain", "role": "Role", "scopes": "Scopes", "expiresInSeconds": "Last day",
	"email": "E-mail", "phoneNumber": "Telephone", "slug": "Slug", "linkedinProfileUrl": "LinkedIn",
	"claimedName": "Name in the entry", "claimedDomain": "Domain in the entry", "publishAt": "Publish at", "unpublishAt": "Unpublish at", "content": "Content", "group": "Group", "issuer": "Identity provider", "origins": "Sites", "accountId": "Account",
	"url": "URL", "eventTypes": "Types", "sources": "Sources", "entryTypes": "Types of entries", "filter": "Condition", "rateLimit": "Rate", "headers": "Headers",
	"q": "The search", "since": "From", "until": "Until", "rate": "Rate", "provider": "Provider", "source": "Source", "secret": "Secret",
	"rule": "The search", "rule/text": "E-mail address or other text", "rule/textContains": "Part of a text", "rule/prospectEmail": "E-mail address of a prospect",
	"rule/claimedName": "Name in the entry", "rule/claimedDomain": "Domain in the entry", "rule/source": "Source", "rule/type": "Type",
	"rule/payload/pointer": "Field of the payload", "rule/payload/equals": "Value of the field",
	"mapping/type": "Type", "mapping/domain": "Domain of the account", "mapping/email": "E-mail address", "mapping/name": "Name of the account",
	"mapping/accountId": "ID of the account", "mapping/occurredAt": "Time", "mapping/eventId": "ID of the event", "mapping/filter": "Condition",
	"verification": "Verification", "verification/header": "Header", "verification/algorithm": "Algorithm", "verification/encoding": "Encoding",
	"verification/prefix": "Prefix", "verification/content": "What is signed", "verification/timestampHeader": "Header with the time",
	"verification/idHeader": "Header with the ID", "verification/tolerance": "Tolerance", "verification/username": "User name",
}

// label returns the title of the field that a fault is about, or the name of what is not in a form.
func label(where string) string {
	if title := labels[strings.TrimPrefix(where, "/")]; title != "" {
		return title
	}
	return where
}

// minute returns an instant of the API as the value of an input field, in UTC.
func minute(text string) string {
	const format = "2006-01-02T15:04"
	return text[:min(len(format), len(text))]
}

// showCount shows a number with separators of thousands.
func showCount(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
