package console

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
)

// oneUser is a store with one user, who is signed in.
type oneUser struct {
	link    atrium.LoginLink
	hash    []byte
	session atrium.Session
	secret  []byte
}

func (s *oneUser) LoginLink(context.Context, atrium.LoginLinkID) (atrium.LoginLink, []byte, error) {
	return s.link, s.hash, nil
}

func (s *oneUser) UseLoginLink(_ context.Context, link atrium.LoginLink, session atrium.Session, hash []byte) (atrium.Session, error) {
	session.TenantID, session.UsedAt = link.TenantID, atrium.At(time.Now())
	s.session, s.secret = session, hash
	return session, nil
}

func (s *oneUser) Session(context.Context, atrium.SessionID) (atrium.Session, atrium.User, []byte, error) {
	return s.session, atrium.User{ID: atrium.NewID[atrium.UserID](), TenantID: s.link.TenantID, Role: atrium.RoleAdmin}, s.secret, nil
}

func (s *oneUser) UseSession(context.Context, *atrium.Session) error { return nil }

func (s *oneUser) EndSession(context.Context, atrium.Change, atrium.UserID, atrium.SessionID, func(atrium.Session) error) error {
	return nil
}

// newLimited returns a console whose API has empty lists, a tenant, and the header of its signed-in user.
func newLimited(t *testing.T) (c *Console, ask func(method, path string, form url.Values) int, tenant atrium.TenantID) {
	t.Helper()
	c, ask, tenant, _ = newLimitedSession(t)
	return c, ask, tenant
}

// newLimitedSession is newLimited with the token of the session.
func newLimitedSession(t *testing.T) (c *Console, ask func(method, path string, form url.Values) int, tenant atrium.TenantID, token string) {
	t.Helper()
	id, link, hash := auth.NewLoginToken()
	tenant = atrium.NewID[atrium.TenantID]()
	sessions := auth.NewSessions(&oneUser{link: atrium.LoginLink{ID: id, TenantID: tenant}, hash: hash}, time.Now, nil)
	token, _, err := sessions.SignIn(t.Context(), limit.Address("192.0.2.1:1"), link, "")
	if err != nil {
		t.Fatal(err)
	}
	one := limit.SemaphoreBounds{Slots: 1}
	c = &Console{
		Sessions: sessions, Pages: limit.NewSemaphore[atrium.TenantID](one), Downloads: limit.NewSemaphore[atrium.TenantID](one), Limits: &rest.Limits{Heavy: limit.NewSemaphore[atrium.TenantID](one)},
		API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"items":[],"name":"Tenant"}`) }),
	}
	mux := http.NewServeMux()
	for pattern, handler := range c.Handlers() {
		mux.Handle(pattern, handler)
	}
	return c, func(method, path string, form url.Values) int {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: plainCookie, Value: token})
		w := &slowReader{httptest.NewRecorder(), t, c.Limits.Heavy, c.Limits.Heavy.Held()}
		mux.ServeHTTP(w, r)
		return w.Code
	}, tenant, token
}

// A slowReader is a browser that reads slowly: while a response is sent to it, other requests must find a slot
// for heavy work.
type slowReader struct {
	*httptest.ResponseRecorder
	t      *testing.T
	slots  *limit.Semaphore[atrium.TenantID]
	before int
}

func (w *slowReader) Write(b []byte) (int, error) {
	if w.slots.Held() > w.before {
		w.t.Error("a response is sent while the request holds a slot for heavy work")
	}
	return w.ResponseRecorder.Write(b)
}

func TestFormsAreUTF8(t *testing.T) {
	_, ask, tenant := newLimited(t)
	path := prefix + "/" + string(tenant) + "/people"
	for _, form := range []url.Values{{"name": {"\xff"}, "role": {"viewer"}}, {"name": {"Robin"}, "\xff": {"viewer"}}} {
		if status := ask(http.MethodPost, path, form); status != http.StatusBadRequest {
			t.Errorf("%q: %d", form, status)
		}
	}
}

// Otherwise the pages of one tenant could fill the memory, or occupy every processor.
func TestPagesAreMadeWithinTheLimitsOfTheTenant(t *testing.T) {
	c, ask, tenant := newLimited(t)
	page := prefix + "/" + string(tenant) + "/accounts"
	for name, slots := range map[string]*limit.Semaphore[atrium.TenantID]{"pages": c.Pages, "heavy work": c.Limits.Heavy} {
		if status := ask(http.MethodGet, page, nil); status != http.StatusOK {
			t.Errorf("with free slots: %d", status)
		}
		if err := slots.Acquire(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		if status := ask(http.MethodGet, page, nil); status != http.StatusServiceUnavailable {
			t.Errorf("while all slots for %s are held: %d", name, status)
		}
		slots.Release("other")
		if c.Pages.Held() != 0 || c.Limits.Heavy.Held() != 0 {
			t.Errorf("%d and %d slots are held after the responses", c.Pages.Held(), c.Limits.Heavy.Held())
		}
	}
}

func TestFormsAreLimited(t *testing.T) {
	_, ask, tenant := newLimited(t)
	path := prefix + "/" + string(tenant) + "/people"
	for size, want := range map[int]int{10: http.StatusSeeOther, maxForm + 1: http.StatusRequestEntityTooLarge} {
		if status := ask(http.MethodPost, path, url.Values{"name": {strings.Repeat("a", size)}, "role": {"viewer"}}); status != want {
			t.Errorf("a form of %d bytes: %d, want %d", size, status, want)
		}
	}
}
