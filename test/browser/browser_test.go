// Package browser tests the pages for people, the pages of the OpenAPI documents and the
// error pages, in a real browser against a real server.
//
// To save screenshots:
//
//	go test ./test/browser -args -screenshots DIR
package browser_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/api"
	"atrium/internal/app/apptest"
	"atrium/internal/rest"
	"atrium/internal/store"
	"atrium/internal/transfer"
)

var screenshots = flag.String("screenshots", "", "the `directory` to save pictures of the pages in")

// newServer starts the service with the demo data. It returns the base URL and a key with
// all scopes.
func newServer(t *testing.T) (base, key string) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	addr := apptest.Start(t, s)

	demo, err := os.Open("../../internal/cli/demo.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = demo.Close() }()
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Demo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Import(t.Context(), s, tenant.ID, demo, transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	key, _ = apptest.Key(t, s, tenant.ID)
	return "http://" + addr, key
}

// An operation has the parts of an operation that its page shows.
type operation struct {
	ID         string `json:"operationId"`
	Parameters []parameter
	Responses  map[string]any

	method, path string
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string
}

// readOperations reads the operations of a document that the server serves.
func readOperations(t *testing.T, d api.Document) []operation {
	t.Helper()
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal(d.JSON(), &document); err != nil {
		t.Fatal(err)
	}
	var all []operation
	for path, item := range document.Paths {
		var shared []parameter
		if raw, ok := item["parameters"]; ok {
			if err := json.Unmarshal(raw, &shared); err != nil {
				t.Fatal(err)
			}
		}
		for _, method := range []string{"get", "post", "put", "patch", "delete", "options", "trace"} {
			raw, ok := item[method]
			if !ok {
				continue
			}
			op := operation{method: method, path: path}
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			op.Parameters = append(op.Parameters, shared...)
			for i, p := range op.Parameters {
				if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
					op.Parameters[i] = document.Components.Parameters[name]
				}
			}
			all = append(all, op)
		}
	}
	if len(all) < 7 {
		t.Fatalf("found only %d operations", len(all))
	}
	return all
}

// block is the selector of an operation's block on the page.
func (op operation) block() string { return fmt.Sprintf("#%s.operation", op.ID) }

func TestDocumentPageShowsAndCallsEveryOperation(t *testing.T) {
	base, key := newServer(t)
	browser := newBrowser(t)
	operations := readOperations(t, api.External)
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t, browser, base, v)
			b.open("/docs")
			b.until(`document.readyState === "complete"`)
			b.screenshot("docs")
			checkList(b, "Atrium API", operations)
			b.checkLook("/docs")
			b.enter("#key", key)
			for _, op := range operations {
				switch op.ID {
				case "createAccountLog":
					checkOperation(b, op)
					b.click(op.block() + " .try > summary")
					b.screenshot("docs-operation")
					b.checkLook("/docs with an operation that writes")
					b.click(op.block() + " > summary")
				case "listPages":
					checkOperation(b, op)
					b.checkLook("/docs with an operation that reads")
					b.click(op.block() + " .try > summary")
					b.enter("#listPages-limit", "3")
					checkCall(b, op, "Spring launch")
				case "getPage":
					checkOperation(b, op)
					b.click(op.block() + " .try > summary")
					b.click(op.block() + " .try button")
					if status := b.seen(op.block() + " .status"); status != "" {
						t.Errorf("a request without its page was sent: %s", status)
					}
				}
			}
			if kept := get[int](b, `localStorage.length + sessionStorage.length + document.cookie.length`); kept > 0 {
				t.Error("the page keeps something in the browser")
			}
		})
	}
}

func TestARequestWithoutAKeyPointsAtItsField(t *testing.T) {
	base, _ := newServer(t)
	b := newTab(t, newBrowser(t), base, views()[0])
	b.open("/docs#listPages")
	b.until(`document.querySelector("#listPages .try") !== null`)
	b.click("#listPages .try > summary")
	b.click("#listPages .try button")
	b.until(`document.activeElement.id === "key"`)
	if status := b.seen("#listPages .status"); status != "Enter an API key first." {
		t.Errorf("the status is %q", status)
	}
}

func TestOnAPhoneTheResultsOfASearchAreOnTheFirstScreen(t *testing.T) {
	base, _ := newServer(t)
	b := newTab(t, newBrowser(t), base, view{name: "phone", width: 380, scheme: "light"})
	for _, path := range []string{"/docs", "/docs/manage"} {
		b.open(path)
		b.enter("#search", "list")
		b.until(`document.querySelector("#found").textContent !== ""`)
		if top := get[float64](b, `[...document.querySelectorAll(".operation")].find(e => e.checkVisibility()).getBoundingClientRect().bottom`); top > 600 {
			t.Errorf("%s: the first result ends at %.0f px", path, top)
		}
		if lines := get[float64](b, `document.querySelector(".tools div").getBoundingClientRect().height`); lines > 30 {
			t.Errorf("%s: the count of results is not on one line, but %.0f px high", path, lines)
		}
		b.screenshot("docs-search-phone")
	}
}

