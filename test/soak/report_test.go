package soak

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium"
	"atrium/internal/store"
	"atrium/test/nodes"
)

// A report has the results of an audit.
type report struct {
	Engine     string                     `json:"engine"`
	Seconds    float64                    `json:"seconds"`
	Faults     map[string]int             `json:"faults"`
	Operations map[string]operationReport `json:"operations"`
	Counts     map[string]int             `json:"counts"`
	Growth     map[string][]size          `json:"growth"` // samples of each run of a process
	Timing     map[string]spread          `json:"timing"`
	Likeness   []likeness                 `json:"likeness"`
	Database   int64                      `json:"database"` // size in bytes
	Failures   []string                   `json:"failures"` // all faults
	names      []string                   // of the counts, in order
}

type operationReport struct {
	Responses map[string]int `json:"responses"` // by class, such as 2xx; "none" for requests without a response
	P50       time.Duration  `json:"p50"`       // nanoseconds, in quiet phases
	P95       time.Duration  `json:"p95"`
	P99       time.Duration  `json:"p99"`
}

// audit stops the service and compares the stored data with what it acknowledged.
func (s *soak) audit() *report {
	lost := s.checkFacts()
	for _, n := range s.nodes {
		n.Stop(s.t)
		s.checkLog(n)
	}
	v := &verdict{}
	st := s.open()
	if found, err := st.Check(s.t.Context(), true); err != nil || len(found) > 0 {
		v.fault(&v.wrong, "integrity: %v, %v", found, err)
	}
	for _, of := range s.tenants[:tenantCount+1] {
		a := s.ledger.auditor(of, v)
		if err := st.Export(s.t.Context(), of.id, func(r store.Record) error { return a.examine(r) }); err != nil {
			v.fault(&v.wrong, "export: %v", err)
		}
		a.finish()
	}
	size := s.databaseSize()
	if err := st.Close(); err != nil {
		v.fault(&v.wrong, "close: %v", err)
	}
	for _, of := range append([]*tenant{{id: atrium.OperatorChain}}, s.tenants...) {
		args := []string{"audit", "verify", "--database", s.direct}
		if of.id == atrium.OperatorChain {
			args = append(args, "--operator")
		} else {
			args = append(args, "--tenant", string(of.id))
		}
		if out, errs, code := nodes.Command(s.t, args...); code != 0 {
			v.fault(&v.wrong, "the audit log of %q: %s%s", of.id, out, errs)
		}
	}
	return s.report(v, lost, size)
}

// checkFacts compares what the management API acknowledged with what it shows, and returns
// how many facts are lost.
func (s *soak) checkFacts() (lost int) {
	time.Sleep(forgotten) // until the nodes' key caches expire
	clients := map[*tenant]*client{}
	for _, of := range s.tenants {
		clients[of] = s.newClient("auditor", of)
	}
	for _, path := range slices.Sorted(maps.Keys(s.ledger.facts)) {
		f := s.ledger.facts[path]
		c := clients[f.of]
		if difference := f.differs(c.sure(c.managing("audit", http.MethodGet, f.path, nil))); difference != "" {
			s.tally.fault(&lost, "%s", difference)
		}
	}
	c := clients[s.tenants[0]]
	for key, status := range s.ledger.keys {
		q := call{op: "audit: keys", method: http.MethodGet, path: "/v0/pages?limit=1", key: key}
		if a, err := c.send(s.t.Context(), q); err != nil || a.status != status {
			s.tally.fault(&lost, "a key got %d, want %d: %v", a.status, status, err)
		}
	}
	return lost
}

// checkLog looks for log lines that a node must never write.
func (s *soak) checkLog(n *nodes.Node) {
	for line := range strings.Lines(n.Log()) {
		for _, bad := range []string{"DATA RACE", "panic", "status=500"} {
			if strings.Contains(line, bad) {
				s.tally.fault(&s.tally.unexpected, "%s logged %q: %.500s", n.Addr, bad, line)
			}
		}
	}
}

func (s *soak) databaseSize() int64 {
	if s.file != "" {
		info, err := os.Stat(s.file)
		if err != nil {
			s.t.Fatal(err)
		}
		return info.Size()
	}
	return s.serverSize()
}

