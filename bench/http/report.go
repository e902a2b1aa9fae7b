package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"atrium/bench/workload"
)

// A report has all measurements.
type report struct {
	options
	pairs    []pair
	opened   []opened
	atRest   int64 // anonymous bytes of a node that has just started; 0 if not measured
	loaded   int64 // the highest under load
	started  []time.Duration
	machine  []string
	versions []string
}

// A target is the minimum ratio of a row.
type target struct {
	engine    string
	name      string
	reference string // prefix of the reference's name
	ratio     float64
}

var targets = []target{
	{"SQLite", workload.GetAccount, "bare", 0.60},
	{"SQLite", workload.GetPage, "bare", 0.60},
	{"SQLite", workload.GetContent, "bare", 0.50},
	{"SQLite", workload.ListPages, "bare", 0.45},
	{"SQLite", workload.PostEntry, "bare", 0.25},
	{"SQLite", workload.PostEntry, "PocketBase", 9},
	{"SQLite", workload.GetAccount, "PocketBase", 18},
	{"SQLite", workload.ListPages, "PocketBase", 10},
	{"PostgreSQL", workload.PostEntry, "pgbench", 1.3},
	{"SQLite", workload.GetOverview, "bare", 0.1},
	{"SQLite", workload.GetTimeline, "bare", 0.1},
	{"PostgreSQL", workload.GetOverview, "bare", 0.1},
	{"PostgreSQL", workload.GetTimeline, "bare", 0.1},
	{"PostgreSQL", workload.GetAccount, "pgbench", 0.5},
}

// The memory limits of a node, in bytes. A megabyte is 10⁶ bytes.
const (
	restTarget = 40_000_000
	loadTarget = 200_000_000
)

// targetOf returns the minimum ratio of a row, or 0 if there is none.
func targetOf(p pair) float64 {
	for _, t := range targets {
		if t.engine == p.engine && t.name == p.name && strings.HasPrefix(p.reference, t.reference) {
			return t.ratio
		}
	}
	return 0
}

// markdown returns all measurements as a section of a page.
func (r *report) markdown() string {
	var b strings.Builder
	for _, line := range slices.Concat(r.machine, []string{strings.Join(r.versions, ", ") + "."}) {
		fmt.Fprintf(&b, "%s\n", line)
	}
	fmt.Fprintf(&b, "\n%d connections, medians of %d rounds of %v, payloads of %d bytes, %d accounts.\n\n", r.connections, r.rounds, r.round, r.payload, r.accounts)
	b.WriteString(r.ratios().String())
	if len(r.opened) > 0 {
		b.WriteString("\n" + r.latencies().String())
	}
	return b.String()
}

// ratios returns the table of all rows with their targets.
func (r *report) ratios() *table {
	t := &table{left: 2}
	t.add("", "reference", "ratio", "spread", "goal", "requests/s", "reference/s", "CPU µs", "reference µs", "p50 ms", "p99 ms", "bytes")
	for _, p := range r.pairs {
		ratios := p.ratios()
		goal := ""
		if least := targetOf(p); least > 0 {
			goal = verdict(median(ratios) >= least, "≥ "+strconv.FormatFloat(least, 'g', -1, 64))
		}
		rate, cpu := func(f figure) float64 { return f.rate }, func(f figure) time.Duration { return f.cpu }
		t.add(p.name+", "+p.engine, p.reference, short(median(ratios)), short(slices.Min(ratios))+"–"+short(slices.Max(ratios)), goal,
			whole(medianOf(p.ours, rate)), whole(medianOf(p.theirs, rate)), micros(medianOf(p.ours, cpu)), micros(medianOf(p.theirs, cpu)),
			millis(medianOf(p.ours, func(f figure) time.Duration { return f.p50 })), millis(medianOf(p.ours, func(f figure) time.Duration { return f.p99 })),
			whole(float64(p.bytes)))
	}
	if r.atRest > 0 {
		t.add("anonymous memory, idle", "", megabytes(r.atRest), "", verdict(r.atRest <= restTarget, "≤ "+megabytes(restTarget)))
		t.add("anonymous memory, the most under load", "", megabytes(r.loaded), "", verdict(r.loaded <= loadTarget, "≤ "+megabytes(loadTarget)))
	}
	if len(r.started) > 0 {
		t.add("start to first response, SQLite", "", millis(median(r.started))+" ms", millis(slices.Min(r.started))+"–"+millis(slices.Max(r.started)))
	}
	if info, err := os.Stat(r.atrium); err == nil {
		t.add("binary", "", megabytes(info.Size()))
	}
	return t
}

func (r *report) latencies() *table {
	t := &table{left: 2}
	t.add("mix", "rate", "requests/s", "p50 ms", "p95 ms", "p99 ms", "p99.9 ms", "CPU µs", "never sent")
	for _, o := range r.opened {
		cells := []string{o.mix, o.of, whole(o.tried.Rate())}
		for _, percent := range []float64{50, 95, 99, 99.9} {
			cells = append(cells, millis(o.tried.Latency(percent)))
		}
		t.add(append(cells, micros(o.tried.CPUPerRequest()), strconv.Itoa(o.tried.Unsent))...)
	}
	return t
}

func verdict(met bool, goal string) string {
	if met {
		return goal
	}
	return goal + ", missed"
}

// short formats a ratio with two decimals below 10 and one above.
func short(ratio float64) string {
	if ratio < 9.995 {
		return strconv.FormatFloat(ratio, 'f', 2, 64)
	}
	return strconv.FormatFloat(ratio, 'f', 1, 64)
}

// whole, micros and millis return "" for an unknown value.
func whole(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

func micros(d time.Duration) string { return whole(float64(d.Nanoseconds()) / 1000) }

func millis(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 2, 64)
}

func megabytes(n int64) string { return strconv.FormatInt((n+500_000)/1_000_000, 10) + " MB" }

// A table is written as aligned Markdown. Its first row is the header.
type table struct {
	left int // number of left-aligned columns; the others are numbers
	rows [][]string
}

// add adds a row. Missing cells at its end are empty.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	if len(t.rows) == 0 {
		return ""
	}
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), len("--:"))
		}
	}
	var b strings.Builder
	line := func(cell func(i, width int) string) {
		for i, width := range widths {
			b.WriteString("| " + cell(i, width) + " ")
		}
		b.WriteString("|\n")
	}
	for n, row := range t.rows {
		line(func(i, width int) string {
			cell := ""
			if i < len(row) {
				cell = row[i]
			}
			gap := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
			if i < t.left {
				return cell + gap
			}
			return gap + cell
		})
		if n == 0 {
			line(func(i, width int) string {
				if i < t.left {
					return strings.Repeat("-", width)
				}
				return strings.Repeat("-", width-1) + ":"
			})
		}
	}
	return b.String()
}

// Markers of the section of the page that has the tables.
const (
	opening = "<!-- bench -->"
	closing = "<!-- /bench -->"
)

// writeInto replaces the marked section of a page.
func writeInto(page, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	replaced, err := between(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(replaced), 0o644)
}

func between(page, text string) (string, error) {
	before, rest, opened := strings.Cut(page, opening+"\n")
	_, after, closed := strings.Cut(rest, closing+"\n")
	if !opened || !closed {
		return "", fmt.Errorf("missing lines %s and %s", opening, closing)
	}
	return before + opening + "\n" + text + closing + "\n" + after, nil
}
