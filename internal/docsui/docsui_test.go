package docsui_test

import (
	"bytes"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"atrium/api"
	"atrium/internal/docsui"
)

// views are the pages, each with its document.
var views = map[string]api.Document{"/docs": api.External, "/docs/manage": api.Manage, "/docs/content": api.Content, "/docs/receive": api.Receive, "/docs/events": api.Events}

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

func TestFilesAreServedUnchangedWithEntityTags(t *testing.T) {
	all := map[string]struct{ file, contentType string }{
		"/docs/page.js":  {"page.js", "text/javascript; charset=utf-8"},
		"/docs/page.css": {"page.css", "text/css; charset=utf-8"},
		"/docs":          {"", "text/html; charset=utf-8"},
		"/docs/manage":   {"", "text/html; charset=utf-8"},
		"/docs/content":  {"", "text/html; charset=utf-8"},
		"/docs/receive":  {"", "text/html; charset=utf-8"},
		"/docs/events":   {"", "text/html; charset=utf-8"},
	}
	for path := range docsui.Pages() {
		if _, known := all[path]; !known {
			t.Errorf("%s is served, but not tested", path)
		}
	}
	for path, want := range all {
		w := get(t, path, "")
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != want.contentType {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
		if want.file != "" {
			if file, err := os.ReadFile(want.file); err != nil || !bytes.Equal(w.Body.Bytes(), file) {
				t.Errorf("%s differs from %s: %v", path, want.file, err)
			}
		}
		tag := h.Get("ETag")
		if again := get(t, path, tag); tag == "" || again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("%s with the tag %q: %d", path, tag, again.Code)
		}
	}
}

// Every link of a page leads to a part of it, or to something that the service serves.
func TestPagesLinkOnlyToWhatIsServed(t *testing.T) {
	served := []string{"/", "/errors/", "/docs/page.css", "/docs/page.js", "data:,"}
	for path := range views {
		served = append(served, path)
	}
	for path := range docsui.Documents() {
		served = append(served, path)
	}
	for path := range views {
		page := get(t, path, "").Body.String()
		ids := map[string]bool{}
		for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if ids["#"+id[1]] {
				t.Errorf("%s has two elements %s", path, id[1])
			}
			ids["#"+id[1]] = true
		}
		for _, link := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if to := link[1]; !slices.Contains(served, to) && !ids[to] && !strings.HasPrefix(to, "/errors/") {
				t.Errorf("%s refers to %s, which is not served", path, to)
			}
		}
		if !strings.Contains(page, `<a href="`+path+`" aria-current="page">`) || strings.Count(page, "aria-current") != 1 {
			t.Errorf("%s does not mark itself as the current page", path)
		}
		if m := regexp.MustCompile(`<style|<script>| style=| on[a-z]+=`).FindString(page); m != "" {
			t.Errorf("%s has an inline style or script, which its policy forbids: %s", path, m)
		}
	}
}

func TestCommandsUseTheKeyOfTheirAPI(t *testing.T) {
	for path, variable := range map[string]string{"/docs": "ATRIUM_KEY", "/docs/manage": "ATRIUM_MANAGE_KEY", "/docs/content": "ATRIUM_SITE_KEY"} {
		page := html.UnescapeString(get(t, path, "").Body.String())
		keys := regexp.MustCompile(`x-api-key: \$(\w+)"`).FindAllStringSubmatch(page, -1)
		if len(keys) == 0 {
			t.Errorf("no command of %s has a key", path)
		}
		for _, key := range keys {
			if key[1] != variable {
				t.Errorf("a command of %s sends $%s, want $%s", path, key[1], variable)
			}
		}
	}
}

// The server sends events: there is nothing to try.
func TestEventsHaveNoCommands(t *testing.T) {
	page := get(t, "/docs/events", "").Body.String()
	if strings.Contains(page, "curl") || !strings.Contains(page, `data-path="account_log.created"`) {
		t.Error("the page of events has a command, or lacks an event")
	}
}

