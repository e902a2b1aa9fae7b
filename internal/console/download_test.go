package console

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
)

// rowsAPI has a list without an end, page by page; before is called first.
func rowsAPI(before func(calls int, w http.ResponseWriter) bool) http.Handler {
	calls := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; before(calls, w) {
			return
		}
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		size, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		var rows []string
		for i := range size {
			rows = append(rows, fmt.Sprintf(`{"userId":"user_%d","name":"=Robin, %[1]d"}`, from+i))
		}
		_, _ = fmt.Fprintf(w, `{"items":[%s],"hasMore":true,"nextCursor":"%d"}`, strings.Join(rows, ","), from+size)
	})
}

func problem(w http.ResponseWriter, status int, code string) bool {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"code":%q}`, code)
	return true
}

// deadlines lets a recorder have deadlines, as connections do.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// download returns what a download is until its end, and whether it is complete.
func download(t *testing.T, c *Console, token, path string) (w *httptest.ResponseRecorder, complete bool) {
	t.Helper()
	return transmit(t, c, token, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
}

// transmit is download for a request.
func transmit(t *testing.T, c *Console, token string, r *http.Request) (w *httptest.ResponseRecorder, complete bool) {
	t.Helper()
	r.AddCookie(&http.Cookie{Name: plainCookie, Value: token})
	w = httptest.NewRecorder()
	mux := http.NewServeMux()
	for pattern, handler := range c.Handlers() {
		mux.Handle(pattern, handler)
	}
	held := func() [3]int { return [3]int{c.Streams.Held(), c.Pages.Held(), c.Limits.Heavy.Held()} }
	before := held()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
		}
		if held() != before {
			t.Error("slots are held after the download")
		}
	}()
	mux.ServeHTTP(deadlines{w}, r)
	return w, true
}

func TestADownloadIsBoundedAndSaysSo(t *testing.T) {
	c, _, tenant, token := newLimitedSession(t)
	most := 0
	c.API = rowsAPI(func(int, http.ResponseWriter) bool {
		most = max(most, c.Pages.Held())
		return false
	})
	w, complete := download(t, c, token, prefix+"/"+string(tenant)+"/people.csv")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(w.Body.String(), "\uFEFF"))).ReadAll()
	if err != nil || !complete || len(rows) != 1+maxRowsCSV+1 {
		t.Fatalf("%d rows, complete %v, %v", len(rows), complete, err)
	}
	if rows[0][0] != "userId" || rows[1][1] != "'=Robin, 0" || !strings.Contains(rows[len(rows)-1][0], "atrium users list -o csv") {
		t.Errorf("%q, %q, …, %q", rows[0], rows[1], rows[len(rows)-1])
	}
	if most != 1 {
		t.Errorf("%d slots of pages were held", most)
	}
}

// Otherwise a part of a list would pass for all of it.
func TestADownloadThatFailsIsNotComplete(t *testing.T) {
	c, _, tenant, token := newLimitedSession(t)
	path := prefix + "/" + string(tenant) + "/people.csv"
	c.API = rowsAPI(func(calls int, w http.ResponseWriter) bool {
		return calls == 3 && problem(w, http.StatusUnauthorized, "unauthenticated") // the session has ended
	})
	if w, complete := download(t, c, token, path); complete || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "user_199") {
		t.Errorf("%d, complete %v", w.Code, complete)
	}
	c.API = rowsAPI(func(_ int, w http.ResponseWriter) bool { return problem(w, http.StatusForbidden, "forbidden") })
	if w, complete := download(t, c, token, path); !complete || w.Code != http.StatusForbidden || w.Header().Get("Content-Disposition") != "" {
		t.Errorf("%d, complete %v, %v", w.Code, complete, w.Header())
	}
}

func TestADownloadWaitsForItsRate(t *testing.T) {
	c, _, tenant, token := newLimitedSession(t)
	c.API = rowsAPI(func(calls int, w http.ResponseWriter) bool {
		switch calls {
		case 2:
			return problem(w, http.StatusTooManyRequests, "rate_limited")
		case 3:
			_, _ = io.WriteString(w, `{"items":[{"userId":"user_last"}]}`)
			return true
		}
		return false
	})
	w, complete := download(t, c, token, prefix+"/"+string(tenant)+"/people.csv")
	if !complete || !strings.HasSuffix(w.Body.String(), "user_last,,,,\r\n") {
		t.Errorf("complete %v, %s", complete, w.Body)
	}
}

func TestDownloadsOfATenantAreLimitedAndEndWithTheServer(t *testing.T) {
	c, _, tenant, token := newLimitedSession(t)
	path := prefix + "/" + string(tenant) + "/people.csv"
	stopping, stop := context.WithCancel(t.Context())
	c.Stopping = stopping
	c.API = rowsAPI(func(calls int, w http.ResponseWriter) bool {
		if calls == 2 {
			if inner, _ := download(t, &Console{Sessions: c.Sessions, API: c.API, Limits: c.Limits, Pages: c.Pages, Streams: c.Streams}, token, path); inner.Code != http.StatusServiceUnavailable {
				t.Errorf("a second download: %d", inner.Code)
			}
			stop()
			return problem(w, http.StatusServiceUnavailable, "unavailable")
		}
		return false
	})
	began := time.Now()
	if _, complete := download(t, c, token, path); complete || time.Since(began) > 10*time.Second {
		t.Errorf("complete %v after %s", complete, time.Since(began))
	}
}

// The form of a download is limited as others are, and the download holds no slot for pages.
func TestTheDownloadOfAPersonIsLimited(t *testing.T) {
	for name, c := range map[string]struct {
		role atrium.Role
		text string
		want int
	}{
		"a search":              {atrium.RoleAdmin, "robin@people.example", http.StatusOK},
		"a form too large":      {atrium.RoleAdmin, strings.Repeat("a", maxForm), http.StatusRequestEntityTooLarge},
		"a form not in UTF-8":   {atrium.RoleAdmin, "\xff", http.StatusBadRequest},
		"a role that may not":   {atrium.RoleSupport, "robin@people.example", http.StatusForbidden},
		"a form that is unread": {atrium.RoleSupport, strings.Repeat("a", maxForm), http.StatusForbidden},
	} {
		console, _, tenant, token := newLimitedSession(t, c.role)
		sent := ""
		console.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != apiPrefix+"/persons/export" { // the name of the tenant
				return
			}
			if console.Pages.Held() > 0 || console.Streams.Held() != 1 {
				t.Errorf("%s: %d slots for pages and %d for streams are held", name, console.Pages.Held(), console.Streams.Held())
			}
			body, err := io.ReadAll(r.Body)
			if sent = string(body); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/x-ndjson")
			_, _ = io.WriteString(w, "{}\n")
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, prefix+"/"+string(tenant)+"/privacy/person.ndjson", strings.NewReader(url.Values{"text": {c.text}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w, complete := transmit(t, console, token, r)
		if w.Code != c.want || !complete || (w.Body.String() == "{}\n") != (c.want == http.StatusOK) {
			t.Errorf("%s: %d, complete %v, %s", name, w.Code, complete, w.Body)
		}
		if want := `{"rule":{"text":"robin@people.example","prospectEmail":"robin@people.example"}}`; (sent == want) != (c.want == http.StatusOK) {
			t.Errorf("%s: the API got %s", name, sent)
		}
	}
}
