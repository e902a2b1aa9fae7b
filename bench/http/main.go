// Command http compares the HTTP API with faster and similar programs, in the same run on
// the same machine: a bare net/http handler with a response of equal size, the database
// alone, and PocketBase.
//
// Each is a separate process, except SQLite alone. They take turns in short rounds, so
// that other load on the machine affects all of them. A ratio is the median of the rounds;
// its spread is their minimum and maximum. Ratios can be compared between similar
// machines, rates cannot. The service acknowledges a write only after it is on disk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
)

type options struct {
	atrium      string
	pocketbase  string
	serverFlags string
	engine      string
	connections int
	rounds      int
	round       time.Duration
	accounts    int
	payload     int
	only        string
	page        string
	guard       string
	update      int
}

// wants reports whether a row, or a part of the page, was selected.
func (o options) wants(row string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), row)
}

func (o options) on(engine string) bool { return o.engine == "" || o.engine == engine }

func (o options) size() workload.Size {
	return workload.Size{Accounts: o.accounts, Payload: o.payload}
}

func main() {
	server.BeBare()
	var o options
	var postgres bool
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.pocketbase, "pocketbase", "", "a binary of bench/pocketbase to compare with (default none)")
	flag.StringVar(&o.serverFlags, "flags", "", "additional flags for atrium serve, separated by spaces")
	flag.StringVar(&o.engine, "engine", "", "sqlite or postgres (default both)")
	flag.BoolVar(&postgres, "postgres", false, "the same as -engine postgres")
	flag.IntVar(&o.connections, "connections", 48, "connections, each with one request in flight")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds per row")
	flag.DurationVar(&o.round, "round", 2*time.Second, "length of a round")
	flag.IntVar(&o.accounts, "accounts", 10_000, "accounts, each with three prospects")
	flag.IntVar(&o.payload, "payload", 1024, "size of an entry's payload in bytes")
	flag.StringVar(&o.only, "only", "", "rows to run, mixes or process, separated by commas (default all)")
	flag.StringVar(&o.page, "page", "", "page to update with the tables, between the lines "+opening+" and "+closing)
	flag.StringVar(&o.guard, "guard", "", "compare with the ratios in this file, and fail if one has dropped")
	flag.IntVar(&o.update, "update", 0, "number of -guard measurements to write to its file")
	flag.Parse()
	if postgres {
		o.engine = postgresEngine
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	switch {
	case o.update > 0:
		return updateGuard(ctx, o)
	case o.guard != "":
		return guard(ctx, o)
	}
	r := report{options: o}
	if o.on(sqliteEngine) {
		if err := r.sqlite(ctx); err != nil {
			return err
		}
	}
	if o.on(postgresEngine) {
		if err := r.postgres(ctx); err != nil {
			return err
		}
	}
	if err := r.describe(); err != nil {
		return err
	}
	text := r.markdown()
	fmt.Fprintln(os.Stdout, text)
	if o.page == "" {
		return ctx.Err()
	}
	return errors.Join(ctx.Err(), writeInto(o.page, text))
}

// say prints the progress to standard error.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// The engines, as flags and files name them.
const (
	sqliteEngine   = "sqlite"
	postgresEngine = "postgres"
)

func (o options) startAtrium(ctx context.Context, database string) (*server.Atrium, error) {
	return server.StartAtrium(ctx, o.atrium, database, strings.Fields(o.serverFlags)...)
}

// sizeOf returns the size of the response body of a kind of request.
func sizeOf(addr string, k load.Kind) (int, error) {
	first, err := load.Once(addr, k.Request(0))
	if err != nil {
		return 0, err
	}
	if first.Status != k.Status {
		return 0, fmt.Errorf("%s: status %d, want %d: %.200s", k.Name, first.Status, k.Status, first.Body)
	}
	return len(first.Body), nil
}
