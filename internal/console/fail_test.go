package console

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// A tenant whose users ask for too many pages gets one that costs nothing, also instead of the page of an error.
func TestErrorsOfATenantWithTooManyPagesCostNothing(t *testing.T) {
	console, ask, tenant := newLimited(t)
	console.API = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s is called", r.URL) })
	if err := console.Pages.Acquire(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/accounts", "/nothing", "/accounts?q=%FF"} {
		if status := ask(http.MethodGet, prefix+"/"+string(tenant)+path, nil); status != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d", path, status)
		}
	}
	console.Pages.Release(tenant)
	if status := ask(http.MethodGet, prefix+"/"+string(tenant)+"/nothing", nil); status != http.StatusNotFound {
		t.Errorf("afterwards: status %d", status)
	}
	if held := console.Pages.Held(); held != 0 {
		t.Errorf("%d slots are held", held)
	}
}

// A change whose commit may have been lost, or that was the second of two, is not called undone.
func TestTheErrorSaysWhatMayHaveBeenChanged(t *testing.T) {
	problem := func(e *atrium.Error) string {
		return `{"code":"` + string(e.Code) + `","detail":"` + e.Detail + `"}`
	}
	for name, c := range map[string]struct {
		err        *atrium.Error
		want, lack string
	}{
		"certain":   {atrium.Unavailable(nil), "The brand was created, the page was not.", "Nothing was changed."},
		"uncertain": {atrium.Uncertain(nil), "Check it before you try again.", "was not"},
	} {
		t.Run(name, func(t *testing.T) {
			console, _, tenant, session := newLimitedSession(t)
			console.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/brands") {
					w.WriteHeader(http.StatusCreated)
					_, _ = io.WriteString(w, `{"brandId":"brand_01kzdemo00000000000000000a"}`)
					return
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, problem(c.err))
			})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, prefix+"/"+string(tenant)+"/pages", strings.NewReader("brandName=Blue&name=Spring"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.AddCookie(&http.Cookie{Name: plainCookie, Value: session})
			w := httptest.NewRecorder()
			for pattern, handler := range console.Handlers() {
				if pattern == "POST "+of+"/pages" {
					r.SetPathValue("tenant_id", string(tenant))
					handler.ServeHTTP(w, r)
				}
			}
			if page := w.Body.String(); !strings.Contains(page, c.want) || strings.Contains(page, c.lack) {
				t.Errorf("the page says %s, want %q without %q", page, c.want, c.lack)
			}
		})
	}
}
