package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

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
