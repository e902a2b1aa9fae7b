package console

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"atrium"
	"atrium/internal/rest"
)

// A request is a request of a signed-in user.
type request struct {
	console *Console
	w       http.ResponseWriter
	http    *http.Request
	token   string // of the session
	session atrium.Session
	user    atrium.User
	tenant  atrium.TenantID // in the path; "" for none

	made struct { // a page to send; nil for none
		status int
		page   []byte
	}

	reserved func() // returns the memory that once has reserved; nil for none

	refused  error  // what is wrong with what the user has entered; nil for nothing
	formPath string // that the refused form was sent to, with its parameters
	refill   bool   // the form shows what the user has entered; otherwise its template does
	kept     string // what was changed before that; "" for nothing
}

// A page handles a request of a signed-in user. An error is shown as a page.
type page func(*request) error

// policy is the content security policy of every page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxContentType is the maximum length of a Content-Type that is parsed.
const maxContentType = 1 << 10

// prepare sets the headers of all responses, and refuses changes that another site sends. Unlike those of
// the API, forms need the header Origin, which browsers do not send without a referrer.
func prepare(next func(http.ResponseWriter, *http.Request)) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if err := protection.Check(r); err != nil {
			showError(w, atrium.Errorf(atrium.CodeForbidden, "Another site sent this form. Open the console, and try there."))
			return
		}
		if len(r.Header.Get("Content-Type")) > maxContentType {
			showError(w, atrium.Errorf(atrium.CodeUnsupportedMediaType, "The Content-Type is too long."))
			return
		}
		next(w, r)
	})
}

// setHeaders sets the headers of every page.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// anyone returns a handler for everyone.
func (c *Console) anyone(handle func(http.ResponseWriter, *http.Request)) http.Handler {
	return prepare(handle)
}

// signedIn returns the handler of a page for users.
func (c *Console) signedIn(handle page) http.Handler {
	return c.user(func(r *request) error { return r.serve(handle, 0) })
}

// change returns the handler of a form. It is not read if the role of the user does not allow the change.
func (c *Console) change(f form) http.Handler {
	return c.user(func(r *request) error {
		err := r.findTenant()
		if err == nil && f.operators && r.user.TenantID != "" {
			err = atrium.NotFound()
		}
		if err == nil {
			err = r.require(f.scope)
		}
		if err != nil {
			return err
		}
		return r.serve(f.page, cmp.Or(f.size, maxForm))
	})
}

// stream returns the handler of a download or upload for users.
func (c *Console) stream(handle page) http.Handler {
	return c.user(func(r *request) error {
		release, err := rest.Admit(r.http.Context(), r.w, c.Streams, r.user.TenantID)
		if err != nil {
			return err
		}
		defer release()
		return r.open(handle)
	})
}

// user returns a handler for users. Others are sent to the sign-in.
func (c *Console) user(handle page) http.Handler {
	return prepare(func(w http.ResponseWriter, plain *http.Request) {
		r := &request{console: c, w: w, http: plain, token: c.sessionToken(plain)}
		if r.token == "" {
			http.Redirect(w, plain, loginPath, http.StatusSeeOther)
			return
		}
		var err error
		r.session, r.user, err = c.Sessions.User(plain.Context(), r.token)
		switch {
		case atrium.CodeOf(err) == atrium.CodeUnauthenticated:
			c.visitors.forget(r.token)
			c.setCookie(w, plain, "")
			http.Redirect(w, plain, loginPath+"?done=expired", http.StatusSeeOther)
			return
		case err == nil:
			c.visitors.remember(r.token)
			x := rest.ExchangeOf(w)
			x.TenantID, x.UserID = r.user.TenantID, r.user.ID
			err = handle(r)
			for _, read := range []*http.Request{plain, r.http} { // a browser may read the page slowly: let go of the form
				read.Body, read.Form, read.PostForm = http.NoBody, nil, nil
			}
			if err == nil && r.made.page != nil { // after the slots that the handler held
				err = r.sendMade(r.user.TenantID)
			}
			if r.reserved != nil {
				r.reserved()
			}
		}
		if err != nil {
			r.fail(err) //nolint:contextcheck // as above
		}
	})
}