// A reader looks for what exists before changing it.
func TestAPathShowsReadsBeforeChanges(t *testing.T) {
	order := []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	for path := range views {
		last, before := "", 0
		for _, m := range regexp.MustCompile(`data-method="(\w+)" data-path="([^"]+)"`).FindAllStringSubmatch(get(t, path, "").Body.String(), -1) {
			at := slices.Index(order, m[1])
			if m[2] == last && at < before {
				t.Errorf("%s shows %s after %s of %s", path, m[1], order[before], last)
			}
			last, before = m[2], at
		}
	}
}

// unshown lists, by kind, the components whose descriptions a page omits: the introduction covers them,
// they belong to errors, or every reference to them overrides the description.
var unshown = map[string][]string{
	"securitySchemes": {"apiKey"},
	"parameters":      {"RequestId"},
	"headers":         {"Allow", "CacheControl", "RateLimit", "RateLimitPolicy", "RequestId", "RetryAfter", "WWWAuthenticate"},
	"responses":       {"MethodNotAllowed"},
	"schemas":         {"ErrorCode", "Fault", "List", "PageFields", "Problem", "ProspectText", "Timestamp"},
}

// The page has every text of its document that is for readers, without a script.
func TestPagesShowTheWholeDocument(t *testing.T) {
	tag, space := regexp.MustCompile(`<[^>]*>`), regexp.MustCompile(`\s+`)
	plain := func(text string) string { return strings.TrimSpace(space.ReplaceAllString(text, " ")) }
	for path, d := range views {
		shown := plain(html.UnescapeString(tag.ReplaceAllString(get(t, path, "").Body.String(), "")))
		var root struct {
			Info, Paths, Webhooks map[string]any
			Tags                  []any
			Components            map[string]map[string]map[string]any
		}
		if err := yaml.Unmarshal(d.YAML(), &root); err != nil {
			t.Fatal(err)
		}
		parts := []any{root.Info, root.Tags, root.Paths, root.Webhooks}
		for kind, components := range root.Components {
			for name, component := range components {
				if content, _ := component["content"].(map[string]any); content["application/problem+json"] != nil {
					component = map[string]any{"description": component["description"]} // the page links to that of the error
				}
				if !slices.Contains(unshown[kind], name) {
					parts = append(parts, component)
				}
			}
		}
		texts := 0
		for _, part := range parts {
			for _, text := range textsOf(part) {
				texts++
				if !strings.Contains(shown, plain(text)) {
					t.Errorf("%s does not show %q", path, text)
				}
			}
		}
		if texts < 50 {
			t.Errorf("found only %d texts in the document of %s", texts, path)
		}
	}
}

// textsOf returns the summaries in a part of a document, and the paragraphs of descriptions, without
// Markdown. It leaves out lists, tables and headings.
func textsOf(node any) (all []string) {
	marked := regexp.MustCompile(`(?m)^ *(-|\d\.|#+|\|) |\]\(`)
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			all = append(all, textsOf(item)...)
		}
	case map[string]any:
		for name, value := range node {
			text, isText := value.(string)
			_, isList := value.([]any)
			switch {
			case name == "value" || name == "example" || name == "examples" && isList: // not the names of examples
			case name == "summary" && isText:
				all = append(all, text)
			case name == "description" && isText:
				for paragraph := range strings.SplitSeq(text, "\n\n") {
					if !marked.MatchString(paragraph) {
						all = append(all, strings.NewReplacer("`", "", "**", "").Replace(paragraph))
					}
				}
			default:
				all = append(all, textsOf(value)...)
			}
		}
	}
	return all
}

func TestDocumentsAreServedAsJSONAndYAMLAndHaveAPage(t *testing.T) {
	served := docsui.Documents()
	for path, d := range views {
		m := regexp.MustCompile(`href="([^"]*)\.json"`).FindStringSubmatch(get(t, path, "").Body.String())
		if m == nil {
			t.Fatalf("%s does not link to its document", path)
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
	const want = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	for path := range views {
		if got := get(t, path, "").Header().Values("Content-Security-Policy"); len(got) != 1 || got[0] != want {
			t.Errorf("the policy of %s is %q", path, got)
		}
	}
}
