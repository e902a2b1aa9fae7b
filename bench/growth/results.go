package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Results has the measurements of one engine and one distribution of entries among
// tenants. A row that is measured again replaces the earlier one.
type results struct {
	Engine      string  `json:"engine"`
	Each        int     `json:"each"` // entries per tenant; 0 for one tenant with all of them
	Sizes       []size  `json:"sizes"`
	Rows        []row   `json:"rows"`
	Starts      []start `json:"starts"`
	Binary      int64   `json:"binary"` // size of the binary in bytes
	Day         string  `json:"day"`
	Connections int     `json:"connections"`
	Rounds      int     `json:"rounds"`
	Round       string  `json:"round"`

	path string
}

// A size describes one database before it was measured.
type size struct {
	Entries  int   `json:"entries"`
	Accounts int   `json:"accounts"`
	Pages    int   `json:"pages"`
	Tenants  int   `json:"tenants"`
	Bytes    int64 `json:"bytes"` // size of the file; 0 for a server
}

// openResults reads the results of the experiment from the directory, to add to them.
func openResults(e *experiment) (*results, error) {
	r := &results{Engine: "SQLite", Each: e.each, Connections: e.connections, Rounds: e.rounds, Round: e.roundLength.String(), Day: time.Now().UTC().Format(time.DateOnly)}
	if e.postgres {
		r.Engine = "PostgreSQL"
	}
	for _, n := range e.nodes {
		s := size{Entries: n.total(), Accounts: n.shape.tenants * n.accounts(), Pages: n.shape.tenants * n.pages(), Tenants: n.shape.tenants}
		if n.isFile() {
			info, err := os.Stat(n.path)
			if err != nil {
				return nil, err
			}
			s.Bytes = info.Size()
		}
		r.Sizes = append(r.Sizes, s)
	}
	info, err := os.Stat(e.binary)
	if err != nil {
		return nil, err
	}
	r.Binary = info.Size()
	r.path = filepath.Join(e.dir, r.name()+".json")
	old, err := readResults(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case slices.EqualFunc(old.Sizes, r.Sizes, func(a, b size) bool { return a.Entries == b.Entries }):
		r.Rows, r.Starts, r.Sizes = old.Rows, old.Starts, old.Sizes
	}
	return r, nil
}

func readResults(path string) (r *results, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r = &results{path: path}
	return r, json.Unmarshal(text, r)
}

// name is the name of the file and the prefix of the plots.
func (r *results) name() string {
	name := "growth-" + strings.ToLower(r.Engine)
	if r.Each > 0 {
		name += "-tenants"
	}
	return name
}

func (r *results) add(made row) error {
	r.Rows = slices.DeleteFunc(r.Rows, func(old row) bool { return old.Name == made.Name })
	r.Rows = append(r.Rows, made)
	return r.save()
}

func (r *results) setStarts(s []start) error {
	r.Starts = s
	return r.save()
}

func (r *results) save() error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(r.path, text, 0o600)
}

// order sorts the rows in the order of the kinds.
func (r *results) order() {
	place := map[string]int{}
	for i, k := range (&dataset{shape: shape{tenants: 1, entries: 1}, tenants: make([]tenant, 1)}).kinds("") {
		place[k.Name] = i
	}
	slices.SortStableFunc(r.Rows, func(a, b row) int { return place[a.Name] - place[b.Name] })
}

// print writes the tables as Markdown.
func (r *results) print(w io.Writer) {
	r.order()
	var head, rule strings.Builder
	head.WriteString("| request |")
	rule.WriteString("| --- |")
	column := func(format string, args ...any) {
		fmt.Fprintf(&head, " "+format+" |", args...)
		rule.WriteString(" ---: |")
	}
	for _, s := range r.Sizes[1:] {
		column("%s / %s", short(s.Entries), short(r.Sizes[0].Entries))
	}
	for _, s := range r.Sizes {
		column("%s / bare", short(s.Entries))
	}
	for _, s := range r.Sizes {
		column("p50, p99 at %s", short(s.Entries))
	}
	fmt.Fprintf(w, "%s\n%s\n", &head, &rule)
	for _, row := range r.Rows {
		fmt.Fprintf(w, "| %s |", row.Name)
		for i := range r.Sizes[1:] {
			fmt.Fprintf(w, " %.2f |", row.ofSmallest(i+1))
		}
		for i := range r.Sizes {
			fmt.Fprintf(w, " %.2f |", row.ofBare(i))
		}
		for i := range r.Sizes {
			fmt.Fprintf(w, " %s, %s |", milliseconds(row.p50(i)), milliseconds(row.p99(i)))
		}
		fmt.Fprintln(w)
	}
	if len(r.Starts) == 0 {
		return
	}
	r.printStarts(w)
}

// printStarts omits the columns that apply only to files for a server.
func (r *results) printStarts(w io.Writer) {
	file := r.Sizes[0].Bytes > 0
	line := func(entries, size, idle, loaded, stopped, killed, log, cold string) {
		cells := []string{entries, idle, loaded, stopped, killed}
		if file {
			cells = []string{entries, size, idle, loaded, stopped, killed, log, cold}
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintln(w)
	line("entries", "file", "memory, idle", "at most, loaded", "ready after a stop", "after kill -9", "log it found", "after a stop, nothing cached")
	line("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	for i, s := range r.Starts {
		line(short(r.Sizes[i].Entries), megabytes(r.Sizes[i].Bytes), megabytes(s.Idle), megabytes(s.Loaded),
			milliseconds(s.Clean), milliseconds(s.Killed), megabytes(s.Log), milliseconds(s.Cold))
	}
}

// short formats a number with spaces between groups of three digits.
func short(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func megabytes(bytes int64) string {
	if bytes >= 10e9 {
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	}
	return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
}

func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms >= 10 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
