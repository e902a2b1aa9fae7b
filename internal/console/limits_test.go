package console

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
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
	role    atrium.Role
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
	return s.session, atrium.User{ID: atrium.NewID[atrium.UserID](), TenantID: s.link.TenantID, Role: s.role}, s.secret, nil
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
func newLimitedSession(t *testing.T, role ...atrium.Role) (c *Console, ask func(method, path string, form url.Values) int, tenant atrium.TenantID, token string) {
	t.Helper()
	id, link, hash := auth.NewLoginToken()
	tenant = atrium.NewID[atrium.TenantID]()
	sessions := auth.NewSessions(&oneUser{link: atrium.LoginLink{ID: id, TenantID: tenant}, hash: hash, role: append(role, atrium.RoleAdmin)[0]}, time.Now, nil)
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

// of returns the path of a pattern.
func (f form) of(path string, tenant atrium.TenantID) string {
	for _, name := range regexp.MustCompile(`\{\w+\}`).FindAllString(path, -1) {
		value := "x_00000000000000000000000000"
		switch name {
		case "{tenant_id}":
			value = string(tenant)
		case "{number}":
			value = "1"
		}
		path = strings.Replace(path, name, value, 1)
	}
	return path
}

func TestFormsAreLimited(t *testing.T) {
	c, ask, tenant := newLimited(t)
	if status := ask(http.MethodPost, prefix+"/"+string(tenant)+"/people", url.Values{"name": {"Robin"}, "role": {"viewer"}}); status != http.StatusSeeOther {
		t.Errorf("a small form: %d", status)
	}
	for path, f := range c.forms() {
		if f.operators {
			continue
		}
		size := int(cmp.Or(f.size, maxForm))
		if status := ask(http.MethodPost, f.of(path, tenant), url.Values{"name": {strings.Repeat("a", size)}}); status != http.StatusRequestEntityTooLarge {
			t.Errorf("a form of %d bytes for %s: %d", size+5, path, status)
		}
	}
}

// A browser that sends slowly must hold no memory for a change that it may not make.
func TestFormsThatARoleMayNotSendAreNotRead(t *testing.T) {
	c, _, tenant, token := newLimitedSession(t, atrium.RoleViewer)
	for path, f := range c.forms() {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, f.of(path, tenant), iotest.ErrReader(errors.New("the form is read")))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: plainCookie, Value: token})
		w := httptest.NewRecorder()
		c.change(f).ServeHTTP(w, r)
		want := http.StatusForbidden
		if f.operators {
			want = http.StatusNotFound
		}
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestQuestionsHaveSmallForms(t *testing.T) {
	_, ask, tenant := newLimited(t)
	path := prefix + "/" + string(tenant) + "/keys/key_1/revoke"
	many := make([]string, maxAskedValues)
	for name, c := range map[string]struct {
		more url.Values
		want int
	}{
		"small":       {nil, http.StatusOK},
		"large":       {url.Values{"a": {strings.Repeat("b", maxAsked)}}, http.StatusRequestEntityTooLarge},
		"many values": {url.Values{"a": many}, http.StatusRequestEntityTooLarge},
		"confirmed":   {url.Values{"a": many, "confirmed": {"yes"}}, http.StatusSeeOther},
	} {
		form := url.Values{"question": {"Revoke it?"}}
		maps.Copy(form, c.more)
		if status := ask(http.MethodPost, path, form); status != c.want {
			t.Errorf("%s: %d, want %d", name, status, c.want)
		}
	}
}

// A secret that no page could show would be lost.
func TestSecretsAreMadeOnlyIfThereIsMemoryToShowThem(t *testing.T) {
	c, ask, tenant := newLimited(t)
	changes := 0
	c.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			changes++
		}
		_, _ = io.WriteString(w, `{"items":[],"name":"Tenant"}`)
	})
	for _, path := range []string{
		"/keys", "/keys/key_1/rotate", "/people/user_1/link", "/receivers", "/receivers/receiver_1/rotate", "/receivers/receiver_1/map", "/receivers/receiver_1/quarantine/quarantined_1/map",
		"/webhooks", "/webhooks/webhook_1/rotate", "/pages/page_1/audiences/audience_1/versions/1/preview",
	} {
		c.Limits.Bodies, changes = limit.NewQuota[atrium.TenantID](1<<20), 0
		if !c.Limits.Bodies.Take(tenant, 1<<19-maxOnce/2) {
			t.Fatal("no memory")
		}
		form := url.Values{"name": {"New"}, "provider": {"github"}, "url": {"https://hooks.example.com"}}
		if status := ask(http.MethodPost, prefix+"/"+string(tenant)+path, form); status != http.StatusServiceUnavailable || changes != 0 {
			t.Errorf("%s without memory: %d, %d changes", path, status, changes)
		}
		c.Limits.Bodies = limit.NewQuota[atrium.TenantID](1 << 20)
		if status := ask(http.MethodPost, prefix+"/"+string(tenant)+path, form); status != http.StatusOK || changes != 1 {
			t.Errorf("%s: %d, %d changes", path, status, changes)
		}
		if !c.Limits.Bodies.Take(tenant, 1<<19) {
			t.Errorf("%s: memory is held after the response", path)
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
