package rest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// A stored is what responses are loaded from. It counts them.
type stored struct {
	cache       *rest.ResponseCache
	version     [2]uint64
	unknown     bool   // the version is not known
	body        string // of a response, without the tenant and the path
	loaded      int
	during      func() // what happens while one is loaded
	uncacheable bool
	failure     error
}

func (s *stored) handler() http.Handler {
	s.cache = &rest.ResponseCache{Version: func(string) ([2]uint64, bool) { return s.version, !s.unknown }, Bytes: 16 << 20}
	kit := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler)}
	return kit.Handler([]rest.Route{{
		Method: http.MethodGet, Pattern: "/things/{thing}", Scope: atrium.ScopePagesRead,
		Handle: func(_ context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
			return s.cache.Get(r, who.TenantID, "", func() (rest.Response, bool, error) {
				s.loaded++
				body := fmt.Sprint(who.TenantID, " ", r.PathValue("thing"), " ", s.body)
				if s.during != nil {
					s.during()
				}
				return rest.Response{Body: body}, !s.uncacheable, s.failure
			})
		},
	}}, nil)
}

func TestResponseIsCachedUntilTheVersionChanges(t *testing.T) {
	s := &stored{body: "1", version: [2]uint64{1}}
	handler := s.handler()
	ask := func(tenant, target, tag string) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
		r.Header.Set("X-Api-Key", tenant)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	want := func(what, tenant, target, body string, loaded int) *httptest.ResponseRecorder {
		t.Helper()
		w := ask(tenant, target, "")
		if got := w.Body.String(); w.Code != http.StatusOK || got != fmt.Sprintf("%q", body) || s.loaded != loaded {
			t.Errorf("%s: %d %s, the %dth that was loaded, want %s and the %dth", what, w.Code, got, s.loaded, body, loaded)
		}
		return w
	}
	first := want("the first", "one", "/things/a", "one a 1", 1)
	again := want("the same", "one", "/things/a", "one a 1", 1)
	if tag := again.Header().Get("ETag"); tag == "" || tag != first.Header().Get("ETag") {
		t.Errorf("entity tags %s and %s", first.Header(), again.Header())
	}
	if w := ask("one", "/things/a", again.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("with its tag: %d %s", w.Code, w.Body)
	}
	want("of another tenant", "two", "/things/a", "two a 1", 2)
	want("of something else", "one", "/things/b", "one b 1", 3)
	want("with another query", "one", "/things/a?x=1", "one a 1", 4)
	want("by a name that is escaped in another way", "one", "/things/%61", "one a 1", 5)
	want("each of them again", "two", "/things/a", "two a 1", 5)

	s.body, s.version = "2", [2]uint64{2}
	want("after a change", "one", "/things/a", "one a 2", 6)
	want("the same", "one", "/things/a", "one a 2", 6)

	s.during = func() { s.body, s.version = "4", [2]uint64{4} }
	s.body, s.version = "3", [2]uint64{3}
	want("one that is old when it is loaded", "one", "/things/a", "one a 3", 7)
	want("the one that follows", "one", "/things/a", "one a 4", 8)
	s.during = nil

	s.version, s.uncacheable = [2]uint64{5}, true
	want("one that is not cacheable", "one", "/things/a", "one a 4", 9)
	want("the same", "one", "/things/a", "one a 4", 10)

	s.uncacheable, s.unknown = false, true
	want("when the version is unknown", "one", "/things/a", "one a 4", 11)
	want("the same", "one", "/things/a", "one a 4", 12)

	s.unknown, s.cache.Bytes = false, 0
	want("when there is no memory for it", "one", "/things/a", "one a 4", 13)
	want("the same", "one", "/things/a", "one a 4", 14)
	s.cache.Bytes = 16 << 20

	s.unknown, s.failure = false, atrium.NotFound()
	for range 2 {
		if w := ask("one", "/things/a", ""); w.Code != http.StatusNotFound {
			t.Errorf("a failure: %d %s", w.Code, w.Body)
		}
	}
	if s.loaded != 16 {
		t.Errorf("%d were loaded, failures among them, want 16", s.loaded)
	}
}

func TestResponseCacheHasBoundedMemory(t *testing.T) {
	s := &stored{body: strings.Repeat("x", 100<<10), version: [2]uint64{1}}
	handler := s.handler()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1000 { // 100 MB
		r := httptest.NewRequest(http.MethodGet, fmt.Sprint("/things/", i), http.NoBody)
		r.Header.Set("X-Api-Key", "one")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 20<<20 {
		t.Errorf("%d bytes are cached", grown)
	}
	runtime.KeepAlive(s)
}
