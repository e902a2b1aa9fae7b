package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answering returns a client of a server that gives one answer.
func answering(t *testing.T, handler http.HandlerFunc) *client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newClient(server.Client().Transport, server.URL, "atr_secret", "tenant_1")
}

func TestWhatAServerSaysAgainstARequestIsShown(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		status                  int
		want                    string
	}{
		{
			"with every fault", "application/problem+json",
			`{"type":"/errors/invalid_request","detail":"It is not valid.","code":"invalid_request","requestId":"req_1",
			"errors":[{"pointer":"/name","detail":"is bad"},{"parameter":"limit","detail":"is worse"},{"header":"If-Match","detail":"is odd"}]}`,
			http.StatusBadRequest, "It is not valid.\n  /name is bad\n  limit is worse\n  If-Match is odd",
		},
		{
			"with what leads to the log of the server", "application/problem+json; charset=utf-8",
			`{"detail":"The service cannot do this right now.","code":"unavailable","requestId":"req_1"}`,
			http.StatusServiceUnavailable, "The service cannot do this right now. (request ID req_1)",
		},
		{"though it is something else that answers", "text/html", "<h1>Sorry</h1>", http.StatusBadGateway, "server returned 502 Bad Gateway"},
		{"though it is no problem document", "application/problem+json", "{", http.StatusNotFound, "server returned 404 Not Found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := client.ask(t.Context(), call{method: http.MethodGet, path: "/brands"})
			if err == nil || explain(err) != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestARedirectDoesNotLeadTheKeyAway(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	client := answering(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	_, err := client.ask(t.Context(), call{method: http.MethodGet, path: "/brands"})
	if err == nil || err.Error() != "server returned 307 Temporary Redirect" {
		t.Error(err)
	}
}

func TestARequestCarriesTheKeyAndTheTenant(t *testing.T) {
	client := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if h := r.Header; h.Get("X-Api-Key") != "atr_secret" || h.Get("Atrium-Tenant") != "tenant_1" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%v", h)
		}
		_, _ = io.Copy(w, r.Body)
	})
	a, err := client.ask(t.Context(), call{method: http.MethodPost, path: "/brands", body: strings.NewReader("{}")})
	if err != nil || string(a.body) != "{}" {
		t.Errorf("%s, %v", a.body, err)
	}
}

// A list that says that there is more and not where would be asked for again without
// end.
func TestAListWithoutACursorIsAnError(t *testing.T) {
	client := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"brandId":"brand_1"}],"hasMore":true}`)
	})
	var out strings.Builder
	err := printList(t.Context(), client, call{method: http.MethodGet, path: "/brands", query: map[string][]string{}}, 0,
		newListing(&out, formTable, []column{{"BRAND", "brandId"}, {"NAME", "name"}}))
	if err == nil || out.String() != "BRAND    NAME\nbrand_1  -\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// What somebody gave is printed as it is, to the last digit; what is for people
// cannot move the cursor of a terminal.
func TestAnAnswerIsPrintedAsItCame(t *testing.T) {
	body := `{"n":1.50,"n":12345678901234567890,"s":"\u00e9\u001b[31m","o":{"a":["x",2]},"none":null,"empty":[]}`
	var table, json strings.Builder
	columns := []column{{"S", "s"}, {"A", "o.a"}, {"X", "o.x.y"}, {"NONE", "none"}, {"EMPTY", "empty"}, {"O", "o"}}
	if err := writeIndented(&json, []byte(body)); err != nil {
		t.Fatal(err)
	}
	o := operation{shows: upright, columns: columns, remark: "one letter"}
	if err := o.table(&table, []byte(body)); err != nil {
		t.Fatal(err)
	}
	if strings.Join(strings.Fields(json.String()), "") != body {
		t.Errorf("%s", json.String())
	}
	if want := "S      é\uFFFD[31m\n       one letter\nA      x 2\nX      -\nNONE   -\nEMPTY  -\nO      {\"a\":[\"x\",2]}\n"; table.String() != want {
		t.Errorf("%s", table.String())
	}
}

func TestTheTraceOfTheEnvironmentGoesWithARequestIfItIsOne(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for parent, want := range map[string]string{"": "", good: good, good + "\r\nX: 1": "", good + "\n": "", "c4n4ry": ""} {
		t.Setenv("TRACEPARENT", parent)
		client := answering(t, func(_ http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Traceparent"); got != want {
				t.Errorf("%q was sent for %q", got, parent)
			}
		})
		if _, err := client.ask(t.Context(), call{method: http.MethodGet, path: "/brands"}); err != nil {
			t.Error(err)
		}
	}
}
