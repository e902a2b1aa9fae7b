package rest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestConnectionEndsAfterTooManyHeaderFields(t *testing.T) {
	api := (&API{Log: slog.New(slog.DiscardHandler), Limits: Limits{HeaderFields: 2}}).Handler(nil, nil)
	for fields, want := range map[int]string{2: "", 3: "close"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for i := range fields {
			r.Header.Set("X-"+string(rune('A'+i)), "1")
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != want {
			t.Errorf("with %d fields: status %d, Connection: %q, want %q", fields, w.Code, got, want)
		}
	}
}
