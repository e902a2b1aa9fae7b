// Command keys measures what the index of idempotency keys costs on SQLite, and what other layouts of
// the keys would cost. Keys are random, so each lies on another page of the index.
//
// It fills a database that Atrium has made, and appends batches of entries to it through the engine of
// the store, with the statements of an append: once for each layout, in turns. It counts work, which does
// not depend on the load of the machine: pages written to the WAL, bytes written including checkpoints,
// and pages read. Processor time is measured in separate rounds. Work of a layout's background job is
// added per key. Then it sends entries with and without keys to a server on the same database: no layout
// can save more than the difference.
//
// It needs Linux, and 12 GB of disk for 10,000,000 entries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	atrium      string
	dir         string
	sizes       []int
	recent      int
	window      int
	batches     []int
	rounds      int
	payload     int
	connections int
	round       time.Duration
}

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
}

func command() error {
	var o options
	var sizes, batches string
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary that receives entries")
	flag.StringVar(&o.dir, "dir", "", "parent of the temporary directory for the databases (default the system's)")
	flag.StringVar(&sizes, "sizes", "10000,1000000", "numbers of entries, separated by commas")
	flag.IntVar(&o.recent, "recent", 1_000_000, "keys that a job processes at once; at most a tenth of the entries")
	flag.IntVar(&o.window, "window", 24_576, "entries appended in a round; at most as many as there are")
	flag.StringVar(&batches, "batches", "24,256", "numbers of entries per commit, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds that measure time")
	flag.IntVar(&o.payload, "payload", 100, "size of a payload in bytes")
	flag.IntVar(&o.connections, "connections", 48, "connections to the server, each with one request in flight")
	flag.DurationVar(&o.round, "round", 2*time.Second, "length of a round of requests")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.sizes, err = numbers(sizes); err != nil {
		return err
	}
	if o.batches, err = numbers(batches); err != nil {
		return err
	}
	return run(ctx, o)
}

func numbers(text string) (all []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", part)
		}
		all = append(all, n)
	}
	return all, nil
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "atrium-keys-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, size := range o.sizes {
		d, err := newDataset(ctx, filepath.Join(dir, strconv.Itoa(size)), size, o)
		if err != nil {
			return fmt.Errorf("%d entries: %w", size, err)
		}
		e := experiment{options: o, dataset: d}
		if err := e.run(ctx); err != nil {
			return fmt.Errorf("%d entries: %w", size, err)
		}
		fmt.Fprintln(os.Stdout, e.report())
		if err := d.remove(); err != nil {
			return err
		}
	}
	return nil
}

// say prints the progress to standard error.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
