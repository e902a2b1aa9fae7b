// Command layout measures SQLite layouts for the account log: how the entries
// are clustered and indexed, how identifiers and idempotency keys are kept, and
// how the prospects linked to an account are laid out. It prints one table for
// the entries and one for the accounts.
//
// Candidates take turns in short rounds, so that what else the machine does
// falls on all of them; every figure is the median of the rounds, and rates are
// ratios to the first candidate in the same round.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

type options struct {
	preload        int
	rounds         int
	perRound       int
	batch          int
	payload        int
	accounts       int
	tenants        int
	hot            float64
	keyed          float64
	cacheKB        int
	mmapMB         int
	pageSize       int
	autocheckpoint int
	ids            idForm
	only           []string
	dir            string
	btrees         bool
	linkAccounts   int
}

func parseOptions(args []string) (options, error) {
	var o options
	var only, ids string
	var quick bool
	f := flag.NewFlagSet("layout", flag.ContinueOnError)
	f.BoolVar(&quick, "quick", false, "a look in less than 30 s: small preload, few rounds; its ratios are rough")
	f.IntVar(&o.preload, "preload", 150_000, "entries written before the measurement")
	f.IntVar(&o.rounds, "rounds", 5, "rounds of each candidate")
	f.IntVar(&o.perRound, "n", 4096, "entries a round")
	f.IntVar(&o.batch, "batch", 64, "entries a transaction")
	f.IntVar(&o.payload, "payload", 1024, "bytes of a payload")
	f.IntVar(&o.accounts, "accounts", 20_000, "accounts, uniformly drawn but for -hot")
	f.IntVar(&o.tenants, "tenants", 4, "tenants that share the accounts evenly")
	f.Float64Var(&o.hot, "hot", 0.2, "share of entries that go to the busiest hundredth of the accounts")
	f.Float64Var(&o.keyed, "keyed", 1, "share of entries that have an idempotency key")
	f.IntVar(&o.cacheKB, "cache", 4096, "page cache of the writer in KB")
	f.IntVar(&o.mmapMB, "mmap", 0, "mmap_size of the writer in MB")
	f.IntVar(&o.pageSize, "page", 4096, "page size in bytes")
	f.IntVar(&o.autocheckpoint, "autocheckpoint", 8000, "wal_autocheckpoint in pages")
	f.StringVar(&ids, "ids", "suffix", "identifiers where they are not the question: suffix, full or packed")
	f.StringVar(&only, "only", "", "candidates to run, separated by commas (default all); \"accounts\" is the second table")
	f.StringVar(&o.dir, "dir", "", "directory for the databases, on a disk (default: the system's temporary one); about 6 GB")
	f.BoolVar(&o.btrees, "btrees", false, "print the bytes per entry of each table and index too")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	forms := map[string]idForm{"suffix": idSuffix, "full": idFull, "packed": idPacked}
	form, ok := forms[ids]
	if !ok {
		return o, fmt.Errorf("-ids %q: want suffix, full or packed", ids)
	}
	o.ids, o.linkAccounts = form, 50_000
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	if quick {
		o.preload, o.rounds, o.perRound, o.linkAccounts = 12_000, 3, 768, 5_000
	}
	return o, nil
}

func main() {
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = measure(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "layout:", err)
		os.Exit(1)
	}
}

// measure runs everything in a directory of its own and removes it.
func measure(o options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "atrium-layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// Gigabytes must not stay behind an interrupted run or a closed pipe.
	signal.Ignore(syscall.SIGPIPE)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		os.RemoveAll(dir)
		os.Exit(1)
	}()

	if cs, err := measureEntries(dir, o); err != nil {
		return err
	} else if len(cs) > 0 {
		printEntries(os.Stdout, o, cs)
	}
	if o.wants("accounts") {
		rs, err := measureAccounts(dir, o)
		if err != nil {
			return err
		}
		printAccounts(os.Stdout, o, rs)
	}
	return nil
}

func (o options) wants(name string) bool {
	return len(o.only) == 0 || slices.Contains(o.only, name)
}

// candidate is a layout with its database and what was measured of it.
type candidate struct {
	l    layout
	path string
	w    *writer

	fileBytes float64 // per entry
	btrees    []btree
	walBytes  float64   // per entry
	wall, cpu []float64 // µs per entry, one a round
	reads     map[string][]float64
}

