package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"atrium"
)

// A script is a text file of blocks. A block has a title that states a rule, and steps,
// separated by "then":
//
//	### a name fills an account that has none
//	| name | how         |
//	| Acme | as it came  |
//	POST /v0/account_logs
//	Idempotency-Key: {{key1}}
//
//	{"source":"crm","accountId":"{{bare}}","name":"{{name}}","payload":{}}
//
//	HTTP 201
//	Idempotency-Replayed: true
//	!ETag
//
//	{"accountId":"{{bare}}","createdAt":"{{at is time}}","...":"..."}
//
// With a table, the block runs once per row, with the cells as variables. A request is
// sent byte for byte as written. It has the x-api-key of the tenant north and, with a
// body, the Content-Type application/json, unless it sets the header itself or omits it
// with "!Name".
//
// Scripts of the external API are in http/, those of the management API in manage/, those of the
// content API in content/, those of receivers in receive/.
// Requests to /manage use a key of north with the scope manage, those to /content one with the scope
// content:read.
//
// Of a response, the status is compared, and everything that follows: the locations of all
// faults after a 400 (/member, (body), ?parameter, Header:); headers, "!Name" for one that
// must be absent; and the body: JSON with every member, exact bytes after "= ", or a
// substring after "~ ". checkExchange checks the rules for all responses.
//
// pattern_test.go has the placeholders. Lines that begin with # are comments. A step may
// also be one of:
//
//	@let NAME VALUE      set a variable
//	@import LINE         import a line into north
//	@delete NAME         soft-delete the page with the name
//	@stored PATTERN      exactly one line of north's export is so
//	@count N TEXT        exactly N lines of north's export have the text
//	@receiver            create a receiver, {{receiver}}, that verifies {{token}} in X-Token
//	@recorded            wait until north's refused requests are in the list
func TestScripts(t *testing.T) {
	runScripts(t, func(name string, run runner) {
		for _, e := range engines {
			run(e.name, func(t *testing.T) *service { return start(t, e.open(t)) })
		}
		if !wireLevel[name] {
			run("HTTP/2", func(t *testing.T) *service { return startTLS(t, engines[0].open(t)) })
		}
	})
}

// A runner runs one script as a subtest on the service that start returns.
type runner func(way string, start func(t *testing.T) *service)

// runScripts runs every script with the runners of ways.
func runScripts(t *testing.T, ways func(name string, run runner)) {
	t.Helper()
	t.Parallel()
	for name, file := range findScripts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks := parseScript(t, string(text))
			ways(name, func(way string, start func(t *testing.T) *service) {
				t.Run(way, func(t *testing.T) {
					t.Parallel()
					s := start(t)
					for _, b := range blocks {
						s.runBlock(t, b)
					}
				})
			})
		})
	}
}

// findScripts returns the scripts' files by name. Scripts in the other directories have their name as a prefix.
func findScripts(t *testing.T) map[string]string {
	t.Helper()
	scripts := map[string]string{}
	for dir, prefix := range map[string]string{"http": "", "manage": "manage ", "content": "content ", "receive": "receive "} {
		files, err := filepath.Glob(dir + "/*.http")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			scripts[prefix+strings.TrimSuffix(filepath.Base(file), ".http")] = file
		}
	}
	if len(scripts) < 15 {
		t.Fatalf("found %d scripts", len(scripts))
	}
	return scripts
}

// wireLevel are the scripts with requests that HTTP proxies and HTTP/2 reject: bytes that
// are invalid in a URL, and invalid methods.
var wireLevel = map[string]bool{"paths": true, "methods": true}

type block struct {
	title string
	table [][]string // the first row has the names
	steps []step
}

// A step is a command or an exchange.
type step struct {
	line     int
	command  string
	argument string

	request request
	omitted []string // default headers that are omitted
	status  string   // followed by the locations of faults
	header  []string
	body    string // "" for any
}

