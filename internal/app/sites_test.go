package app_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/content"
	"atrium/internal/rest"
	"atrium/internal/transfer"
)

const (
	publicPage  = "/pages/page_00000000000000000000000001"
	privatePage = "/pages/page_00000000000000000000000002"
)

// publish imports a public and a private page, and returns the beginning of their addresses.
func (s *service) publish(t *testing.T) string {
	t.Helper()
	const rest = `"brandId":"b","name":"","pageContext":"","title":"","status":"published","actions":[],"scripts":[],"footerLinks":[]}`
	lines := `{"kind":"page","pageId":"page_00000000000000000000000001","public":true,` + rest + "\n" +
		`{"kind":"page","pageId":"page_00000000000000000000000002",` + rest
	if _, err := transfer.Import(t.Context(), s.store, s.tenant, strings.NewReader(lines), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	return "/content/v0/" + string(s.tenant)
}

func TestWrongPreviewTokensAreLimitedLikeInvalidKeys(t *testing.T) {
	s := start(t, func(c *config.Config) { c.AuthFailures = config.Rate{Count: 2, Window: time.Hour} })
	target := s.publish(t) + publicPage
	_, wrong, _ := auth.NewPreviewToken()
	for _, token := range []string{wrong, "short"} {
		s.get(t, target+"?preview="+token, "").want(t, http.StatusUnauthorized, atrium.CodeUnauthenticated)
	}
	s.get(t, target+"?preview="+wrong, "").want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
	s.get(t, target, "x").want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
	key, _ := apptest.Key(t, s.store, s.tenant, atrium.ScopeContentRead)
	for _, valid := range []string{key, ""} {
		if a := s.get(t, target, valid); a.status != http.StatusOK {
			t.Errorf("with the key %q: %d %s", valid, a.status, a.body)
		}
	}
	s.wantRefused(t, "auth_failures", 2)
}

func TestRequestsWithoutAKeyAreLimitedBeforeTheyAreServed(t *testing.T) {
	s := start(t, func(c *config.Config) { c.AnonymousRate = config.Rate{Count: 3, Window: time.Hour} })
	base := s.publish(t)
	for _, c := range []struct {
		target string
		status int
	}{{publicPage, 200}, {privatePage, 404}, {"/pages/nothing", 404}} {
		if a := s.get(t, base+c.target, ""); a.status != c.status {
			t.Errorf("%s: %d %s", c.target, a.status, a.body)
		}
	}
	for _, target := range []string{publicPage, privatePage, "/pages/nothing", publicPage + "?preview=x"} {
		s.get(t, base+target, "").want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
	}
	if a := s.get(t, "/v0/pages", s.key); a.status != http.StatusOK {
		t.Errorf("a request with a key: %d %s", a.status, a.body)
	}
	s.wantRefused(t, "anonymous_rate", 4)
}

func TestPagesOfTheDocumentationAreLimitedByClient(t *testing.T) {
	s := start(t, func(c *config.Config) { c.AnonymousRate = config.Rate{Count: 3, Window: time.Hour} })
	for _, target := range []string{"/docs/page.css", "/errors/not_found", "/docs/manage"} { // the last counts as several
		if a := s.get(t, target, ""); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
	for _, target := range []string{"/docs/manage", "/docs/page.js", "/openapi.yaml", "/errors/not_found"} {
		s.get(t, target, "").want(t, http.StatusTooManyRequests, atrium.CodeRateLimited)
	}
	for _, target := range []string{"/healthz", "/readyz"} {
		if a := s.get(t, target, ""); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
	s.wantRefused(t, "anonymous_rate", 4)
}

func TestHeaderFloodsAreRefusedWithoutAKey(t *testing.T) {
	s := start(t)
	target := s.publish(t) + publicPage
	flood := make([]string, 101)
	for i := range flood {
		flood[i] = "Access-Control-Request-Headers: x-api-key"
	}
	for _, method := range []string{http.MethodOptions, http.MethodGet} {
		s.send(t, method, target, "", "", flood...).want(t, http.StatusRequestHeaderFieldsTooLarge, atrium.CodeHeaderTooLarge)
		s.send(t, method, target+"?preview="+strings.Repeat("x", 9<<10), "", "").want(t, http.StatusRequestURITooLong, atrium.CodeURITooLong)
		if a := s.send(t, method, target, "", "", "Access-Control-Request-Headers: "+strings.Repeat("x,", 2<<10)); a.status >= 300 || len(a.header["Access-Control-Allow-Headers"]) > 1 {
			t.Errorf("%s with a long header: %d %v", method, a.status, a.header)
		}
	}
}

// A preview changes nothing in the cache, and a change of a page is visible at once on this node.
func TestPublishedContentIsNeverStale(t *testing.T) {
	s := start(t)
	target := s.publish(t) + publicPage
	id := atrium.PageID(strings.TrimPrefix(publicPage, "/pages/"))
	change := atrium.CommandLine(s.tenant)
	for _, title := range []string{"one", "two", "three"} {
		if _, err := s.store.UpdatePage(t.Context(), change, id, atrium.PageEdit{Title: &title}, func(atrium.ScheduledPage) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var shown struct{ Title string }
			a := s.get(t, target, "")
			if err := json.Unmarshal([]byte(a.body), &shown); err != nil || shown.Title != title {
				t.Errorf("after the change to %s: %d %s", title, a.status, a.body)
			}
		}
	}
	public := false
	if _, err := s.store.UpdatePage(t.Context(), change, id, atrium.PageEdit{Public: &public}, func(atrium.ScheduledPage) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.get(t, target, "").want(t, http.StatusNotFound, atrium.CodeNotFound)
}

// The cache of this server never becomes outdated, so a response that is read again shows the change.
func TestQueriesAndPathsDoNotMultiplyACachedPage(t *testing.T) {
	s := start(t)
	target := s.publish(t) + publicPage
	sites := &content.API{Store: s.store, Cache: &rest.ResponseCache{Version: func(string) ([2]uint64, bool) { return [2]uint64{1}, true }, Bytes: 1 << 20}}
	handler := (&rest.API{Log: slog.New(slog.DiscardHandler)}).Handler(sites.Routes(), nil)
	get := func(target string) string {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
		return w.Body.String()
	}
	cached := get(target)
	id, title := atrium.PageID(strings.TrimPrefix(publicPage, "/pages/")), "changed"
	if _, err := s.store.UpdatePage(t.Context(), atrium.CommandLine(s.tenant), id, atrium.PageEdit{Title: &title}, func(atrium.ScheduledPage) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"?a=1", "?a=2", "?", strings.ReplaceAll(target, "page_", "%70age_")} {
		if !strings.HasPrefix(other, "/") {
			other = target + other
		}
		if get(other) != cached {
			t.Errorf("%s was read again", other)
		}
	}
}