func measureEntries(dir string, o options) ([]*candidate, error) {
	var cs []*candidate
	for _, l := range layouts(o.ids) {
		if o.wants(l.name) {
			cs = append(cs, &candidate{l: l, path: filepath.Join(dir, l.name+".db"), reads: map[string][]float64{}})
		}
	}
	defer func() {
		for _, c := range cs {
			if c.w != nil {
				c.w.conn.Close()
			}
		}
	}()
	if err := inParallel(cs, 2, func(c *candidate) error { return c.load(o) }); err != nil {
		return nil, err
	}
	// What the load left to the kernel must not be written during a round.
	syscall.Sync()
	for _, c := range cs {
		if err := c.countWAL(o); err != nil {
			return nil, fmt.Errorf("%s: %w", c.l.name, err)
		}
	}
	for r := range o.rounds {
		for i := range cs {
			c := cs[(i+r)%len(cs)]
			if err := c.round(o); err != nil {
				return nil, fmt.Errorf("%s: %w", c.l.name, err)
			}
		}
	}
	return cs, measureReads(cs, o)
}

// inParallel calls f for every candidate, at most n at a time.
func inParallel(cs []*candidate, n int, f func(*candidate) error) error {
	var wg sync.WaitGroup
	free := make(chan struct{}, n)
	errs := make([]error, len(cs))
	for i, c := range cs {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if err := f(c); err != nil {
				errs[i] = fmt.Errorf("%s: %w", c.l.name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// load writes the entries that are there before the measurement.
func (c *candidate) load(o options) (err error) {
	if c.w, err = openWriter(c.path, c.l, o); err != nil {
		return err
	}
	before, err := c.fileSize(o)
	if err != nil {
		return err
	}
	for left := o.preload; left > 0; left -= 4096 {
		if err := c.w.commit(c.w.w.batch(min(left, 4096))); err != nil {
			return err
		}
	}
	after, err := c.fileSize(o)
	if err != nil {
		return err
	}
	c.fileBytes = float64(after-before) / float64(o.preload)
	if o.btrees {
		if c.btrees, err = readBtrees(c.w.conn, o.preload); err != nil {
			return err
		}
	}
	return c.w.durable(o)
}

func (c *candidate) fileSize(o options) (int64, error) {
	pages, err := sqlitex.ResultInt64(c.w.conn.Prep("PRAGMA page_count"))
	return pages * int64(o.pageSize), err
}

// countWAL writes a round without checkpoints into an empty log, so that the
// frames of the log at its end are all that was written. It also warms the
// cache.
func (c *candidate) countWAL(o options) error {
	conn := c.w.conn
	if err := pragmas(conn, "wal_autocheckpoint = 0", "wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	if err := c.write(c.w.w.batch(o.perRound), o.batch); err != nil {
		return err
	}
	var frames int64
	err := sqlitex.ExecuteTransient(conn, "PRAGMA wal_checkpoint(PASSIVE)", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { frames = s.ColumnInt64(1); return nil }})
	if err != nil {
		return err
	}
	const frameHeader = 24
	c.walBytes = float64(frames) * float64(o.pageSize+frameHeader) / float64(o.perRound)
	return pragmas(conn, fmt.Sprintf("wal_autocheckpoint = %d", o.autocheckpoint), "wal_checkpoint(TRUNCATE)")
}

// round times a fixed number of entries, the checkpoint of what they left in
// the log included: a layout pays for all that it wrote.
func (c *candidate) round(o options) error {
	entries := c.w.w.batch(o.perRound)
	cpu, start := cpuTime(), time.Now()
	if err := c.write(entries, o.batch); err != nil {
		return err
	}
	if err := pragmas(c.w.conn, "wal_checkpoint(RESTART)"); err != nil {
		return err
	}
	n := float64(len(entries))
	c.wall = append(c.wall, micros(time.Since(start))/n)
	c.cpu = append(c.cpu, micros(cpuTime()-cpu)/n)
	return nil
}

func (c *candidate) write(entries []entry, batch int) error {
	for b := range slices.Chunk(entries, batch) {
		if err := c.w.commit(b); err != nil {
			return err
		}
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// cpuTime is what this process has used, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
