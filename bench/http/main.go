// Command http measures the HTTP API against a bare net/http handler that
// answers with as many bytes, in the same run on the same machine.
//
// Server and reference are processes of their own. They take turns in short
// rounds, so that what else the machine does falls on both; a row's ratio is the
// median of the rounds, and its spread their least and greatest. Ratios can be
// compared between machines, rates cannot. Writes are durable.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

type options struct {
	atrium      string
	database    string
	serverFlags string
	connections int
	rounds      int
	round       time.Duration
	accounts    int
	payload     int
	only        string
}

func (o options) wants(row string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), row)
}

func (o options) describe() string {
	return fmt.Sprintf("%d connections, medians of %d rounds of %v, payload %d bytes, %d accounts", o.connections, o.rounds, o.round, o.payload, o.accounts)
}

func main() {
	var o options
	var bare string
	var postgres bool
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.database, "database", "", "database URL (default a new SQLite file that is removed again)")
	flag.StringVar(&o.serverFlags, "flags", "--metrics-addr 127.0.0.1:0", "more flags for atrium serve, with spaces between them")
	flag.IntVar(&o.connections, "connections", 48, "connections, each with one request at a time")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each row")
	flag.DurationVar(&o.round, "round", 2*time.Second, "length of a round of the server and of one of the reference")
	flag.IntVar(&o.accounts, "accounts", 10_000, "accounts, each with three prospects")
	flag.IntVar(&o.payload, "payload", 1024, "bytes of an entry's payload")
	flag.StringVar(&o.only, "only", "", "rows to run, with commas between them (default all)")
	flag.BoolVar(&postgres, "postgres", false, "measure on a throw-away PostgreSQL, beside pgbench")
	flag.StringVar(&bare, "bare", "", "serve the reference on this address instead (used by the command itself)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := error(nil)
	switch {
	case bare != "":
		err = serveBare(ctx, bare)
	case postgres:
		err = runPostgres(ctx, o)
	default:
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A row is one kind of request, measured.
type row struct {
	name   string
	ratios []float64 // of the rates, server to reference, by round
	rates  []float64 // of the server, in requests a second
	cpu    []float64 // of the server, in microseconds a request
	theirs []float64 // the rates of the reference
	bare   []float64 // its processor time; 0 if that is not known
	p50    []time.Duration
	p99    []time.Duration
	bytes  int // of an answer's body
}

func run(ctx context.Context, o options) error {
	s, err := startAtrium(ctx, o)
	if err != nil {
		return err
	}
	defer s.stop()
	w, err := prepare(ctx, o, s)
	if err != nil {
		return err
	}
	reference, err := startBare(ctx)
	if err != nil {
		return err
	}
	defer reference.stop()

	var rows []row
	for _, kind := range w.kinds() {
		if !o.wants(kind.name) {
			continue
		}
		r, err := besideBare(ctx, o, s, reference, kind)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		rows = append(rows, r)
	}
	print(rows, "bare")
	fmt.Printf("\n%s; bare is a net/http handler with an answer of as many bytes\n", o.describe())
	return ctx.Err()
}

// besideBare measures one kind of request beside a handler with an equal answer.
func besideBare(ctx context.Context, o options, s, reference *process, k kind) (row, error) {
	first, err := once(s.addr, k.request(0))
	if err != nil {
		return row{}, err
	}
	if first.status != k.status {
		return row{}, fmt.Errorf("status %d, want %d: %s", first.status, k.status, first.body)
	}
	bare := kind{status: 200, request: bareRequest(reference.addr, len(first.body))}
	r, err := measure(o, k.name, func() (result, error) { return load(ctx, o, k, s) }, func() (result, error) { return load(ctx, o, bare, reference) })
	r.bytes = len(first.body)
	return r, err
}

// measure runs the rounds of ours and the reference's, in turn.
func measure(o options, name string, ours, reference func() (result, error)) (row, error) {
	r := row{name: name}
	for n := range o.rounds + 1 {
		theirs, err := reference()
		if err != nil {
			return r, err
		}
		mine, err := ours()
		if err != nil {
			return r, err
		}
		if n == 0 {
			continue // warms both up
		}
		r.ratios = append(r.ratios, mine.rate/theirs.rate)
		r.rates = append(r.rates, mine.rate)
		r.theirs = append(r.theirs, theirs.rate)
		r.cpu = append(r.cpu, mine.cpu)
		r.bare = append(r.bare, theirs.cpu)
		r.p50 = append(r.p50, mine.p50)
		r.p99 = append(r.p99, mine.p99)
	}
	return r, nil
}

func print(rows []row, reference string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tratio to %s\tspread\trequests/s\t%[1]s/s\tp50\tp99\tCPU µs\t%[1]s CPU µs\tbytes\t\n", reference)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f–%.2f\t%.0f\t%.0f\t%v\t%v\t%s\t%s\t%s\t\n", r.name,
			median(r.ratios), slices.Min(r.ratios), slices.Max(r.ratios), median(r.rates), median(r.theirs),
			median(r.p50).Round(10*time.Microsecond), median(r.p99).Round(10*time.Microsecond),
			known(median(r.cpu)), known(median(r.bare)), known(float64(r.bytes)))
	}
	_ = w.Flush()
}

// known returns a figure, and nothing for what was not measured.
func known(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