var methodLine = regexp.MustCompile(`^(\S+) (\S+)$`)

func parseScript(t *testing.T, text string) (blocks []block) {
	t.Helper()
	var lines []string // of the step
	first := 0
	end := func() {
		if len(blocks) > 0 && len(lines) > 0 {
			b := &blocks[len(blocks)-1]
			b.steps = append(b.steps, parseStep(t, first, lines))
		}
		lines = nil
	}
	for i, line := range strings.Split(text, "\n") {
		title, titled := strings.CutPrefix(line, "### ")
		switch {
		case titled:
			end()
			blocks = append(blocks, block{title: fmt.Sprintf("line %d: %s", i+1, title)})
		case strings.HasPrefix(line, "#"), line == "" && len(lines) == 0:
		case line == "then":
			end()
		case strings.HasPrefix(line, "| "):
			b := &blocks[len(blocks)-1]
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for j := range cells {
				cells[j] = strings.TrimSpace(cells[j])
			}
			b.table = append(b.table, cells)
		default:
			if len(lines) == 0 {
				first = i + 1
			}
			lines = append(lines, line)
		}
	}
	end()
	return blocks
}

func parseStep(t *testing.T, line int, lines []string) step {
	t.Helper()
	s := step{line: line}
	if command, ok := strings.CutPrefix(lines[0], "@"); ok {
		s.command, s.argument, _ = strings.Cut(command, " ")
		return s
	}
	m := methodLine.FindStringSubmatch(lines[0])
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "HTTP ") })
	if m == nil || at < 0 {
		t.Fatalf("line %d: %q is not a request with a response", line, lines[0])
	}
	header, body := headerAndBody(lines[1:at])
	s.request = request{method: m[1], target: m[2]}
	for _, h := range header {
		if name, ok := strings.CutPrefix(h, "!"); ok {
			s.omitted = append(s.omitted, name)
		} else {
			s.request.header = append(s.request.header, h)
		}
	}
	if body != "" {
		s.request.body = []byte(body)
	}
	s.status = strings.TrimPrefix(lines[at], "HTTP ")
	s.header, s.body = headerAndBody(lines[at+1:])
	return s
}

func headerAndBody(lines []string) (header []string, body string) {
	at := slices.Index(lines, "")
	if at < 0 {
		return lines, ""
	}
	return lines[:at], strings.Trim(strings.Join(lines[at:], "\n"), "\n")
}

func (s *service) runBlock(t *testing.T, b block) {
	t.Helper()
	rows := [][]string{nil}
	if len(b.table) > 0 {
		rows = b.table[1:]
	}
	for _, row := range rows {
		for i, cell := range row {
			value, err := expand(cell, s.vars)
			if err != nil {
				t.Fatalf("%s: %v", b.title, err)
			}
			s.vars[b.table[0][i]] = value
		}
		for _, step := range b.steps {
			for _, fault := range s.runStep(t, step) {
				t.Errorf("%s %s\n\tstep at line %d: %s", b.title, clip(fmt.Sprintf("%q", row)), step.line, fault)
			}
		}
	}
}

