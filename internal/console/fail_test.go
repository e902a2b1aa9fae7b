package console

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"atrium"
)

// The page of a failure tells the user nothing about its cause, so the log must.
func TestTheLogHasTheCauseOfAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   int
		logged string // "" for nothing
	}{
		"a response that is not JSON": {http.StatusOK, "<html>", http.StatusInternalServerError, "invalid character"},
		"an internal error":           {http.StatusInternalServerError, `{"code":"` + string(atrium.CodeInternal) + `"}`, http.StatusInternalServerError, string(atrium.CodeInternal)},
		"nothing found":               {http.StatusNotFound, `{"code":"` + string(atrium.CodeNotFound) + `"}`, http.StatusNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			console, ask, tenant := newLimited(t)
			console.Log = slog.New(slog.NewTextHandler(&log, nil))
			console.API = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			if status := ask(http.MethodGet, prefix+"/"+string(tenant)+"/accounts", nil); status != c.want {
				t.Errorf("status %d, want %d", status, c.want)
			}
			if !strings.Contains(log.String(), c.logged) || (c.logged == "") != (log.Len() == 0) {
				t.Errorf("the log has %q, want %q", log.String(), c.logged)
			}
		})
	}
}
