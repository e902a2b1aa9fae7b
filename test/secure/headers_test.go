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

// routes returns every method and path for programs, with sample identifiers, and the
// pages that browsers show.
func routes(t *testing.T) (all, shown [][2]string) {
	t.Helper()
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	for _, d := range []api.Document{api.External, api.Manage, api.Content, api.Receive} {
		var document struct {
			Paths map[string]map[string]json.RawMessage
		}
		if err := json.Unmarshal(d.JSON(), &document); err != nil {
			t.Fatal(err)
		}
		for path, methods := range document.Paths {
			for method := range methods {
				target := parameter.ReplaceAllString(path, "a")
				if method != "parameters" {
					all = append(all, [2]string{strings.ToUpper(method), target})
				}
				if method == "get" {
					all = append(all, [2]string{http.MethodHead, target})
				}
			}
		}
	}
	for _, pages := range []map[string]http.Handler{docsui.Documents(), docsui.Pages(), rest.ErrorPages()} {
		for path := range pages {
			shown = append(shown, [2]string{http.MethodGet, strings.TrimSuffix(path, "{$}")})
		}
	}
	if len(all) < 50 || len(shown) < 20 {
		t.Fatalf("found %d routes and %d pages", len(all), len(shown))
	}
	all = append(all, [2]string{"PUT", "/docs"})
	return all, append(shown, [2]string{"GET", "/"}, [2]string{"GET", "/nowhere"}, [2]string{"GET", "//"}, [2]string{"GET", "/errors"}, [2]string{"HEAD", "/docs"}, [2]string{"GET", "/healthz"}, [2]string{"GET", "/readyz"})
}

func TestEveryResponseHasSecurityHeaders(t *testing.T) {
	hsts := []string{"--hsts", "1h"}
	secured := start(t, hsts...)
	plain := nodes.Start(t, 1, "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), hsts...)[0]
	for base, c := range map[string]struct {
		client *http.Client
		hsts   string
	}{
		"https://" + secured.Addr: {secured.client(t, true), "max-age=3600"},
		"http://" + plain.Addr:    {nodes.Client(t), ""},
	} {
		ask := func(route [2]string, more map[string]string) http.Header {
			r, err := http.NewRequestWithContext(t.Context(), route[0], base+route[1], nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			for _, wanted := range []map[string]string{more, {
				"X-Content-Type-Options": "nosniff", "Strict-Transport-Security": c.hsts, "Server": "", "X-Powered-By": "",
			}} {
				for name, want := range wanted {
					if got := strings.Join(response.Header[name], ", "); got != want {
						t.Errorf("%s %s%s: %s is %q, want %q", route[0], base, route[1], name, got, want)
					}
				}
			}
			return response.Header
		}
		programs, shown := routes(t)
		for _, route := range programs {
			ask(route, nil)
		}
		for _, route := range shown {
			h := ask(route, map[string]string{"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"})
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

func TestHSTSIsSentOnlyIfConfigured(t *testing.T) {
	s := start(t)
	if a := s.must(t, s.client(t, true), http.MethodGet, "/docs", ""); a.header.Get("Strict-Transport-Security") != "" {
		t.Error("it is sent")
	}
}
