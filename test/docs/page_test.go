package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"atrium/internal/cli"
)

// pageBase is the server's URL in the pages.
const pageBase = "http://127.0.0.1:8080/"

// pageDatabase is the database server's URL in the pages.
const pageDatabase = "postgres://atrium@db.internal/atrium"

// A page is the state of a reader who follows it.
type page struct {
	base      string        // the real server
	database  func() string // the URL of a PostgreSQL database
	client    *http.Client
	makefile  string
	variables map[string]string
	last      map[string]string // values of tenant_…, key_…, atr_…, prospectlog_…, receiver_… and user_…
	values    values
	exchanges int
}

// A result is the outcome of a command.
type result struct {
	curl     *curl // nil for other commands
	response *http.Response
	body     []byte
	output   string // all of stdout
}

// run runs the commands of a block and compares the response of the last one with the
// page. The others must succeed, and print nothing if the page shows a response.
func (p *page) run(t *testing.T, b *block) {
	t.Helper()
	if !b.runs() {
		return
	}
	commands, err := readCommands(b.text, b.line+1)
	if err != nil {
		t.Error(err)
		return
	}
	for i, c := range commands {
		r, err := p.runCommand(c)
		if err != nil {
			t.Errorf("line %d: %v", c.line, err)
			return
		}
		response := b.response
		if i < len(commands)-1 {
			if response != nil && strings.TrimSpace(r.output) != "" {
				t.Errorf("line %d: the page does not show what this command prints: end the block after it", c.line)
			}
			response = nil
		}
		for _, fault := range p.check(r, response) {
			t.Errorf("line %d: the response %s", c.line, fault)
		}
	}
}

func (p *page) runCommand(c command) (*result, error) {
	words := make([]string, len(c.words))
	for i, parts := range c.words {
		for _, part := range parts {
			text := part.text
			if part.variable {
				value, set := p.variables[text]
				if !set {
					return nil, fmt.Errorf("the variable %s is not set", text)
				}
				text = value
			}
			words[i] += text
		}
		words[i] = p.fill(words[i])
	}
	c.stdin = p.fill(c.stdin)
	r, err := p.execute(words[0], words[1:], c.stdin)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", words[0], err)
	}
	if c.stdout == "" {
		return r, nil
	}
	if !filepath.IsLocal(c.stdout) {
		return nil, fmt.Errorf("%s is outside of the working directory", c.stdout)
	}
	err = os.WriteFile(c.stdout, []byte(r.output), 0o600)
	r.output = ""
	return r, err
}

// fill replaces the placeholders of a page.
func (p *page) fill(text string) string {
	for prefix, value := range p.last {
		text = strings.ReplaceAll(text, prefix+"…", value)
	}
	if strings.Contains(text, pageDatabase) {
		text = strings.ReplaceAll(text, pageDatabase, p.database())
	}
	return p.values.expand(text)
}

func (p *page) execute(name string, args []string, stdin string) (*result, error) {
	switch name {
	case "curl":
		return p.curl(args, stdin)
	case "atrium", "bin/atrium", "./atrium":
		return p.atrium(args, stdin)
	case "cat":
		if len(args) > 0 {
			return nil, fmt.Errorf("with %q", args)
		}
		p.values.give(stdin)
		return &result{output: stdin}, nil
	case "export":
		for _, arg := range args {
			variable, value, ok := strings.Cut(arg, "=")
			if !ok {
				return nil, fmt.Errorf("%q sets nothing", arg)
			}
			p.variables[variable] = value
			if variable == "ATRIUM_KEY" || variable == "ATRIUM_TENANT" { // which commands read; newPage restores them
				if err := os.Setenv(variable, value); err != nil {
					return nil, err
				}
			}
		}
		return &result{}, nil
	case "make":
		for _, target := range args {
			if !strings.Contains("\n"+p.makefile, "\n"+target+":") {
				return nil, fmt.Errorf("unknown target %s", target)
			}
		}
		return &result{}, nil
	case "cmp":
		return &result{}, compareFiles(args)
	}
	return nil, errors.New("a command that this test does not know")
}

func compareFiles(names []string) error {
	if len(names) != 2 {
		return fmt.Errorf("with %d files", len(names))
	}
	a, err := os.ReadFile(names[0])
	if err != nil {
		return err
	}
	b, err := os.ReadFile(names[1])
	if err == nil && (!bytes.Equal(a, b) || len(a) == 0) {
		err = fmt.Errorf("%s and %s differ or are empty", names[0], names[1])
	}
	return err
}

var made = regexp.MustCompile(`\b(tenant_|key_|atr_|prospectlog_|receiver_|user_)[a-z0-9]{26}\w*`)

