package rest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
	"atrium/internal/telemetry"
)

// A document is the Document of a handler, with counts of its uses.
type document struct {
	body   string
	parts  int     // equal parts in which it is written, 0 for 2; the length of the body is a multiple
	opened int     // number of snapshots
	passes int     // number of writes
	fails  []error // the error of each pass, after half of the body
	opens  error   // the error of opening a snapshot
	limits rest.Limits
	seen   telemetry.Exchange // of the last request
}

func (d *document) write(w io.Writer) (string, error) {
	d.passes++
	for part := range slices.Chunk([]byte(d.body), len(d.body)/max(d.parts, 2)) {
		if _, err := w.Write(part); err != nil {
			return "", err
		}
		if d.passes <= len(d.fails) && d.fails[d.passes-1] != nil {
			return "", d.fails[d.passes-1]
		}
	}
	return "tag-1", nil
}

// handler serves the document without authentication.
func (d *document) handler() http.Handler {
	service := &rest.API{Keys: tenants{}, Log: slog.New(slog.DiscardHandler), Limits: d.limits, Observe: func(_ context.Context, x *telemetry.Exchange) { d.seen = *x }}
	handle := func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
		return rest.Response{Header: http.Header{"Idempotency-Replayed": {"true"}}, Document: func(_ context.Context, send func(rest.DocumentWriter) error) error {
			if d.opened++; d.opens != nil {
				return d.opens
			}
			return send(d.write)
		}}, nil
	}
	return service.Handler([]rest.Route{
		{Method: http.MethodGet, Pattern: "/document", Scope: atrium.ScopePagesRead, Handle: handle},
		{Method: http.MethodPost, Pattern: "/document", Scope: atrium.ScopeLogsWrite, Handle: handle},
	}, nil)
}

func documentRequest(method, ifNoneMatch string) *http.Request {
	r := httptest.NewRequest(method, "/document", http.NoBody)
	r.Header.Set("X-Api-Key", "a")
	if ifNoneMatch != "" {
		r.Header.Set("If-None-Match", ifNoneMatch)
	}
	return r
}

func TestDocumentHasTagAndLengthAndIsSentOnlyIfNeeded(t *testing.T) {
	body := `"` + strings.Repeat("x", 200_000) + `"`
	for _, c := range []struct {
		method, ifNoneMatch string
		status, passes      int
		sent                bool
	}{
		{http.MethodGet, "", 200, 2, true},
		{http.MethodGet, `"tag-2"`, 200, 2, true},
		{http.MethodGet, `"tag-1"`, 304, 1, false},
		{http.MethodGet, `*`, 304, 1, false},
		{http.MethodHead, "", 200, 1, false},
		{http.MethodHead, `W/"tag-1"`, 304, 1, false},
		{http.MethodPost, `"tag-1"`, 200, 2, true}, // not a read
	} {
		d, w := &document{body: body}, httptest.NewRecorder()
		d.handler().ServeHTTP(w, documentRequest(c.method, c.ifNoneMatch))
		want, length := "", ""
		if c.sent {
			want = body
		}
		if c.status == http.StatusOK {
			length = strconv.Itoa(len(body))
		}
		if w.Code != c.status || w.Body.String() != want || d.opened != 1 || d.passes != c.passes ||
			w.Header().Get("ETag") != `"tag-1"` || w.Header().Get("Content-Length") != length ||
			w.Header().Get("Cache-Control") != "private, no-cache" || w.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s with If-None-Match %s: %d with %d bytes in %d passes, %v", c.method, c.ifNoneMatch, w.Code, w.Body.Len(), d.passes, w.Header())
		}
	}
}

func TestDocumentArrivesWholeOrItsConnectionIsClosed(t *testing.T) {
	broken := errors.New("sesame")
	for name, c := range map[string]struct {
		document document
		status   int
		whole    bool
	}{
		"no failure":                     {document{}, 200, true},
		"failed snapshot":                {document{opens: atrium.NotFound()}, 404, true},
		"unavailable in the first pass":  {document{fails: []error{atrium.Unavailable(broken)}}, 503, true},
		"bug in the first pass":          {document{fails: []error{broken}}, 500, true},
		"bug in the second pass":         {document{fails: []error{nil, broken}}, 200, false},
		"unavailable in the second pass": {document{fails: []error{nil, atrium.Unavailable(broken)}}, 200, false},
	} {
		c.document.body = `"` + strings.Repeat("x", 500_000) + `"`
		server := httptest.NewServer(c.document.handler())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/document", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", "a")
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		server.Close()
		if response.StatusCode != c.status || (err == nil) != c.whole || c.status == 200 && c.whole && string(body) != c.document.body {
			t.Errorf("%s: %d with %d bytes, %v", name, response.StatusCode, len(body), err)
		}
		if c.status != 200 && (response.Header.Get("ETag") != "" || bytes.Contains(body, []byte("sesame"))) {
			t.Errorf("%s: %v %s", name, response.Header, body)
		}
	}
}

// A slowReader is the connection of a client that delays each write. It records the write
// deadlines.
type slowReader struct {
	*httptest.ResponseRecorder
	takes     time.Duration
	begun     time.Time
	mu        sync.Mutex      // guards the deadlines
	deadlines []time.Duration // since begun
	until     time.Time
}

