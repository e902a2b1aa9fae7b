// Command growth measures whether the service stays fast as its data grows. It seeds databases
// of several sizes, starts a server for each, and sends the same requests to all of them and to
// a bare net/http handler, in turns. For each request it prints the rate at each size as a ratio
// to the reference and to the smallest size, then the memory of each server and the time it
// takes to start. With a named directory, the files are kept for the next run.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"atrium/bench/server"
	"atrium/internal/store/engine/postgrestest"
)

type options struct {
	binary      string
	dir         string
	sizes       []int
	each        int
	postgres    bool
	connections int
	rounds      int
	roundLength time.Duration
	only        string
	flags       string
	seedOnly    bool
	docs        string
	console     bool
}

// wants reports whether a row, or "start", was selected.
func (o options) wants(row string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ";"), row)
}

func main() {
	server.BeBare()
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func command() error {
	var o options
	var sizes string
	flag.StringVar(&o.binary, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.dir, "dir", "", "directory that keeps the databases and results for the next run (default a temporary directory)")
	flag.StringVar(&sizes, "sizes", "10000,1000000", "number of entries of each database, in increasing order")
	flag.IntVar(&o.each, "each", 0, "entries per tenant (default all in one tenant)")
	flag.BoolVar(&o.postgres, "postgres", false, "measure on a temporary PostgreSQL server")
	flag.IntVar(&o.connections, "connections", 48, "connections, each with one request in flight")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds per row, after a warm-up round")
	flag.DurationVar(&o.roundLength, "round", 2*time.Second, "length of a round")
	flag.StringVar(&o.only, "only", "", `rows to measure, separated by semicolons; "start" measures memory and start-up (default all)`)
	flag.StringVar(&o.flags, "flags", "--metrics-addr 127.0.0.1:0 --response-cache 0", "additional flags for atrium serve, separated by spaces")
	flag.BoolVar(&o.seedOnly, "seed", false, "create the databases and stop")
	flag.BoolVar(&o.console, "console", false, "measure the pages of the console, and print how much longer they take at the largest size")
	flag.StringVar(&o.docs, "docs", "", "write the results in -dir to performance.md and images in this directory, and stop")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.parse(sizes); err != nil {
		return err
	}
	if o.docs != "" {
		return publish(o.dir, o.docs)
	}
	return run(ctx, o)
}

func (o *options) parse(sizes string) error {
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || o.each > 0 && n%o.each != 0 {
			return fmt.Errorf("%q is not a number of entries, or not a multiple of -each", text)
		}
		o.sizes = append(o.sizes, n)
	}
	if !slices.IsSorted(o.sizes) {
		return errors.New("sizes must increase")
	}
	return nil
}

func (o options) shapes() (all []shape) {
	for _, n := range o.sizes {
		s := shape{tenants: 1, entries: n}
		if o.console {
			s.each = consoleEach
		}
		if o.each > 0 {
			s = shape{tenants: n / o.each, entries: o.each}
		}
		all = append(all, s)
	}
	return all
}

func run(ctx context.Context, o options) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "atrium-growth-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	e := &experiment{options: o}
	defer e.stop()
	if o.postgres {
		pg, err := postgrestest.Run("shared_buffers=1GB", "max_wal_size=8GB", "checkpoint_timeout=5min")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, pg.Close()) }()
		err = e.onServer(ctx, pg)
		if err != nil {
			return err
		}
	} else if err := e.onFiles(ctx); err != nil {
		return err
	}
	if o.seedOnly {
		return nil
	}
	if e.bare, err = server.StartBare(ctx); err != nil {
		return err
	}
	for _, n := range e.nodes {
		if err := e.start(ctx, n); err != nil {
			return err
		}
	}
	if o.console {
		return e.pages(ctx)
	}
	results, err := openResults(e)
	if err != nil {
		return err
	}
	if err := e.measure(ctx, results.add); err != nil {
		return err
	}
	if o.wants("start") {
		starts, err := e.starts(ctx)
		if err != nil {
			return err
		}
		if err := results.setStarts(starts); err != nil {
			return err
		}
	}
	results.print(os.Stdout)
	return nil
}

// onFiles creates the nodes on SQLite files. It locks large files in the page cache if it
// is permitted to.
func (e *experiment) onFiles(ctx context.Context) error {
	for _, s := range e.shapes() {
		d, err := files(ctx, e.dir, s)
		if err != nil {
			return err
		}
		n := &node{dataset: d, url: "sqlite:" + d.path}
		if s.total() < freshBelow {
			n.url = "sqlite:" + filepath.Join(e.dir, "work-"+filepath.Base(d.path))
			if err := n.pristine(); err != nil {
				return err
			}
		} else if n.release, err = hold(d.path); err != nil {
			fmt.Fprintf(os.Stderr, "%s is not held in memory: %v\n", s, err)
		}
		e.nodes = append(e.nodes, n)
	}
	return nil
}

// onServer creates the nodes on databases of one PostgreSQL server.
func (e *experiment) onServer(ctx context.Context, pg *postgrestest.Server) error {
	for _, s := range e.shapes() {
		url, err := pg.Create(fmt.Sprintf("growth%d", s.total())) //nolint:contextcheck // Create takes no context
		if err != nil {
			return err
		}
		d := &dataset{shape: s}
		if d.tenants, err = seed(ctx, url, s); err != nil {
			return err
		}
		e.nodes = append(e.nodes, &node{dataset: d, url: url})
	}
	return nil
}
