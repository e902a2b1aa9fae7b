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

func (s *oneUser) UseLoginLink(_ context.Context, link atrium.LoginLink, session atrium.Session, hash []byte, _ string) (atrium.Session, error) {
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
	token, _, err := sessions.SignIn(t.Context(), limit.Address("192.0.2.1:1"), link, "", "")
	if err != nil {
		t.Fatal(err)
	}
	one := limit.SemaphoreBounds{Slots: 1}
	c = &Console{
		Sessions: sessions, Pages: limit.NewSemaphore[atrium.TenantID](one), Streams: limit.NewSemaphore[atrium.TenantID](one), Limits: &rest.Limits{Heavy: limit.NewSemaphore[atrium.TenantID](one)},
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
		w := &slowReader{httptest.NewRecorder(), t, c, c.Limits.Heavy.Held() + c.Pages.Held()}
		mux.ServeHTTP(w, r)
		return w.Code
	}, tenant, token
}

// A slowReader is a browser that reads slowly: while a response is sent to it, other requests must find slots for
// pages and for heavy work.
type slowReader struct {
	*httptest.ResponseRecorder
	t      *testing.T
	c      *Console
	before int // slots held by others
}

func (w *slowReader) Write(b []byte) (int, error) {
	if w.c.Limits.Heavy.Held()+w.c.Pages.Held() > w.before {
		w.t.Error("a response is sent while the request holds a slot")
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

// Browsers that do not read must not fill the memory: a page that is sent counts toward the memory of its tenant.
func TestPagesThatAreSentCountAsMemory(t *testing.T) {
	c, ask, tenant := newLimited(t)
	rows := strings.Repeat(`{"accountId":"account_00000000000000000000000001","domain":"a.example"},`, 500)
	c.API = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[`+strings.TrimSuffix(rows, ",")+`],"name":"Tenant"}`)
	})
	path := prefix + "/" + string(tenant) + "/accounts"
	c.Limits.Bodies = limit.NewQuota[atrium.TenantID](1 << 20)
	if status := ask(http.MethodGet, path, nil); status != http.StatusOK {
		t.Errorf("with free memory: %d", status)
	}
	if !c.Limits.Bodies.Take(tenant, 1<<19) {
		t.Fatal("the memory of the first page is still held")
	}
	if status := ask(http.MethodGet, path, nil); status != http.StatusServiceUnavailable {
		t.Errorf("without memory: %d", status)
	}
}

// The responses of the API are streams that nothing limits but the data of the tenant.
func TestTheConsoleKeepsABoundedPartOfAResponse(t *testing.T) {
	c, _, tenant := newLimited(t)
	sent := 0
	c.API = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent = 0
		for range 32 {
			n, err := w.Write(make([]byte, 1<<20))
			if sent += n; err != nil {
				return
			}
		}
	})
	r := &request{console: c, tenant: tenant, w: httptest.NewRecorder(), http: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)}
	if _, err := r.call(call{method: http.MethodGet, path: "/accounts"}); atrium.CodeOf(err) != atrium.CodePayloadTooLarge || sent > maxAnswer {
		t.Errorf("%d bytes were kept, %v", sent, err)
	}
	if a, err := r.call(call{method: http.MethodPatch, path: "/accounts", discard: true}); err != nil || len(a.body) != 0 || sent != 32<<20 {
		t.Errorf("of a change, %d of %d bytes were kept, %v", len(a.body), sent, err)
	}
}