func (s *service) runStep(t *testing.T, p step) (faults []string) {
	t.Helper()
	x := func(text string) string {
		expanded, err := expand(text, s.vars)
		if err != nil {
			t.Fatalf("line %d: %v", p.line, err)
		}
		return expanded
	}
	if p.command != "" {
		return s.runCommand(t, p.command, x(p.argument))
	}
	r := request{method: x(p.request.method), target: x(p.request.target)}
	for _, h := range p.request.header {
		r.header = append(r.header, x(h))
	}
	if p.request.body != nil {
		r.body = []byte(x(string(p.request.body)))
	}
	for _, h := range []string{"x-api-key: " + s.north.keyFor(r.target), "Content-Type: application/json"} {
		name, _, _ := strings.Cut(h, ":")
		if !r.has(name) && !slices.Contains(p.omitted, name) && (name != "Content-Type" || r.body != nil) {
			r.header = append(r.header, h)
		}
	}
	a := s.send(t, r)
	status, places, _ := strings.Cut(x(p.status), " ")
	if strconv.Itoa(a.status) != status {
		return []string{fmt.Sprintf("status is %d, want %s: %s", a.status, status, clip(string(a.body)))}
	}
	faults = checkExchange(t, r, a)
	if got := placesOf(a); places != "" || got != "" {
		want := strings.Fields(places)
		slices.Sort(want)
		if got != strings.Join(want, " ") {
			faults = append(faults, fmt.Sprintf("faults are at %q, want %q: %s", got, strings.Join(want, " "), clip(string(a.body))))
		}
	}
	for _, h := range p.header {
		if wrong := matchHeader(x(h), a, s.vars); wrong != "" {
			faults = append(faults, wrong)
		}
	}
	return append(faults, matchBody(x(p.body), a.body, s.vars)...)
}

func matchHeader(h string, a response, vars map[string]string) string {
	if name, ok := strings.CutPrefix(h, "!"); ok {
		if values := a.header.Values(name); len(values) > 0 {
			return fmt.Sprintf("header %s is there: %q", name, values)
		}
		return ""
	}
	name, want, _ := strings.Cut(h, ":")
	if wrong := matchText(strings.TrimSpace(want), strings.Join(a.header.Values(name), ", "), vars); wrong != "" {
		return "header " + name + " " + wrong
	}
	return ""
}

func matchBody(pattern string, body []byte, vars map[string]string) []string {
	if pattern == "" {
		return nil
	}
	if whole, ok := strings.CutPrefix(pattern, "= "); ok {
		if wrong := matchText(whole, string(body), vars); wrong != "" {
			return []string{"body " + wrong}
		}
		return nil
	}
	if part, ok := strings.CutPrefix(pattern, "~ "); ok {
		if !strings.Contains(string(body), part) {
			return []string{fmt.Sprintf("body has no %q in it: %s", part, clip(string(body)))}
		}
		return nil
	}
	want, err := readJSON([]byte(pattern))
	if err != nil {
		return []string{"the expected body is not JSON:  " + err.Error()}
	}
	got, err := readJSON(body)
	if err != nil {
		return []string{"the body is not JSON:  " + err.Error()}
	}
	return matchJSON("", want, got, vars)
}

func (s *service) runCommand(t *testing.T, command, argument string) []string {
	t.Helper()
	switch name, value, _ := strings.Cut(argument, " "); command {
	case "let":
		s.vars[name] = value
	case "import":
		s.load(t, s.north, argument)
	case "delete":
		s.deletePage(t, argument)
	case "stored":
		found := 0
		var last []string
		for _, line := range s.export(t, s.north) {
			if faults := matchBody(argument, []byte(line), s.vars); len(faults) == 0 {
				found++
			} else {
				last = faults
			}
		}
		if found != 1 {
			return []string{fmt.Sprintf("%d lines of the export are so, want 1: %s (the last: %s)", found, argument, last)}
		}
	case "count":
		if n := s.count(t, s.north, value); strconv.Itoa(n) != name {
			return []string{fmt.Sprintf("%d lines of the export have %q, want %s", n, value, name)}
		}
	case "receiver":
		s.vars["token"] = "the token of a receiver"
		s.vars["receiver"] = string(s.receiver(t, s.north, atrium.ReceiverSpec{
			Provider: atrium.ProviderToken, Verification: atrium.Verification{Header: "X-Token"}, Mapping: atrium.Mapping{
				Filter: `body.?type.orValue("") != "ignored"`, Type: `body.?type`, AccountID: `body.?account`, Domain: `body.?domain`, OccurredAt: `body.?at`, EventID: `body.?id`,
			},
		}, s.vars["token"]))
	case "recorded":
		s.recorded(t, s.north)
	default:
		t.Fatalf("unknown command @%s", command)
	}
	return nil
}
