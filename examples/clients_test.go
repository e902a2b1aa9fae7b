// Package examples tests the clients in this module: it generates their code from the documents of
// a running server, compiles them, and runs them against that server.
package examples

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A server is a running service with the demo data.
type server struct{ url, key, manageKey, tenant, page string }

// start builds and starts the service.
func start(t *testing.T) server {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "atrium")
	run(t, "..", nil, "go", "build", "-o", binary, "./cmd/atrium")
	cmd := exec.Command(binary, "demo", "--addr", "127.0.0.1:0", "--database", "sqlite:"+filepath.Join(dir, "demo.db"))
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "ATRIUM_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the service ended with %v: %s", err, &log)
		}
	})
	var s server
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		line := lines.Text()
		if key, ok := strings.CutPrefix(line, "export ATRIUM_KEY="); ok {
			s.key = key
		}
		if key, ok := strings.CutPrefix(line, "export ATRIUM_MANAGE_KEY="); ok {
			s.manageKey = key
		}
		if public := regexp.MustCompile(`(http://127\.0\.0\.1:[0-9]+)/content/v0/(\w+)/pages/(\w+)`).FindStringSubmatch(line); public != nil {
			s.url, s.tenant, s.page = public[1], public[2], public[3]
			break
		}
	}
	if s.url == "" || s.key == "" || s.manageKey == "" {
		t.Fatalf("the demo did not print its keys and the address of a public page: %s", &log)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return s
}

// env returns the settings of the examples.
func (s server) env() []string {
	return []string{
		"ATRIUM_SERVER=" + s.url, "ATRIUM_KEY=" + s.key, "ATRIUM_MANAGE_KEY=" + s.manageKey,
		"ATRIUM_TENANT=" + s.tenant, "ATRIUM_PAGE=" + s.page,
	}
}

// download stores a document of the server.
func (s server) download(t *testing.T, path, file string) {
	t.Helper()
	response, err := http.Get(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	document, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", path, response.Status, err)
	}
	if err := os.WriteFile(file, document, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a command and returns its output. The test ends if it fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// copyTo copies the files of this module, but not those of an earlier run of npm.
func copyTo(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "node_modules":
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, path), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check runs a client twice: requests have idempotency keys, so the second run records nothing.
func check(t *testing.T, want string, client func() string) {
	t.Helper()
	first, second := client(), client()
	if first != second {
		t.Errorf("the second run differs\n%s\n%s", first, second)
	}
	if !regexp.MustCompile(want).MatchString(first) {
		t.Errorf("the output is\n%s\nwant\n%s", first, want)
	}
}

// Of these, the titles are in the demo data. Its dates are recent ones, so they differ from day to day.
const (
	external = `^recorded prospectlog_\w{26} of account_\w{26}
draft Meet the team [0-9]{4}-[0-9]{2}-[0-9]{2}
published Grow with us [0-9]{4}-[0-9]{2}-[0-9]{2}
published A faster way to ship [0-9]{4}-[0-9]{2}-[0-9]{2}
archived Ends soon [0-9]{4}-[0-9]{2}-[0-9]{2}
$`
	manage = `^refused: not_found
renamed past.example to Past Example
$`
	content = `^A faster way to ship
(version [0-9]+ \{.*\}
)+$`
)

// outputs are those of the clients, by API.
var outputs = map[string]string{"external": external, "manage": manage, "content": content}

func TestGoClients(t *testing.T) {
	s := start(t)
	dir := t.TempDir()
	copyTo(t, dir)
	for _, generator := range []string{"oapi-codegen", "ogen"} {
		s.download(t, "/openapi.yaml", filepath.Join(dir, generator, "external", "openapi.yaml"))
		s.download(t, "/manage/openapi.yaml", filepath.Join(dir, generator, "manage", "openapi.yaml"))
		s.download(t, "/content/openapi.yaml", filepath.Join(dir, generator, "content", "openapi.yaml"))
	}
	run(t, dir, nil, "go", "generate", "./...")
	run(t, dir, nil, "go", "mod", "tidy", "-diff")
	run(t, dir, nil, "go", "vet", "./...")
	for _, generator := range []string{"oapi-codegen", "ogen"} {
		for api, want := range outputs {
			t.Run(generator+"/"+api, func(t *testing.T) {
				binary := filepath.Join(t.TempDir(), "client")
				run(t, dir, nil, "go", "build", "-o", binary, "./"+generator+"/"+api)
				check(t, want, func() string { return run(t, dir, s.env(), binary) })
			})
		}
	}
}

func TestPageNamesTheVersionsThatAreTested(t *testing.T) {
	page, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, pattern := range map[string]string{
		"go.mod":                  `github.com/((?:oapi-codegen/oapi-codegen/v2|ogen-go/ogen)) (v\S+)`,
		"typescript/package.json": `"(openapi-fetch|openapi-typescript)": "([0-9.]+)"`,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tested := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
		if len(tested) != 2 {
			t.Fatalf("%s has %d generators", file, len(tested))
		}
		for _, m := range tested {
			if !regexp.MustCompile(regexp.QuoteMeta(string(m[1])) + `(/cmd/[a-z-]+)?@` + regexp.QuoteMeta(string(m[2]))).Match(page) {
				t.Errorf("the page does not install %s %s", m[1], m[2])
			}
		}
	}
}

func TestTypeScriptClients(t *testing.T) {
	s := start(t)
	dir := t.TempDir()
	copyTo(t, dir)
	dir = filepath.Join(dir, "typescript")
	run(t, dir, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	run(t, dir, s.env(), "npm", "run", "--silent", "generate")
	run(t, dir, nil, "npm", "run", "--silent", "build") // also compiles types.ts, which has errors that must occur
	for script, want := range outputs {
		t.Run(script, func(t *testing.T) {
			check(t, want, func() string { return run(t, dir, s.env(), "npm", "run", "--silent", script) })
		})
	}
	t.Run("events", func(t *testing.T) { checkEndpoint(t, []string{"node", filepath.Join(dir, "dist", "events.js")}) })
}