// All documents use the same page, so this does not repeat the tests of operations.
func TestDocumentPagesLinkToEachOther(t *testing.T) {
	base, _ := newServer(t)
	browser := newBrowser(t)
	operations := readOperations(t, api.Manage)
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t, browser, base, v)
			b.open("/docs")
			b.follow("/docs/manage")
			b.screenshot("docs-manage")
			checkList(b, "Atrium management API", operations)
			b.checkLook("/docs/manage")
			for _, op := range operations {
				if op.ID == "createAccountLogs" {
					checkOperation(b, op)
					get[int](b, `document.querySelectorAll("details").forEach(d => d.open ||= d.closest("#createAccountLogs") !== null), 0`)
					b.screenshot("docs-manage-operation")
					b.checkLook("/docs/manage with an operation that writes")
				}
			}
			b.follow("/docs/content")
			checkList(b, "Atrium content API", readOperations(t, api.Content))
			b.checkLook("/docs/content")
			b.follow("/docs")
		})
	}
}

func checkList(b *tab, heading string, operations []operation) {
	b.t.Helper()
	if title := b.seen("h1"); title != heading {
		b.t.Errorf("the heading is %q", title)
	}
	if top := get[float64](b, `document.querySelector(".operation").getBoundingClientRect().bottom`); top > 900 {
		b.t.Errorf("the first operation ends at %.0f px, below the first screen", top)
	}
	for _, op := range operations {
		shown := b.seen(op.block() + " > summary")
		if !strings.Contains(shown, op.path) || !strings.Contains(strings.ToLower(shown), op.method) {
			b.t.Errorf("%s shows %q", op.ID, shown)
		}
	}
	for _, cell := range get[[]string](b, `[...document.querySelectorAll("td")].filter(td => td.scrollWidth > td.clientWidth).map(td => td.textContent)`) {
		b.t.Errorf("the text of a cell extends into the next one: %s", cell)
	}
}

// checkOperation opens an operation and checks its parameters and responses.
func checkOperation(b *tab, op operation) {
	b.t.Helper()
	b.click(op.block() + " > summary")
	b.until(fmt.Sprintf(`document.querySelector('%s .try') !== null`, op.block()))
	shown := b.seen(op.block() + " .content")
	for _, p := range op.Parameters {
		if p.Name != "X-Request-Id" && !strings.Contains(shown, p.Name) {
			b.t.Errorf("%s does not show the parameter %s", op.ID, p.Name)
		}
	}
	for status := range op.Responses {
		if !strings.Contains(shown, status) {
			b.t.Errorf("%s does not show the response %s", op.ID, status)
		}
	}
}

// checkCall sends the request that the form of an operation has.
func checkCall(b *tab, op operation, want string) {
	b.t.Helper()
	b.click(op.block() + " .try button")
	b.until(fmt.Sprintf(`/^[0-9]/.test(document.querySelector('%s .status').textContent)`, op.block()))
	if status := b.seen(op.block() + " .status"); !strings.HasPrefix(status, "200 ") {
		b.t.Errorf("the response to %s is %q", op.ID, status)
	}
	if body := b.seen(op.block() + " .response"); !strings.Contains(body, want) || !strings.Contains(body, `"limit": 3`) {
		b.t.Errorf("the response to %s has no %q: %s", op.ID, want, body)
	}
	b.screenshot("docs-response")
	b.checkLook("/docs with a response")
}

