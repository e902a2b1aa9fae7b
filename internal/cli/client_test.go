package cli

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newTestClient returns a client of a server with the handler.
func newTestClient(t *testing.T, handler http.HandlerFunc) *client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newClient(server.Client().Transport, server.URL, "atr_secret", "tenant_1")
}

func TestServerErrorsAreShown(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		want                    string
	}{
		{
			"problem with faults", "application/problem+json",
			`{"type":"/errors/invalid_request","detail":"It is not valid.","code":"invalid_request","requestId":"req_1",
			"errors":[{"pointer":"/name","detail":"is bad"},{"parameter":"limit","detail":"is worse"},
			{"header":"If-Match","detail":"is odd"}]}`,
			http.StatusBadRequest, "It is not valid.\n  /name is bad\n  limit is worse\n  If-Match is odd",
		},
		{
			"server error with request ID", "application/problem+json; charset=utf-8",
			`{"detail":"The service cannot do this right now.","code":"unavailable","requestId":"req_1"}`,
			http.StatusServiceUnavailable, "The service cannot do this right now. (request ID req_1)",
		},
		{"response of a proxy", "text/html", "<h1>Sorry</h1>", http.StatusBadGateway,
			"server returned 502 Bad Gateway"},
		{"invalid problem document", "application/problem+json", "{", http.StatusNotFound,
			"server returned 404 Not Found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := client.fetch(t.Context(), call{method: http.MethodGet, path: "/brands"})
			if err == nil || explain(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestUnknownCertificateIsExplained(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, err := newClient(&http.Transport{}, server.URL, "atr_secret", "").fetch(t.Context(), call{method: http.MethodGet, path: "/keys"})
	want := "connect to server " + server.URL + ": certificate signed by unknown authority: if the certificate is your own, set SSL_CERT_FILE to it"
	if err == nil || explain(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	t.Cleanup(elsewhere.Close)
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	_, err := client.fetch(t.Context(), call{method: http.MethodGet, path: "/brands"})
	if err == nil || err.Error() != "server returned 307 Temporary Redirect" {
		t.Error(err)
	}
}

// A proxy may answer with a page of its own and 200.
func TestExportOfAnotherMediaTypeIsAnError(t *testing.T) {
	t.Setenv(envKey, "atr_key")
	file := filepath.Join(t.TempDir(), "export.ndjson")
	for _, args := range [][]string{
		{"export"}, {"export", file}, {"audit", "export"},
		{"entries", "payload", "prospectlog_01kghg01ftes8r65rzyjka792g"},
	} {
		for contentType, ok := range map[string]bool{
			"": false, "text/html; charset=utf-8": false, "text/plain": false, "\"": false,
			"application/x-ndjson": args[0] != "entries", "application/json": args[0] == "entries",
		} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{contentType}
				_, _ = io.WriteString(w, "{}\n")
			}))
			var out, stderr bytes.Buffer
			code := Main(append(args, "--server", server.URL), strings.NewReader(""), &out, &stderr)
			server.Close()
			_, err := os.Stat(file)
			if created := err == nil; code == 0 != ok || !ok && (created || out.Len() > 0) {
				t.Errorf("%v of %q: exit code %d, file created: %t, %q", args, contentType, code, created, out.String())
			}
			want := fmt.Sprintf("server returned 200 OK with content type %q, want application/", contentType)
			if !ok && !strings.Contains(stderr.String(), want) {
				t.Errorf("%v of %q: %s", args, contentType, stderr.String())
			}
			_ = os.Remove(file)
		}
	}
}

func TestRequestsCarryKeyAndTenant(t *testing.T) {
	client := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		if h := r.Header; h.Get("X-Api-Key") != "atr_secret" || h.Get("Atrium-Tenant") != "tenant_1" ||
			h.Get("Content-Type") != "application/json" {
			t.Errorf("%v", h)
		}
		_, _ = io.Copy(w, r.Body)
	})
	a, err := client.fetch(t.Context(), call{method: http.MethodPost, path: "/brands", body: strings.NewReader("{}")})
	if err != nil || string(a.body) != "{}" {
		t.Errorf("%s, %v", a.body, err)
	}
}

// Without a cursor, the client would read the first page forever.
func TestListWithoutCursorIsAnError(t *testing.T) {
	client := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"brandId":"brand_1"}],"hasMore":true}`)
	})
	var out strings.Builder
	err := printList(t.Context(), client,
		call{method: http.MethodGet, path: "/brands", query: map[string][]string{}}, 0,
		newListing(&out, formTable, []column{{"BRAND", "brandId"}, {"NAME", "name"}}))
	if err == nil || out.String() != "BRAND    NAME\nbrand_1  -\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// JSON output keeps every digit, and tables cannot control the terminal.
func TestResponsesArePrintedUnchanged(t *testing.T) {
	body := `{"n":1.50,"n":12345678901234567890,"s":"\u00e9\u001b[31m","o":{"a":["x",2]},"none":null,"empty":[]}`
	var table, json strings.Builder
	columns := []column{{"S", "s"}, {"A", "o.a"}, {"X", "o.x.y"}, {"NONE", "none"}, {"EMPTY", "empty"}, {"O", "o"}}
	if err := writeIndented(&json, []byte(body)); err != nil {
		t.Fatal(err)
	}
	o := operation{layout: layoutDetails, columns: columns, note: "one letter"}
	if err := o.writeRows(&table, io.Discard, formTable, []byte(body)); err != nil {
		t.Fatal(err)
	}
	if strings.Join(strings.Fields(json.String()), "") != body {
		t.Errorf("%s", json.String())
	}
	want := "S      é\uFFFD[31m\n       one letter\nA      x 2\nX      -\nNONE   -\nEMPTY  -\n" +
		"O      {\"a\":[\"x\",2]}\n"
	if table.String() != want {
		t.Errorf("%s", table.String())
	}
}

func TestTraceparentFromEnvironmentIsSentIfValid(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for parent, want := range map[string]string{"": "", good: good, good + "\r\nX: 1": "", good + "\n": "",
		"c4n4ry": ""} {
		t.Setenv("TRACEPARENT", parent)
		client := newTestClient(t, func(_ http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Traceparent"); got != want {
				t.Errorf("%q was sent for %q", got, parent)
			}
		})
		if _, err := client.fetch(t.Context(), call{method: http.MethodGet, path: "/brands"}); err != nil {
			t.Error(err)
		}
	}
}
