package docsui_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"atrium/api"
	"atrium/internal/docsui"
)

const version = "5.35.0"

// views are the pages, one for each document.
var views = []string{"/docs", "/docs/manage"}

func get(t *testing.T, path, tag string) *httptest.ResponseRecorder {
	t.Helper()
	handler := docsui.Pages()[path]
	if handler == nil {
		t.Fatalf("%s is not served", path)
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

func TestFilesAreServedUnchangedWithEntityTags(t *testing.T) {
	all := map[string]struct{ file, contentType string }{
		"/docs/start.js":    {"start.js", "text/javascript; charset=utf-8"},
		"/docs/page.css":    {"page.css", "text/css; charset=utf-8"},
		"/docs/viewer.js":   {"swagger-ui/swagger-ui-bundle.js", "text/javascript; charset=utf-8"},
		"/docs/viewer.css":  {"swagger-ui/swagger-ui.css", "text/css; charset=utf-8"},
		"/docs/favicon.png": {"swagger-ui/favicon-32x32.png", "image/png"},
	}
	for path := range docsui.Pages() {
		if _, known := all[path]; !known && !slices.Contains(views, path) {
			t.Errorf("%s is served, but not tested", path)
		}
	}
	for _, path := range views {
		all[path] = struct{ file, contentType string }{"", "text/html; charset=utf-8"}
	}
	for path, want := range all {
		w := get(t, path, "")
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != want.contentType {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		if want.file != "" && !bytes.Equal(w.Body.Bytes(), read(t, want.file)) {
			t.Errorf("%s differs from %s", path, want.file)
		}
		tag := h.Get("ETag")
		if again := get(t, path, tag); tag == "" || again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s with the tag %q: %d", path, tag, again.Code)
		}
	}
}

func TestPagesLoadServedFilesAndLinkToEachOther(t *testing.T) {
	for _, path := range views {
		page := get(t, path, "").Body.String()
		links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
		if len(links) != len(docsui.Pages()) {
			t.Errorf("%s refers to %d files, want %d", path, len(links), len(docsui.Pages()))
		}
		for _, link := range links {
			if docsui.Pages()[link[1]] == nil {
				t.Errorf("%s refers to %s, which is not served", path, link[1])
			}
		}
		if !strings.Contains(page, `<a href="`+path+`" aria-current="page">`) || strings.Count(page, "aria-current") != 1 {
			t.Errorf("%s does not mark itself as the current page:\n%s", path, page)
		}
		if regexp.MustCompile(`<style|<script>| style=| on[a-z]+=`).MatchString(page) {
			t.Errorf("%s has an inline style or script, which its policy forbids:\n%s", path, page)
		}
	}
}

func TestDocumentsAreServedAsJSONAndYAMLAndHaveAPage(t *testing.T) {
	served := docsui.Documents()
	for path, d := range map[string]api.Document{"/docs": api.External, "/docs/manage": api.Manage} {
		m := regexp.MustCompile(`data-document="(.*)\.json"`).FindStringSubmatch(get(t, path, "").Body.String())
		if m == nil {
			t.Fatalf("%s has no document", path)
		}
		for form, want := range map[string][]byte{".json": d.JSON(), ".yaml": d.YAML()} {
			w := httptest.NewRecorder()
			served[m[1]+form].ServeHTTP(w, httptest.NewRequest(http.MethodGet, m[1]+form, nil))
			if !bytes.Equal(w.Body.Bytes(), want) {
				t.Errorf("%s: %s%s is %.80s", path, m[1], form, w.Body)
			}
			delete(served, m[1]+form)
		}
	}
	for path := range served {
		t.Errorf("%s is served, but no page shows it", path)
	}
}

func TestThePolicyIsStrict(t *testing.T) {
	const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	for _, path := range views {
		if got := get(t, path, "").Header().Values("Content-Security-Policy"); len(got) != 1 || got[0] != want {
			t.Errorf("the policy of %s is %q", path, got)
		}
	}
}

func TestTheVendoredViewerMatchesItsReadme(t *testing.T) {
	readme := string(read(t, "swagger-ui/README.md"))
	for _, text := range []string{"| " + version + " |", "swagger-ui-dist", "Apache-2.0", "To update:"} {
		if !strings.Contains(readme, text) {
			t.Errorf("the README does not contain %q", text)
		}
	}
	if !bytes.Contains(read(t, "swagger-ui/swagger-ui-bundle.js"), []byte(`"`+version+`"`)) {
		t.Errorf("the bundle does not have the version %s", version)
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
			t.Errorf("%s refers to a source map, which is not served", entry.Name())
		}
	}
}
