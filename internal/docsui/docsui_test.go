package docsui_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"atrium/internal/docsui"
)

const version = "5.35.0"

func get(t *testing.T, path, tag string) *httptest.ResponseRecorder {
	t.Helper()
	handler := docsui.Pages()[path]
	if handler == nil {
		t.Fatalf("nothing serves %s", path)
	}
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryFileIsServedAsItIsAndOnlyWhenItChanged(t *testing.T) {
	all := map[string]struct{ file, contentType string }{
		"/docs":             {"page.html", "text/html; charset=utf-8"},
		"/docs/start.js":    {"start.js", "text/javascript; charset=utf-8"},
		"/docs/page.css":    {"page.css", "text/css; charset=utf-8"},
		"/docs/viewer.js":   {"swagger-ui/swagger-ui-bundle.js", "text/javascript; charset=utf-8"},
		"/docs/viewer.css":  {"swagger-ui/swagger-ui.css", "text/css; charset=utf-8"},
		"/docs/favicon.png": {"swagger-ui/favicon-32x32.png", "image/png"},
	}
	for path := range docsui.Pages() {
		if _, known := all[path]; !known {
			t.Errorf("%s is served and not tested", path)
		}
	}
	for path, want := range all {
		w := get(t, path, "")
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != want.contentType || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		if !bytes.Equal(w.Body.Bytes(), read(t, want.file)) {
			t.Errorf("%s is not %s", path, want.file)
		}
		tag := h.Get("ETag")
		if again := get(t, path, tag); tag == "" || again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s with the tag %q: %d", path, tag, again.Code)
		}
	}
}

func TestThePageLoadsOnlyWhatIsServed(t *testing.T) {
	page := get(t, "/docs", "").Body.String()
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) != len(docsui.Pages())-1 {
		t.Errorf("the page loads %d files of %d", len(links), len(docsui.Pages())-1)
	}
	for _, link := range links {
		if docsui.Pages()[link[1]] == nil {
			t.Errorf("the page loads %s, which is not served", link[1])
		}
	}
	if regexp.MustCompile(`<style|<script>| style=| on[a-z]+=`).MatchString(page) {
		t.Errorf("the page has a style or script in it, which its policy forbids:\n%s", page)
	}
}

func TestThePolicyIsStrict(t *testing.T) {
	const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	w := get(t, "/docs", "")
	if got := w.Header().Values("Content-Security-Policy"); len(got) != 1 || got[0] != want {
		t.Errorf("the policy is %q", got)
	}
}

func TestTheVendoredViewerIsWhatItsReadmeSays(t *testing.T) {
	readme := string(read(t, "swagger-ui/README.md"))
	for _, text := range []string{"| " + version + " |", "swagger-ui-dist", "Apache-2.0", "To update:"} {
		if !strings.Contains(readme, text) {
			t.Errorf("the README does not say %q", text)
		}
	}
	if !bytes.Contains(read(t, "swagger-ui/swagger-ui-bundle.js"), []byte(`"`+version+`"`)) {
		t.Errorf("the bundle is not of version %s", version)
	}
	for name, text := range map[string]string{"LICENSE": "Apache License", "NOTICE": "swagger-ui", "swagger-ui-bundle.js.LICENSE.txt": "@license"} {
		if !bytes.Contains(read(t, "swagger-ui/"+name), []byte(text)) {
			t.Errorf("%s does not contain %q", name, text)
		}
	}
	entries, err := os.ReadDir("swagger-ui")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != "README.md" && bytes.Contains(read(t, "swagger-ui/"+entry.Name()), []byte("sourceMappingURL")) {
			t.Errorf("%s names a source map, which is not served", entry.Name())
		}
	}
}