func (s *soak) report(v *verdict, lostChanges int, size int64) *report {
	t, l := s.tally, s.ledger
	r := &report{
		Engine: s.engine, Seconds: s.ends.Sub(s.began).Seconds(), Faults: s.faults, Database: size,
		Operations: map[string]operationReport{}, Growth: s.growth.lives, Timing: map[string]spread{}, Likeness: s.timing.likenesses(),
		Counts: map[string]int{},
	}
	for name, op := range t.operations {
		o := operationReport{map[string]int{}, op.quiet.quantile(0.5), op.quiet.quantile(0.95), op.quiet.quantile(0.99)}
		for class, n := range op.classes {
			if n > 0 {
				o.Responses[[]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}[class]] = n
			}
		}
		r.Operations[name] = o
	}
	for kind, times := range s.timing.taken {
		r.Timing[kind] = spreadOf(times)
	}
	count := func(name string, n int, bad bool) {
		r.Counts[name] = n
		r.names = append(r.names, name)
		if bad && n > 0 {
			r.Failures = append(r.Failures, fmt.Sprintf("%s: %d", name, n))
		}
	}
	count("entries sent, requests", l.sent, false)
	count("entries acknowledged", v.acknowledged, false)
	count("entries stored", v.stored, false)
	count("responses that repeat another", l.replayed, false)
	count("lost", v.lost, true)
	count("doubled", v.doubled, true)
	count("wrong, stored", v.wrong, true)
	count("wrong, with a response", t.wrong, true)
	count("changes acknowledged", l.changes, false)
	count("changes lost", lostChanges, true)
	count("refused or unanswered in a fault", t.refused, false)
	count("5xx or no response, unexpected", t.unexpected, true)
	count("hangs", t.hangs, true)
	count("tenant leaks", t.leaks, true)
	var growth []string
	if r.Seconds >= tellsGrowth.Seconds() {
		growth = s.growth.judge(s.growthLimits())
	}
	count("limits of growth exceeded", len(growth), true)
	r.Failures = append(r.Failures, growth...)
	r.Failures = append(r.Failures, v.faults...)
	r.Failures = append(r.Failures, t.faults...)
	return r
}

func (r *report) json() []byte {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return append(b, '\n')
}

// String formats the report as tables.
func (r *report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', tabwriter.AlignRight)
	line := func(cells ...any) {
		for _, c := range cells {
			_, _ = fmt.Fprintf(w, "%v\t", c)
		}
		_, _ = fmt.Fprintln(w)
	}
	part := func(title string) {
		_ = w.Flush()
		fmt.Fprintf(&b, "\n%s\n", title)
	}
	fmt.Fprintf(&b, "soak of %s for %s, database of %.1f MiB\n", r.Engine, time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), mib(r.Database))
	fmt.Fprintf(&b, "faults: %v\n", r.Faults)
	part("Requests, and how long responses took in quiet phases")
	line("", "2xx", "3xx", "4xx", "5xx", "none", "p50", "p95", "p99")
	for _, name := range slices.Sorted(maps.Keys(r.Operations)) {
		o := r.Operations[name]
		line(name, o.Responses["2xx"], o.Responses["3xx"], o.Responses["4xx"], o.Responses["5xx"], o.Responses["none"], short(o.P50), short(o.P95), short(o.P99))
	}
	part("Audit")
	for _, name := range r.names {
		line(name, r.Counts[name])
	}
	part("Processes, while nobody asked: first and last sample")
	line("", "samples", "goroutines", "files", "heap MiB", "anonymous MiB", "resident MiB")
	for _, life := range slices.Sorted(maps.Keys(r.Growth)) {
		samples := r.Growth[life]
		first, last := ends(samples)
		both := func(a, b int64) string { return fmt.Sprintf("%d → %d", a, b) }
		bytes := func(a, b int64) string { return fmt.Sprintf("%.1f → %.1f", mib(a), mib(b)) }
		line(life, len(samples), both(first.Goroutines, last.Goroutines), both(first.Files, last.Files),
			bytes(first.Heap, last.Heap), bytes(first.Anonymous, last.Anonymous), bytes(first.Resident, last.Resident))
	}
	part("What a verdict takes: medians and the middle half")
	for _, kind := range []string{validCached, validFresh, unknownID, wrongSecret, malformed, foreignThing, absentThing} {
		t := r.Timing[kind]
		line(kind, t.Median, fmt.Sprintf("%s … %s", t.Lower, t.Upper), fmt.Sprintf("of %d", t.N))
	}
	part("What should look alike: how often the first took longer, and the z of Mann and Whitney")
	for _, l := range r.Likeness {
		line(l.Of, fmt.Sprintf("%.3f", l.Share), fmt.Sprintf("%+.1f", l.Z))
	}
	_ = w.Flush()
	return b.String()
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// short rounds a duration for display.
func short(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// serverSize returns the size of the database from its server.
func (s *soak) serverSize() (size int64) {
	conn, err := pgx.Connect(s.t.Context(), s.direct)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(s.t.Context()) }()
	if err := conn.QueryRow(s.t.Context(), "SELECT pg_database_size(current_database())").Scan(&size); err != nil {
		s.t.Fatal(err)
	}
	return size
}
