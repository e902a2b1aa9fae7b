// Command neighbors measures how much one tenant can slow down another.
//
// A noisy tenant sends requests of one kind over many connections: first cheap requests,
// then the most expensive ones that its limits allow, with equally large bodies. A quiet
// tenant sends a few small requests per second in an open loop. The command prints the
// quiet tenant's latencies and failures in both cases, their ratio, and the server's peak
// memory. With -check it fails if a request of the quiet tenant failed, or if the ratio of
// the medians is above 2 and the higher median above -floor.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/internal/secrets"
	"atrium/internal/store/engine/postgrestest"
)

type options struct {
	atrium      string
	engine      string
	only        string
	connections int
	rate        float64
	length      time.Duration
	cheap       time.Duration
	rounds      int
	floor       time.Duration
	check       bool
}

func main() {
	var o options
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.engine, "engine", "", "sqlite or postgres (default both)")
	flag.StringVar(&o.only, "only", "", "names of cases, separated by commas (default all)")
	flag.IntVar(&o.connections, "connections", 16, "connections of the noisy tenant")
	flag.Float64Var(&o.rate, "rate", 40, "requests per second of the quiet tenant")
	flag.DurationVar(&o.length, "length", 10*time.Second, "length of a round")
	flag.DurationVar(&o.cheap, "cheap", 0, "length of a round of cheap requests (default that of the others)")
	flag.IntVar(&o.rounds, "rounds", 1, "rounds of each case, cheap and expensive in turn")
	flag.DurationVar(&o.floor, "floor", 5*time.Millisecond, "with -check, median below which the ratio does not matter")
	flag.BoolVar(&o.check, "check", false, "fail if the quiet tenant is slowed down or its requests fail")
	flag.Parse()
	if o.cheap == 0 {
		o.cheap = o.length
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "neighbors:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var slowed []string
	for _, engine := range []string{"sqlite", "postgres"} {
		if o.engine != "" && o.engine != engine {
			continue
		}
		found, err := measure(ctx, o, engine)
		if err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
		slowed = append(slowed, found...)
	}
	if o.check && len(slowed) > 0 {
		return fmt.Errorf("the quiet tenant was slowed down or its requests failed: %s", strings.Join(slowed, ", "))
	}
	return nil
}

// measure runs all cases on an engine and returns the names of the cases that slowed the
// quiet tenant down.
func measure(ctx context.Context, o options, engine string) (slowed []string, err error) {
	database := ""
	if engine == "postgres" {
		db, err := postgrestest.Run("shared_buffers=512MB", "max_wal_size=4GB")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		if database, err = db.Create("bench"); err != nil {
			return nil, err
		}
	}
	to, err := newReceiver()
	if err != nil {
		return nil, err
	}
	defer func() { _ = to.Close() }()
	dir, err := os.MkdirTemp("", "atrium-neighbors-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	keys := filepath.Join(dir, "keys")
	if _, _, err := secrets.AddKey(keys, false); err != nil {
		return nil, err
	}
	a, err := server.StartAtrium(ctx, o.atrium, database, "--log-level=error", "--secrets-key-file="+keys, "--webhook-allow=127.0.0.0/8")
	if err != nil {
		return nil, err
	}
	defer a.Stop()
	noisy, err := newTenant(ctx, a, "noisy")
	if err != nil {
		return nil, err
	}
	quiet, err := newTenant(ctx, a, "quiet")
	if err != nil {
		return nil, err
	}
	var cases []comparison
	for _, c := range append(noisy.cases(), noisy.eventCases(to)...) {
		if o.only == "" || slices.Contains(strings.Split(o.only, ","), c.name) {
			cases = append(cases, c)
		}
	}
	if slices.ContainsFunc(cases, func(c comparison) bool { return !c.bare }) {
		if err := noisy.prepare(ctx); err != nil {
			return nil, err
		}
	}
	if err := quiet.prepareQuiet(); err != nil {
		return nil, err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "%s\tmedian cheap\texpensive\tratio\tp99 cheap\texpensive\tfailed cheap\texpensive\tnoisy/s cheap\texpensive\tpeak MiB\t\n", engine)
	for _, c := range cases {
		r, err := o.compare(ctx, a, c, quiet)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		cheap, expensive := r[0].quiet, r[1].quiet
		ratio := float64(expensive.Latency(50)) / float64(cheap.Latency(50))
		fmt.Fprintf(out, "%s\t%v\t%v\t%.2f\t%v\t%v\t%d\t%d\t%.0f\t%.0f\t%d\t\n", c.name, cheap.Latency(50), expensive.Latency(50), ratio,
			cheap.Latency(99), expensive.Latency(99), cheap.Failed, expensive.Failed, r[0].noisy.Rate(), r[1].noisy.Rate(), r[1].memory>>20)
		_ = out.Flush()
		if expensive.Failed > 0 {
			fmt.Printf("  quiet: %v\n", expensive.Failure)
		}
		if r[1].noisy.Failed > 0 {
			fmt.Printf("  noisy: %d of %d failed: %v\n", r[1].noisy.Failed, r[1].noisy.Failed+r[1].noisy.Answered, r[1].noisy.Failure)
		}
		if expensive.Failed > 0 || ratio > 2 && expensive.Latency(50) > o.floor {
			slowed = append(slowed, engine+" "+c.name)
		}
	}
	return slowed, nil
}

// A result is that of one kind of the noisy tenant's requests.
type result struct {
	noisy, quiet load.Report
	memory       int64 // peak anonymous memory, in bytes
}

// compare runs the cheap and the expensive requests of a case in turn.
func (o options) compare(ctx context.Context, a *server.Atrium, c comparison, quiet *tenant) (results [2]result, err error) {
	for range o.rounds {
		for i, kind := range []load.Kind{c.cheap, c.expensive} {
			length := []time.Duration{o.cheap, o.length}[i]
			if i == 1 && c.begin != nil {
				if err := c.begin(ctx); err != nil {
					return results, err
				}
			}
			done := make(chan error, 1)
			var noisy load.Report
			go func() {
				var err error
				noisy, err = load.Load{To: []load.Server{a}, Mix: load.Only(kind), Connections: o.connections, For: length}.Run(ctx)
				done <- err
			}()
			measured := make(chan int64, 1)
			watching, stop := context.WithCancel(ctx)
			go func() { measured <- peakMemory(watching, a) }()
			time.Sleep(length / 10) // let the noise begin
			heard, err := load.Load{To: []load.Server{a}, Mix: quiet.mix(), Connections: 8, For: length * 8 / 10, Rate: o.rate}.Run(ctx)
			err = errors.Join(err, ignoreUnanswered(<-done, noisy))
			stop()
			results[i].memory = max(results[i].memory, <-measured)
			if err != nil {
				return results, err
			}
			results[i].noisy.Add(noisy)
			results[i].quiet.Add(heard)
			if i == 1 && c.end != nil {
				if err := c.end(ctx); err != nil {
					return results, err
				}
			}
		}
	}
	return results, nil
}

// peakMemory returns the server's peak anonymous memory until ctx is done.
func peakMemory(ctx context.Context, a *server.Atrium) (peak int64) {
	for ctx.Err() == nil {
		if now, err := a.Anonymous(); err == nil {
			peak = max(peak, now)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return peak
}

// ignoreUnanswered returns nil if all requests of the noisy tenant were rejected.
func ignoreUnanswered(err error, r load.Report) error {
	if r.Failed > 0 {
		return nil
	}
	return err
}
