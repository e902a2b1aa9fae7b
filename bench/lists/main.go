// Command lists measures whether the lists of the management API stay as fast as
// they were while what a tenant has grows. It fills two databases, a small one and a
// large one, serves both, and walks every list of both from its first page to its
// last, a page of each in turn. It prints, for each list, the median and the 95th
// percentile of the time of a page and the ratio of large to small.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"atrium/internal/store/engine/postgrestest"
)

type options struct {
	dir      string
	postgres bool
	small    int
	large    int
	entries  int
	pages    int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "where a new directory for the databases is made (default the system's)")
	flag.BoolVar(&o.postgres, "postgres", false, "measure on PostgreSQL")
	flag.IntVar(&o.small, "small", 10_000, "accounts of the small tenant")
	flag.IntVar(&o.large, "large", 1_000_000, "accounts of the large tenant")
	flag.IntVar(&o.entries, "entries", 5, "entries for each account")
	flag.IntVar(&o.pages, "pages", 300, "how many pages of a list are measured, spread over all of it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "lists:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "atrium-lists-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	database := func(name string) (string, error) { return "sqlite:" + filepath.Join(dir, name+".db"), nil }
	if o.postgres {
		server, err := postgrestest.Run("shared_buffers=1GB", "max_wal_size=8GB", "synchronous_commit=off")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		database = server.Create
	}
	var sizes []*tenant
	for _, size := range []struct {
		name     string
		accounts int
	}{{"small", o.small}, {"large", o.large}} {
		url, err := database(size.name)
		if err != nil {
			return err
		}
		start := time.Now()
		t, err := fill(ctx, url, size.accounts, o.entries)
		if err != nil {
			return fmt.Errorf("fill the %s database: %w", size.name, err)
		}
		defer t.close()
		sizes = append(sizes, t)
		fmt.Printf("%s: %d accounts, %d entries, filled in %v\n", size.name, size.accounts, size.accounts*o.entries, time.Since(start).Round(time.Second))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nlist\tsmall: pages\tmedian\tp95\tlarge: pages\tmedian\tp95\tratio of medians\tof p95\t\n")
	for _, l := range lists {
		small, large, err := walk(ctx, l, sizes[0], sizes[1], o.pages)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Fprintf(w, "%s\t%d\t%v\t%v\t%d\t%v\t%v\t%.2f\t%.2f\t\n", l.name,
			len(small), percentile(small, 50), percentile(small, 95), len(large), percentile(large, 50), percentile(large, 95),
			ratio(large, small, 50), ratio(large, small, 95))
	}
	return w.Flush()
}

// percentile returns the time that so many percent of the pages took at most.
func percentile(times []time.Duration, percent int) time.Duration {
	sorted := slices.SortedFunc(slices.Values(times), cmp.Compare)
	return sorted[(len(sorted)-1)*percent/100].Round(time.Microsecond)
}

func ratio(large, small []time.Duration, percent int) float64 {
	return float64(percentile(large, percent)) / float64(percentile(small, percent))
}