func TestOperationsAreFoundBySearchAndLinks(t *testing.T) {
	base, _ := newServer(t)
	browser := newBrowser(t)
	b := newTab(t, browser, base, views()[0])
	b.open("/docs")
	b.enter("#search", "audience versions")
	visible := `[...document.querySelectorAll(".operation, .listed li")].filter(e => e.checkVisibility()).length`
	b.until(visible + ` === 2`) // the operation and its link
	if found := b.seen("#found"); !strings.HasPrefix(found, "1 of ") {
		t.Errorf("the search found %q", found)
	}
	b.screenshot("docs-search")
	b.open("/docs")
	b.enter("#search", "zzz")
	b.until(visible + ` === 0`)
	if none := b.seen("#none"); none != "No operation matches." || get[bool](b, `document.querySelector("section.rules").checkVisibility()`) {
		t.Errorf("a search without a result shows %q", none)
	}
	for _, words := range []string{"find entry", "find entries", "page publish"} {
		b.open("/docs/manage")
		b.enter("#search", words)
		if found := b.seen("#found"); found == "" || strings.HasPrefix(found, "0 ") {
			t.Errorf("the search for %q found %q", words, found)
		}
	}
	for _, fragment := range []string{"#listPages", "#/Pages/listPages"} {
		b.open("/docs" + fragment)
		b.until(`document.querySelector("#listPages").open`)
		for _, p := range get[[]string](b, `[...document.querySelectorAll("#listPages .parameters .name")].map(e => e.textContent)`) {
			if p == "" {
				t.Errorf("%s shows a parameter without a name", fragment)
			}
		}
		b.open("/errors/")
	}
	b.open("/docs")
	const json = `{"a":1.0,"b":[],"c":"\\\"}","d":[{"e":12345678901234567890}]}`
	want := "{\n  \"a\": 1.0,\n  \"b\": [],\n  \"c\": \"\\\\\\\"}\",\n  \"d\": [\n    {\n      \"e\": 12345678901234567890\n    }\n  ]\n}"
	if got := get[string](b, fmt.Sprintf("indent(%q)", json)); got != want {
		t.Errorf("%s is shown as %s", json, got)
	}
}

func TestErrorPagesExplainTheirCode(t *testing.T) {
	base, _ := newServer(t)
	browser := newBrowser(t)
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t, browser, base, v)
			b.open("/errors/")
			checkHead(b, "Error codes")
			b.screenshot("errors")
			b.checkLook("/errors/")
			for _, info := range rest.Codes {
				path := "/errors/" + string(info.Code)
				if v.scheme == "light" {
					b.follow(path)
				} else {
					b.open(path) // takes half as long
				}
				checkHead(b, info.Title)
				shown := b.seen("main")
				for _, text := range []string{string(info.Code), strconv.Itoa(info.Status), info.Meaning, info.Remedy} {
					if !strings.Contains(shown, text) {
						t.Errorf("%s does not show %q", path, text)
					}
				}
				if info.Code == atrium.CodeInvalidRequest || info.Code == atrium.CodeUnauthenticated {
					b.screenshot("errors-" + string(info.Code))
				}
				b.checkLook(path)
				if v.scheme == "light" {
					b.follow("/errors/")
				}
			}
		})
	}
}

func TestStartPageLinksToEverythingElse(t *testing.T) {
	base, _ := newServer(t)
	browser := newBrowser(t)
	for _, v := range views() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t, browser, base, v)
			b.open("/")
			if heading := b.seen("h1"); heading != "Atrium" {
				t.Errorf("the heading is %q", heading)
			}
			b.screenshot("start")
			b.checkLook("/")
			for _, path := range []string{"/console", "/docs", "/docs/manage", "/errors/", "/openapi.yaml", "/openapi.json", "/manage/openapi.yaml", "/manage/openapi.json", "/docs/content", "/docs/events", "/docs/receive", "/events/openapi.yaml", "/receive/openapi.json", "/healthz", "/readyz"} {
				if !get[bool](b, fmt.Sprintf(`document.querySelector('a[href=%q]') !== null`, path)) {
					t.Errorf("there is no link to %s", path)
				}
			}
			b.follow("/docs")
			b.follow("/")
		})
	}
}

func checkHead(b *tab, want string) {
	b.t.Helper()
	if heading := b.seen("h1"); heading != want {
		b.t.Errorf("the heading is %q, not %q", heading, want)
	}
	if title := get[string](b, `document.title`); title != want+" – Atrium" {
		b.t.Errorf("the title is %q, not that of %q", title, want)
	}
}

// Checks the headers of all resources of the pages without a browser.
func TestPagesHaveSecurityHeadersAndAreCached(t *testing.T) {
	base, _ := newServer(t)
	paths := []string{"/docs", "/docs/manage", "/docs/page.css", "/docs/page.js", "/errors/"}
	for _, info := range rest.Codes {
		paths = append(paths, "/errors/"+string(info.Code))
	}
	client := &http.Client{Timeout: 10 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(path, tag string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		w, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, w.Body); err != nil {
			t.Fatal(err)
		}
		_ = w.Body.Close()
		return w
	}
	for _, path := range paths {
		w := ask(path, "")
		tag := w.Header.Get("ETag")
		if w.StatusCode != http.StatusOK || tag == "" || w.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, w.StatusCode, w.Header)
		}
		policy := w.Header.Get("Content-Security-Policy")
		if strings.HasPrefix(w.Header.Get("Content-Type"), "text/html") {
			if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
				t.Errorf("%s: the policy is %q", path, policy)
			}
		}
		again := ask(path, tag)
		if again.StatusCode != http.StatusNotModified || again.Header.Get("ETag") != tag || again.Header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s, again: %d %v", path, again.StatusCode, again.Header)
		}
	}
}
