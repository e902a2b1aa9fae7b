package secure

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"atrium/api"
	"atrium/internal/docsui"
	"atrium/internal/rest"
	"atrium/test/nodes"
)

// routes returns every method and path that the service has, with something in the place
// of identifiers, and some that it has not.
func routes(t *testing.T) (all [][2]string) {
	t.Helper()
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	for _, d := range []api.Document{api.External, api.Manage} {
		var document struct {
			Paths map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal(d.JSON(), &document); err != nil {
			t.Fatal(err)
		}
		for path, methods := range document.Paths {
			for method := range methods {
				if method != "parameters" {
					all = append(all, [2]string{strings.ToUpper(method), parameter.ReplaceAllString(path, "a")})
				}
			}
		}
	}
	for _, pages := range []map[string]http.Handler{docsui.Documents(), docsui.Pages(), rest.ErrorPages()} {
		for path := range pages {
			all = append(all, [2]string{http.MethodGet, strings.TrimSuffix(path, "{$}")})
		}
	}
	if len(all) < 80 {
		t.Fatalf("found %d routes", len(all))
	}
	return append(all, [2]string{"GET", "/nowhere"}, [2]string{"GET", "//"}, [2]string{"PUT", "/docs"}, [2]string{"HEAD", "/docs"}, [2]string{"GET", "/healthz"}, [2]string{"GET", "/readyz"})
}

func TestEveryAnswerTellsBrowsersToDoNothingCleverWithIt(t *testing.T) {
	secured := start(t)
	plain := nodes.Start(t, 1, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"))[0]
	for base, c := range map[string]struct {
		client *http.Client
		hsts   string
	}{
		"https://" + secured.Addr: {secured.client(t, true), "max-age=31536000"},
		"http://" + plain.Addr:    {nodes.Client(t), ""},
	} {
		for _, route := range routes(t) {
			r, err := http.NewRequestWithContext(t.Context(), route[0], base+route[1], nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			h := response.Header
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
				"Strict-Transport-Security": c.hsts, "Server": "", "X-Powered-By": "",
			} {
				if got := strings.Join(h[name], ", "); got != want {
					t.Errorf("%s %s%s: %s is %q, want %q", route[0], base, route[1], name, got, want)
				}
			}
			policy := strings.Join(h["Content-Security-Policy"], ", ")
			for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'"} {
				if !strings.Contains(policy, part) {
					t.Errorf("%s %s%s: the policy is %q", route[0], base, route[1], policy)
				}
			}
			if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
				t.Errorf("%s %s%s: the policy lets in too much: %q", route[0], base, route[1], policy)
			}
		}
	}
}

func TestNoTimeOfHSTSIsNoHeader(t *testing.T) {
	s := start(t, "--hsts", "0s")
	if a := s.must(t, s.client(t, true), http.MethodGet, "/docs", ""); a.header.Get("Strict-Transport-Security") != "" {
		t.Error("it is sent")
	}
}
