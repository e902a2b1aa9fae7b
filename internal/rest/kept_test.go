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

// A stored is what answers are made from, and counts how many were.
type stored struct {
	kept     *rest.Kept
	revision [2]uint64
	unknown  bool   // nothing is known of the revision
	body     string // of an answer, but for who asks what
	made     int
	during   func() // what happens while one is made
	refused  bool   // none may be kept
	failure  error
}

func (s *stored) handler() http.Handler {
	s.kept = &rest.Kept{Revision: func(string) ([2]uint64, bool) { return s.revision, !s.unknown }, Bytes: 16 << 20}
	kit := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler)}
	return kit.Handler([]rest.Route{{
		Method: http.MethodGet, Pattern: "/things/{thing}", Scope: atrium.ScopePagesRead,
		Handle: func(_ context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
			return s.kept.Answer(r, who.TenantID, "", func() (rest.Response, bool, error) {
				s.made++
				body := fmt.Sprint(who.TenantID, " ", r.PathValue("thing"), " ", s.body)
				if s.during != nil {
					s.during()
				}
				return rest.Response{Body: body}, !s.refused, s.failure
			})
		},
	}}, nil)
}

func TestAnAnswerIsKeptWhileWhatIsStoredIsTheSame(t *testing.T) {
	s := &stored{body: "1", revision: [2]uint64{1}}
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
	want := func(what, tenant, target, body string, made int) *httptest.ResponseRecorder {
		t.Helper()
		w := ask(tenant, target, "")
		if got := w.Body.String(); w.Code != http.StatusOK || got != fmt.Sprintf("%q", body) || s.made != made {
			t.Errorf("%s: %d %s, the %dth that was made, want %s and the %dth", what, w.Code, got, s.made, body, made)
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

	s.body, s.revision = "2", [2]uint64{2}
	want("after a change", "one", "/things/a", "one a 2", 6)
	want("the same", "one", "/things/a", "one a 2", 6)

	s.during = func() { s.body, s.revision = "4", [2]uint64{4} }
	s.body, s.revision = "3", [2]uint64{3}
	want("one that is old when it is made", "one", "/things/a", "one a 3", 7)
	want("the one that follows", "one", "/things/a", "one a 4", 8)
	s.during = nil

	s.revision, s.refused = [2]uint64{5}, true
	want("one that may not be kept", "one", "/things/a", "one a 4", 9)
	want("the same", "one", "/things/a", "one a 4", 10)

	s.refused, s.unknown = false, true
	want("when nothing is known", "one", "/things/a", "one a 4", 11)
	want("the same", "one", "/things/a", "one a 4", 12)

	s.unknown, s.kept.Bytes = false, 0
	want("when there is no memory for it", "one", "/things/a", "one a 4", 13)
	want("the same", "one", "/things/a", "one a 4", 14)
	s.kept.Bytes = 16 << 20

	s.unknown, s.failure = false, atrium.NotFound()
	for range 2 {
		if w := ask("one", "/things/a", ""); w.Code != http.StatusNotFound {
			t.Errorf("a failure: %d %s", w.Code, w.Body)
		}
	}
	if s.made != 16 {
		t.Errorf("%d were made, failures among them, want 16", s.made)
	}
}

func TestKeptAnswersTakeABoundedAmountOfMemory(t *testing.T) {
	s := &stored{body: strings.Repeat("x", 100<<10), revision: [2]uint64{1}}
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
		t.Errorf("%d bytes are kept", grown)
	}
	runtime.KeepAlive(s)
}
