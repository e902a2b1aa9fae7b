package console

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"sync"

	"atrium"
	"atrium/internal/rest"
)

// A failure is an error as a page shows it.
type failure struct {
	Title, Detail, RequestID string
	Faults                   []shownFault
	Kept                     string // what was changed nevertheless
	Busy                     bool   // the session was not read
}

// fail shows an error as a page of the tenant. That costs as much as any page: a tenant with too many pages in the making gets
// busyPage, which is ready.
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

// busyPage is the page for users of a tenant that requests too many pages. It is the same for everyone.
var busyPage = sync.OnceValue(func() []byte {
	return makeErrorPage(frame{}, failure{Title: "Try again", Detail: "The service is busy. Check whether your change was saved, then try again.", Busy: true})
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
		shown.Title = "Try again"
		switch {
		case errors.Is(err, errUnshown):
			shown.Detail = "The service is busy and cannot show the page now. Your change, if any, was saved."
		case shown.Detail == atrium.Uncertain(nil).Detail:
			shown.Detail = "The service does not know whether your change was saved. Check it before you try again."
		case f.request != nil && f.request.kept != "":
			shown.Detail = "The service is busy or cannot reach its database. " + f.request.kept
		default:
			shown.Detail = "The service is busy or cannot reach its database. Nothing was changed."
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
