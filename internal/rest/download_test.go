package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
)

// A heldWriter is a client that records how many slots for heavy work are held while it is sent data.
type heldWriter struct {
	http.ResponseWriter
	slots *limit.Semaphore[atrium.TenantID]
	most  int
}

func (w *heldWriter) Write(b []byte) (int, error) {
	w.most = max(w.most, w.slots.Held())
	return w.ResponseWriter.Write(b)
}

func TestDownloadIsHeavyWorkExceptWhileItWaitsForItsClient(t *testing.T) {
	heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
	a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: Limits{Heavy: heavy}}
	var held []int
	h := a.Handler([]Route{{Method: http.MethodGet, Pattern: "/out", Scope: atrium.ScopeManage, Produces: Lines, Handle: func(context.Context, auth.Principal, *Request) (Response, error) {
		return Response{Stream: func(w io.Writer) error {
			for range 3 {
				held = append(held, heavy.Held())
				if _, err := io.WriteString(w, "{}\n"); err != nil {
					return err
				}
			}
			held = append(held, heavy.Held())
			return nil
		}}, nil
	}}}, nil)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/out", nil)
	r.Header.Set(headerKey, "key")
	out := httptest.NewRecorder()
	w := &heldWriter{ResponseWriter: out, slots: heavy}
	h.ServeHTTP(w, r)
	if out.Body.String() != "{}\n{}\n{}\n" || !slices.Equal(held, []int{1, 1, 1, 1}) || w.most != 0 || heavy.Held() != 0 {
		t.Errorf("sent %q; held %v while it was generated, %d while it was sent, %d at the end", out.Body, held, w.most, heavy.Held())
	}

	if err := heavy.Acquire(t.Context(), "key"); err != nil { // all that the tenant may hold
		t.Fatal(err)
	}
	out = httptest.NewRecorder()
	h.ServeHTTP(out, r)
	if out.Code != http.StatusServiceUnavailable || len(held) != 4 {
		t.Errorf("while the tenant does other heavy work: %d, generated %d times", out.Code, len(held)-4)
	}
}

// A search yields with empty writes, which send nothing, and while it waits for a change.
func TestSearchYieldsWithoutSendingHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1, Waiting: 1})
		changes := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
		a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: Limits{Heavy: heavy, Changes: changes}}
		out := httptest.NewRecorder()
		h := a.Handler([]Route{{Method: http.MethodPost, Pattern: "/out", Scope: atrium.ScopeManage, Produces: Lines, Handle: func(_ context.Context, _ auth.Principal, r *Request) (Response, error) {
			return Response{Search: true, Stream: func(w io.Writer) error {
				for range 10 { // together longer than a download may take that sends little
					other := make(chan error, 1)
					go func() { other <- heavy.Do(t.Context(), "other", func() error { return nil }) }()
					synctest.Wait()
					time.Sleep(time.Minute)
					if _, err := w.Write(nil); err != nil {
						return err
					}
					if err := <-other; err != nil || heavy.Held() != 1 {
						t.Errorf("another tenant waited: %v; %d slots are held", err, heavy.Held())
					}
				}
				if len(out.Header()["Content-Type"]) > 0 {
					t.Error("headers were sent before the first line")
				}
				release, err := r.AcquireChange(t.Context(), false)
				if err != nil || heavy.Held() != 0 || changes.Held() != 1 {
					t.Errorf("while it makes a change, %d slots for heavy work are held, %v", heavy.Held(), err)
				}
				release()
				_, err = io.WriteString(w, "{}\n")
				return err
			}}, nil
		}}}, nil)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/out", nil)
		r.Header.Set(headerKey, "key")
		if h.ServeHTTP(out, r); out.Code != http.StatusOK || out.Body.String() != "{}\n" || heavy.Held() != 0 || changes.Held() != 0 {
			t.Errorf("%d %q, %d slots are held", out.Code, out.Body, heavy.Held())
		}
	})
}

// Otherwise one tenant could occupy a processor for as long as it searches, whether or not it finds something.
func TestSearchPausesForAsLongAsItWorked(t *testing.T) {
	for _, search := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			slots := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
			a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: Limits{Heavy: slots}}
			var paused []time.Duration
			h := a.Handler([]Route{{Method: http.MethodGet, Pattern: "/out", Scope: atrium.ScopeManage, Produces: Lines, Handle: func(context.Context, auth.Principal, *Request) (Response, error) {
				return Response{Search: search, Stream: func(w io.Writer) error {
					for _, c := range []struct {
						worked time.Duration
						text   string
					}{{20 * time.Millisecond, ""}, {time.Second, "{}\n"}, {time.Millisecond, ""}} {
						time.Sleep(c.worked)
						began := time.Now()
						if _, err := io.WriteString(w, c.text); err != nil {
							return err
						}
						paused = append(paused, time.Since(began))
					}
					return nil
				}}, nil
			}}}, nil)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/out", nil)
			r.Header.Set(headerKey, "key")
			h.ServeHTTP(httptest.NewRecorder(), r)
			want := []time.Duration{20 * time.Millisecond, time.Second, time.Millisecond}
			if !search {
				want = make([]time.Duration, len(want))
			}
			if !slices.Equal(paused, want) {
				t.Errorf("search: %v: paused for %v, want %v", search, paused, want)
			}
		})
	}
}

// An export that waits for others of its tenant would otherwise hold what they need to continue.
func TestStreamWaitsForItsSlotWithoutHeavyWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
		open := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2, Each: 1, Waiting: 1, Timeout: time.Second})
		a := &API{Keys: tenantKeys{}, Log: slog.New(slog.DiscardHandler), Limits: Limits{Heavy: heavy}}
		h := a.Handler([]Route{{Method: http.MethodGet, Pattern: "/out", Scope: atrium.ScopeManage, Produces: Lines, Handle: func(context.Context, auth.Principal, *Request) (Response, error) {
			return Response{Open: open, Stream: func(io.Writer) error { return nil }}, nil
		}}}, nil)
		get := func() int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/out", nil)
			r.Header.Set(headerKey, "key")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		if err := open.Acquire(t.Context(), "key"); err != nil {
			t.Fatal(err)
		}
		if status := get(); status != http.StatusServiceUnavailable {
			t.Errorf("after a second: %d", status)
		}
		done := make(chan int)
		go func() { done <- get() }()
		synctest.Wait()
		if n := heavy.Held(); n != 0 {
			t.Errorf("it holds %d slots for heavy work while it waits", n)
		}
		open.Release("key")
		if status := <-done; status != http.StatusOK || open.Held() != 0 || heavy.Held() != 0 {
			t.Errorf("after a release: %d; %d and %d slots are held", status, open.Held(), heavy.Held())
		}
	})
}