// atrium runs a command line. For a command that would serve, or that needs a cluster, it
// only shows the help, which still rejects unknown flags.
func (p *page) atrium(args []string, stdin string) (*result, error) {
	if len(args) > 0 && (args[0] == "serve" || args[0] == "demo") || slices.Contains(args, "--distribute=citus") || needsFile(args) {
		args = append(args, "--help")
	} else {
		for i, arg := range args {
			if path, ok := strings.CutPrefix(arg, "sqlite:"); ok && !filepath.IsLocal(path) {
				return nil, fmt.Errorf("%s is outside of the working directory", path)
			}
			if arg+"/" == pageBase {
				args[i] = p.base
			}
		}
	}
	var out, errs bytes.Buffer
	if code := cli.Main(args, strings.NewReader(stdin), &out, &errs); code != 0 {
		return nil, fmt.Errorf("%q: exit code %d: %s", args, code, errs.String())
	}
	if len(args) > 1 && args[1] == "create" {
		for _, m := range made.FindAllStringSubmatch(out.String(), -1) {
			p.last[m[1]] = m[0]
		}
	}
	return &result{output: out.String()}, nil
}

// needsFile reports whether a command needs a database file while the page uses a server.
func needsFile(args []string) bool {
	return !strings.HasPrefix(os.Getenv("ATRIUM_DATABASE"), "sqlite:") &&
		(slices.Contains([]string{"backup", "restore"}, args[0]) || slices.Contains(args, "sqlite:drill.db"))
}

// curl implements curl.
func (p *page) curl(args []string, stdin string) (*result, error) {
	c, err := readCurl(args, stdin)
	if err != nil {
		return nil, err
	}
	path, ok := strings.CutPrefix(c.url, pageBase)
	if !ok {
		return nil, fmt.Errorf("the pages speak to %s, not to %s", pageBase, c.url)
	}
	request, err := http.NewRequest(c.method, p.base+"/"+path, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "*/*")
	for _, line := range c.header {
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok || value == "" {
			return nil, fmt.Errorf("curl sends no header for %q", line)
		}
		request.Header.Add(name, value)
	}
	if c.body != nil && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	p.values.give(path + "\n" + strings.Join(c.header, "\n") + "\n" + string(c.body))
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	p.exchanges++
	r := &result{curl: c, response: response, body: body}
	written, err := c.written(response.StatusCode)
	if err != nil {
		return nil, err
	}
	if c.output != "" {
		r.output = written
		if c.output == os.DevNull {
			return r, nil
		}
		if !filepath.IsLocal(c.output) {
			return nil, fmt.Errorf("%s is outside of the working directory", c.output)
		}
		return r, os.WriteFile(c.output, body, 0o600)
	}
	r.output = string(body) + written
	return r, nil
}

// check returns the faults of a result. A response states its status in the status line of
// an http block, in the member status of a problem, or in the output of -w. Otherwise the
// status must be 2xx.
func (p *page) check(r *result, response *block) (faults []string) {
	if response != nil && r.curl != nil && r.curl.include != (response.language == "http") {
		return []string{"of curl -i, and of that alone, is a block in the language http"}
	}
	if response != nil && response.language == "http" {
		if r.curl == nil {
			return []string{"of this command is none of HTTP"}
		}
		return p.checkHTTP(r, response.text)
	}
	if response != nil {
		faults = p.values.compareBody(response.text, r.output)
	}
	if r.curl == nil || strings.Contains(r.curl.write, "%{http_code}") && response != nil {
		return faults
	}
	if want, got := problemStatus(response), r.response.StatusCode; got != want && (want != 0 || got < 200 || got > 299) {
		faults = append(faults, fmt.Sprintf("has the status %d: %s", got, r.body))
	}
	return faults
}

// problemStatus returns the status in a problem, or 0 for anything else.
func problemStatus(response *block) int {
	var problem struct {
		Status json.Number
		Code   string
	}
	if response == nil || json.Unmarshal([]byte(response.text), &problem) != nil || problem.Code == "" {
		return 0
	}
	status, _ := strconv.Atoi(string(problem.Status))
	return status
}

// checkHTTP compares the status line, the headers on the page, and the body if there is
// one.
func (p *page) checkHTTP(r *result, response string) (faults []string) {
	head, body, _ := strings.Cut(response, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	if status := r.response.Proto + " " + r.response.Status; lines[0] != status {
		faults = append(faults, fmt.Sprintf("begins with %q, on the page with %q: %s", status, lines[0], r.body))
	}
	for _, line := range lines[1:] {
		name, want, _ := strings.Cut(line, ":")
		got := strings.Join(r.response.Header.Values(name), ", ")
		if wrong := p.values.compare(strings.TrimSpace(want), got); wrong != "" {
			faults = append(faults, fmt.Sprintf("has a header %s that %s", name, wrong))
		}
	}
	if body != "" {
		faults = append(faults, p.values.compareBody(body, string(r.body))...)
	}
	if r.response.StatusCode == http.StatusNotModified && len(r.body) > 0 {
		faults = append(faults, "has a body")
	}
	return faults
}
