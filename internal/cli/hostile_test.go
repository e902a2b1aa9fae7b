package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// hostileText contains what must not reach a terminal: escape sequences, C1 controls, all kinds of
// line breaks, and characters that hide or reorder text.
const hostileText = "a\x1b[2J\x1b]0;x\a\x00\x7f\b\r\nb\u009b31m\u0085\u2028\u2029" +
	"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\ufeff\U000e0041é"

// wantPrintable checks that a text has the number of lines, and no character that controls the
// terminal.
func wantPrintable(t *testing.T, what, text string, lines int) {
	t.Helper()
	if got := strings.Count(text, "\n"); got != lines {
		t.Errorf("%s: %d lines, want %d: %q", what, got, lines, text)
	}
	for _, r := range strings.ReplaceAll(text, "\n", "") {
		if !unicode.IsGraphic(r) {
			t.Errorf("%s: %U in %q", what, r, text)
			return
		}
	}
	if !strings.Contains(text, "é") {
		t.Errorf("%s: %q misses the text", what, text)
	}
}

func quoted(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestServerResponsesCannotControlTheTerminal(t *testing.T) {
	text := quoted(t, hostileText)
	fault := func(place string) string { return `{"` + place + `":` + text + `,"detail":` + text + `}` }
	for name, c := range map[string]struct {
		status int
		body   string
		lines  int
		args   []string
	}{
		"a problem": {400, `{"code":"invalid_request","title":` + text + `,"detail":` + text + `,"errors":[` +
			fault("pointer") + `,` + fault("parameter") + `,` + fault("header") + `]}`, 4, []string{"brands", "list"}},
		"a server error": {503, `{"code":"unavailable","detail":"é","requestId":` + text + `}`, 1,
			[]string{"brands", "list"}},
		"a code": {409, `{"code":` + text + `,"detail":` + text + `}`, 1, []string{"brands", "list"}},
		"a rejected import": {400,
			`{"code":"invalid_request","detail":` + text + `,"errors":[` + fault("pointer") + `]}`, 2,
			[]string{"import", "-"}},
		"a list": {200, `{"items":[{"brandId":` + text + `,"name":` + text + `}],"hasMore":false}`, 2,
			[]string{"brands", "list"}},
		"an object": {200,
			`{"accountId":` + text + `,"linkedProspects":[{"prospectId":` + text + `,"name":` + text +
				`}],"merged":[{"accountId":` + text + `}],"name":{"a":` + text + `}}`, 8,
			[]string{"accounts", "get", "account_01kghg01ftes8r65rzyjka792g"}},
		"a cursor": {200, `{"moved":1,"nextCursor":` + text + `}`, 1,
			[]string{"moves", "create", "--to", "account_01kghg01ftes8r65rzyjka792g", "--rule", "{}", "--check"}},
		"outcomes of a batch": {200,
			`{"outcomes":[{"status":400,"detail":` + text + `,"errors":[` + fault("pointer") + `]}]}`, 3,
			[]string{"entries", "batch", "-"}},
		"the head of the log": {200, `{"number":1,"hash":` + text + `}`, 1, []string{"audit", "head"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if c.status >= 400 {
					w.Header().Set("Content-Type", "application/problem+json")
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			t.Setenv(envKey, "atr_key")
			var out bytes.Buffer
			Main(append(c.args, "--server", server.URL), strings.NewReader("{}\n"), &out, &out)
			wantPrintable(t, name, out.String(), c.lines)
		})
	}
}

func TestServerStatusCannotControlTheTerminal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn,
			"HTTP/1.1 502 \x1b[2J\u202e\u009b é\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = conn.Close()
	}))
	defer server.Close()
	t.Setenv(envKey, "atr_key")
	var out bytes.Buffer
	Main([]string{"brands", "list", "--server", server.URL}, strings.NewReader(""), &out, &out)
	wantPrintable(t, "a status", out.String(), 1)
}

// endlessList serves a list without an end, whose pages have the cursors cursor(1), cursor(2) and
// so on.
func endlessList(t *testing.T, cursor func(page int) string) (*client, *int) {
	t.Helper()
	requests := 0
	return newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = fmt.Fprintf(w, `{"items":[{"brandId":"brand_%d"}],"hasMore":true,"nextCursor":%q}`, requests,
			cursor(requests))
	}), &requests
}

func TestListWithRepeatedCursorIsAnError(t *testing.T) {
	for _, cycle := range []int{1, 2, 3, 7, 100} {
		for _, before := range []int{0, 1, 5} {
			client, requests := endlessList(t,
				func(page int) string { return fmt.Sprint(min(page, before), max(0, page-before)%cycle) })
			err := printList(t.Context(), client,
				call{method: http.MethodGet, path: "/brands", query: map[string][]string{}}, 0,
				newListing(io.Discard, formTable, []column{{"BRAND", "brandId"}}))
			if err == nil || !strings.Contains(err.Error(), "repeats a cursor") {
				t.Errorf("a cycle of %d after %d: %v", cycle, before, err)
			}
			if *requests > 4*(cycle+before)+2 {
				t.Errorf("a cycle of %d after %d was found after %d pages", cycle, before, *requests)
			}
		}
	}
}

func TestEndlessListIsAnError(t *testing.T) {
	var c cursorCheck
	for page := 1; ; page++ {
		if err := c.next(strconv.Itoa(page)); err != nil {
			if page != maxPages {
				t.Errorf("after %d pages: %v", page, err)
			}
			return
		}
		if page > maxPages {
			t.Fatal("no error")
		}
	}
}

// An endlessReader returns zeros forever.
type endlessReader struct{ read int }

func (r *endlessReader) Read(b []byte) (int, error) {
	r.read += len(b)
	return len(b), nil
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEndlessResponseIsAnError(t *testing.T) {
	body := &endlessReader{}
	c := newClient(transportFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}, nil
	}), "http://atrium.test", "", "")
	if _, err := c.fetch(t.Context(),
		call{method: http.MethodGet, path: "/brands"}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Error(err)
	}
	if body.read > 2*maxResponse {
		t.Errorf("%d bytes were read", body.read)
	}
}