var errTooSlow = errors.New("i/o timeout")

func (s *slowReader) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadlines, s.until = append(s.deadlines, at.Sub(s.begun)), at
	return nil
}

func (s *slowReader) Write(b []byte) (int, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().After(s.until) {
		return 0, errTooSlow
	}
	return s.ResponseRecorder.Write(b)
}

func TestSlowClientHoldsASnapshotForTheWriteTimeoutAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for takes, deadlines := range map[time.Duration][]time.Duration{
			9 * time.Second:  {10 * time.Second, 15 * time.Second}, // ends at the deadline of the document
			11 * time.Second: {10 * time.Second},                   // ends at the deadline of a write
		} {
			d := &document{body: strings.Repeat("x", 100_000)}
			w := &slowReader{ResponseRecorder: httptest.NewRecorder(), takes: takes, begun: time.Now()}
			r := documentRequest(http.MethodGet, "")
			r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{WriteTimeout: 15 * time.Second}))
			var aborted any
			func() {
				defer func() { aborted = recover() }()
				d.handler().ServeHTTP(w, r)
			}()
			if aborted != http.ErrAbortHandler { //nolint:errorlint // the value of a panic
				t.Errorf("%s per write: the client read %d bytes, and the handler ended with %v", takes, w.Body.Len(), aborted)
			}
			if len(w.deadlines) != len(deadlines) || w.deadlines[len(deadlines)-1] != deadlines[len(deadlines)-1] {
				t.Errorf("deadlines %v, want %v", w.deadlines, deadlines)
			}
		}
	})
}

// Overlapping snapshots of slow clients would keep the write-ahead log from ever being reset.
func TestOldDocumentsEndAndOthersWaitWhileSnapshotsMustEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mustEnd := new(atomic.Bool)
		heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2, Waiting: 9})
		limits := rest.Limits{SnapshotsMustEnd: mustEnd.Load, Heavy: heavy}
		began := time.Now()
		var refused telemetry.Refusal
		get := func(w http.ResponseWriter) (aborted bool) {
			began = time.Now()
			defer func() {
				aborted = recover() == http.ErrAbortHandler //nolint:errorlint // the value of a panic
			}()
			d := &document{body: strings.Repeat("x", 100_000), limits: limits}
			defer func() { refused = d.seen.Refused }()
			d.handler().ServeHTTP(w, documentRequest(http.MethodGet, ""))
			return false
		}
		want := func(what string, ok bool, after time.Duration) {
			t.Helper()
			if took := time.Since(began).Truncate(500 * time.Millisecond); !ok || took != after {
				t.Errorf("%s: %v, after %s, want %s", what, ok, took, after)
			}
		}
		set := func(to bool, after time.Duration) { time.AfterFunc(after, func() { mustEnd.Store(to) }) }

		for takes, ends := range map[time.Duration]bool{900 * time.Millisecond: false, 6 * time.Second: true} { // two writes
			w := &slowReader{ResponseRecorder: httptest.NewRecorder(), takes: takes, begun: time.Now()}
			set(true, 500*time.Millisecond)
			if aborted := get(w); aborted != ends || ends && w.deadlines[1] != 2*time.Second {
				t.Errorf("%s per write: aborted %v, deadlines %v", takes, aborted, w.deadlines)
			}
			mustEnd.Store(false)
		}

		w := httptest.NewRecorder()
		set(true, 0)
		set(false, 3*time.Second)
		time.Sleep(time.Millisecond)
		get(w)
		want("a document that waits", w.Code == http.StatusOK, 3*time.Second)
		set(true, 0)
		time.Sleep(time.Millisecond)
		w = httptest.NewRecorder()
		get(w)
		want("a document that waits too long", w.Code == http.StatusServiceUnavailable, 5*time.Second)
		began = time.Now()
		_, _, err := limits.AdmitCheck(t.Context(), "a")
		want("a check that waits too long", atrium.CodeOf(err) == atrium.CodeUnavailable, 5*time.Second)
		mustEnd.Store(false)

		// The first pass, while other heavy work of the tenant holds its slot.
		if err := heavy.Acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		set(true, time.Second)
		unsent := &slowReader{ResponseRecorder: httptest.NewRecorder(), begun: time.Now()}
		get(unsent)
		if refused != telemetry.ByOverload {
			t.Errorf("a document in its first pass is refused by %q", refused)
		}
		want("a document in its first pass", unsent.Code == http.StatusServiceUnavailable, 2*time.Second)
		if n := len(unsent.deadlines); n != 1 { // the one that is reset
			t.Errorf("the error of a document in its first pass has a write deadline: %v", unsent.deadlines)
		}
		mustEnd.Store(false)
		heavy.Release("a")
		yield, release, err := limits.AdmitCheck(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		mustEnd.Store(true)
		time.Sleep(2100 * time.Millisecond)
		if err := yield(); atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Errorf("a check that is old: %v", err)
		}
		release()
		if heavy.Held() != 0 {
			t.Errorf("%d slots are held at the end", heavy.Held())
		}
	})
}