// serve reads the form, of at most the given bytes, and makes the page when the tenant of the user may.
func (r *request) serve(handle page, most int64) error {
	for name, values := range r.http.URL.Query() {
		if !utf8.ValidString(name + strings.Join(values, "")) {
			return atrium.Errorf(atrium.CodeInvalidRequest, "The address is not valid UTF-8.")
		}
	}
	if r.http.Method == http.MethodPost {
		release, err := r.readForm(most)
		if err != nil {
			return err
		}
		defer release()
	}
	release, err := r.admitPage()
	if err != nil {
		return err
	}
	defer release()
	return r.open(handle)
}

// errPages is the error of a page that is not made, because its tenant makes too many.
var errPages = errors.New("too many pages of the tenant")

// admitPage waits until the tenant of the user may make a page.
func (r *request) admitPage() (release func(), err error) {
	release, err = rest.Admit(r.http.Context(), r.w, r.console.Pages, r.user.TenantID)
	if err != nil {
		return nil, errors.Join(errPages, err)
	}
	return release, nil
}

// readForm reads the form, of at most the given bytes. Call release when the form is no longer needed.
func (r *request) readForm(most int64) (release func(), err error) {
	body, release, err := r.console.Limits.ReadBody(r.w, r.http, r.user.TenantID, most)
	if err != nil {
		return nil, err
	}
	r.http.Body = io.NopCloser(bytes.NewReader(body))
	if err := r.parseForm(); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (r *request) parseForm() error {
	if err := r.heavily(r.http.ParseForm); err != nil {
		return formError(err)
	}
	for name, values := range r.http.PostForm {
		if !utf8.ValidString(name + strings.Join(values, "")) {
			return atrium.Errorf(atrium.CodeInvalidRequest, "The form is not valid UTF-8.")
		}
	}
	return nil
}

// sendMade sends the page that a handler has made, and counts its memory as that of a tenant until the browser has
// read it.
func (r *request) sendMade(tenant atrium.TenantID) error {
	size := len(r.made.page)
	if r.reserved != nil {
		size -= maxOnce
	}
	release, err := r.console.Limits.HoldResponse(r.w, tenant, size)
	if err != nil && r.reserved == nil { // what is reserved bounds how much larger such pages are together
		return errors.Join(errUnshown, err)
	}
	defer release()
	rest.Write(r.w, r.http, r.made.status, typeHTML, r.made.page)
	return nil
}

// errUnshown is the error of a page that was made, but that there is no memory to send.
var errUnshown = errors.New("no memory to send the page")

// maxOnce is how many bytes are reserved for a page that once is for. Few such pages are larger.
const maxOnce = 256 << 10

// once is call for a change after which a page shows what cannot be shown again, such as a secret. The memory of the page is
// reserved before the change is made.
func (r *request) once(c call) (a answer, err error) {
	if r.reserved, err = r.console.Limits.HoldResponse(r.w, r.user.TenantID, maxOnce); err != nil {
		return a, err
	}
	return r.call(c)
}

// again returns a page that makes a change. If the service refuses what the user has entered, the page shows
// the form again, with the input. The path of the form has some segments more than that of the page.
func again(change, show page, segments int) page {
	return func(r *request) error {
		if err := r.refuse(change(r)); err != nil || r.refused == nil {
			return err
		}
		r.refill = true
		at := *r.http.URL
		for range segments {
			at.Path = path.Dir(at.Path)
		}
		r.http = r.http.WithContext(r.http.Context())
		r.http.URL = &at
		return show(r)
	}
}

// A question is what a user confirms before a change.
type question struct {
	Text   string
	Path   string // of the form
	Back   string // the address of the page with the form
	Fields url.Values
}

// Title returns what the question asks about, for the button.
func (q question) Title() string {
	title, _, _ := strings.Cut(q.Text, "? ")
	return strings.TrimSuffix(title, "?")
}

// Bounds of a form with a question, whose fields the page with the question has again.
const (
	maxAsked       = 16 << 10 // bytes of names and values
	maxAskedValues = 100
)

// ask shows the question that a form has. A script asks it in the page, and adds the field confirmed.
func (r *request) ask() error {
	size, count := 0, 0
	for name, values := range r.http.PostForm {
		for _, value := range values {
			size, count = size+len(name)+len(value), count+1
		}
	}
	if size > maxAsked || count > maxAskedValues {
		return atrium.Errorf(atrium.CodePayloadTooLarge, "The form of a question may have at most %d values with %s.", maxAskedValues, showBytes(maxAsked))
	}
	q := question{Text: atrium.Shorten(maxSummary, r.form("question")), Path: r.http.URL.RequestURI(), Back: prefix, Fields: r.http.PostForm}
	if from, err := url.Parse(r.http.Referer()); err == nil && from.Host == r.http.Host && strings.HasPrefix(from.Path, prefix+"/") {
		q.Back = from.RequestURI()
	}
	return r.show("confirm", "", "Confirm", q)
}

// require returns an error unless the user has a scope. Pages with forms call it, so that nobody fills in a form in
// vain; the API checks each change.
func (r *request) require(scope atrium.Scope) error {
	if r.may(scope) {
		return nil
	}
	return atrium.Errorf(atrium.CodeForbidden, "The role %s does not allow this. Ask an admin.", r.user.Role)
}

// findTenant returns an error unless the user may see the tenant that the path names.
func (r *request) findTenant() error {
	if text := r.http.PathValue("tenant_id"); text != "" {
		tenant, ok := atrium.ParseID[atrium.TenantID](text)
		if !ok || r.user.TenantID != "" && r.user.TenantID != tenant {
			return atrium.NotFound()
		}
		r.tenant = tenant
	}
	return nil
}

// open calls the handler of a page if the user may see the tenant that the path names. A form with a question is
// not handled before the user has confirmed it.
func (r *request) open(handle page) error {
	if err := r.findTenant(); err != nil {
		return err
	}
	if r.http.Method == http.MethodPost && r.form("question") != "" && r.form("confirmed") == "" {
		return r.ask()
	}
	return handle(r)
}

// heavily calls f when the tenant may do heavy work. f does not call the API, whose operations wait for the
// same slots.
func (r *request) heavily(f func() error) error {
	tenant := r.tenant
	if tenant == "" {
		tenant = r.user.TenantID
	}
	release, err := rest.Admit(r.http.Context(), r.w, r.console.Limits.Heavy, tenant)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

func formError(err error) error {
	if atrium.CodeOf(err) == atrium.CodeUnavailable {
		return err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return atrium.Errorf(atrium.CodePayloadTooLarge, "The form is too large.")
	}
	return atrium.Errorf(atrium.CodeInvalidRequest, "The form cannot be read.")
}

// form returns a field of a form, without surrounding white space.
func (r *request) form(name string) string { return strings.TrimSpace(r.http.PostForm.Get(name)) }

// query returns a parameter, without surrounding white space.
func (r *request) query(name string) string { return strings.TrimSpace(r.http.URL.Query().Get(name)) }

// path returns the path of a page about the tenant.
func (r *request) path(segments ...string) string {
	var path strings.Builder
	path.WriteString(prefix + "/" + string(r.tenant))
	for _, s := range segments {
		path.WriteString("/" + url.PathEscape(s))
	}
	return path.String()
}

// server returns the address of the server, as the browser has it.
func (r *request) server() string {
	if r.console.overTLS(r.http) {
		return "https://" + r.http.Host
	}
	return "http://" + r.http.Host
}

// may reports whether the role of the user has a scope.
func (r *request) may(scope atrium.Scope) bool { return r.user.Role.Scopes().Has(scope) }
