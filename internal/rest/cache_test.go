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

// A stored is a stored value that a handler loads, with the number of loads.
type stored struct {
	cache       *rest.ResponseCache
	version     [2]uint64
	unknown     bool   // the version is unknown
	body        string // the end of each response
	loaded      int
	during      func() // runs during a load
	uncacheable bool
	failure     error
}

func (s *stored) handler() http.Handler {
	s.cache = &rest.ResponseCache{Version: func(string) ([2]uint64, bool) { return s.version, !s.unknown }, Bytes: 16 << 20}
	service := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler)}
	return service.Handler([]rest.Route{{
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
			t.Errorf("%s: %d %s after %d loads, want %s after %d", what, w.Code, got, s.loaded, body, loaded)
		}
		return w
	}
	first := want("first request", "one", "/things/a", "one a 1", 1)
	again := want("repeated request", "one", "/things/a", "one a 1", 1)
	if tag := again.Header().Get("ETag"); tag == "" || tag != first.Header().Get("ETag") {
		t.Errorf("entity tags %s and %s", first.Header(), again.Header())
	}
	if w := ask("one", "/things/a", again.Header().Get("ETag")); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("If-None-Match: %d %s", w.Code, w.Body)
	}
	want("other tenant", "two", "/things/a", "two a 1", 2)
	want("other path", "one", "/things/b", "one b 1", 3)
	want("other query", "one", "/things/a?x=1", "one a 1", 4)
	want("other escaping", "one", "/things/%61", "one a 1", 5)
	want("other tenant again", "two", "/things/a", "two a 1", 5)

	s.body, s.version = "2", [2]uint64{2}
	want("after a change", "one", "/things/a", "one a 2", 6)
	want("repeated", "one", "/things/a", "one a 2", 6)

	s.during = func() { s.body, s.version = "4", [2]uint64{4} }
	s.body, s.version = "3", [2]uint64{3}
	want("changed during the load", "one", "/things/a", "one a 3", 7)
	want("after a change during the load", "one", "/things/a", "one a 4", 8)
	s.during = nil

	s.version, s.uncacheable = [2]uint64{5}, true
	want("uncacheable", "one", "/things/a", "one a 4", 9)
	want("repeated", "one", "/things/a", "one a 4", 10)

	s.uncacheable, s.unknown = false, true
	want("unknown version", "one", "/things/a", "one a 4", 11)
	want("repeated", "one", "/things/a", "one a 4", 12)

	s.unknown, s.cache.Bytes = false, 0
	want("no memory", "one", "/things/a", "one a 4", 13)
	want("repeated", "one", "/things/a", "one a 4", 14)
	s.cache.Bytes = 16 << 20

	s.unknown, s.failure = false, atrium.NotFound()
	for range 2 {
		if w := ask("one", "/things/a", ""); w.Code != http.StatusNotFound {
			t.Errorf("failed load: %d %s", w.Code, w.Body)
		}
	}
	if s.loaded != 16 {
		t.Errorf("%d loads including failures, want 16", s.loaded)
	}
}

func TestResponseCacheMemoryIsLimited(t *testing.T) {
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
		t.Errorf("the cache takes %d bytes", grown)
	}
	runtime.KeepAlive(s)
}
