// Command backup measures ways to copy a SQLite database that another process writes
// to at full speed: what each takes, what it costs the writer, and how far the
// write-ahead log grows meanwhile. The writer commits batches through the store, as a
// server does.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/backup"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

const batch = 64

type options struct {
	dir     string
	entries int
	payload int
	limit   time.Duration
	writer  string
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "where a new folder for the files is made, on a disk (default the system's)")
	flag.IntVar(&o.entries, "entries", 300_000, "entries in the database before")
	flag.IntVar(&o.payload, "payload", 1000, "bytes of a payload")
	flag.DurationVar(&o.limit, "limit", 20*time.Second, "how long a copy may take")
	flag.StringVar(&o.writer, "writer", "", "be the writer of the database at this path")
	flag.Parse()
	err := run(o)
	if o.writer != "" {
		err = write(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "backup:", err)
		os.Exit(1)
	}
}

// appender returns what commits a batch of entries, and how many it has.
func appender(ctx context.Context, s *store.Store, payload int) (func() error, error) {
	tenant, _, err := s.CreateTenant(ctx, atrium.CommandLine(atrium.OperatorChain), "bench")
	if err != nil {
		return nil, err
	}
	data := []byte(`{"fill":"` + strings.Repeat("x", payload) + `"}`)
	n := 0
	return func() error {
		drafts := make([]*atrium.Draft, batch)
		for i := range drafts {
			n++
			d, err := canonical.Draft(tenant.ID, atrium.Submission{Source: "crm", Payload: data, Claim: atrium.Claim{Domain: fmt.Sprintf("d%d.example", n%5000)}})
			if err != nil {
				return err
			}
			d.ID = atrium.NewID[atrium.EntryID]()
			drafts[i] = d
		}
		_, err := s.Append(ctx, drafts)
		return err
	}, nil
}

// write commits until stdin ends, and writes to stdout how many entries it has and what
// the slowest commit took since the line before.
func write(o options) error {
	ctx := context.Background()
	s, err := store.Open(ctx, "sqlite:"+o.writer, store.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	add, err := appender(ctx, s, o.payload)
	if err != nil {
		return err
	}
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	told, slowest := time.Now(), time.Duration(0)
	for n := 0; !ended.Load(); n += batch {
		start := time.Now()
		if err := add(); err != nil {
			return err
		}
		slowest = max(slowest, time.Since(start))
		if time.Since(told) > 50*time.Millisecond {
			fmt.Println(n+batch, slowest.Microseconds())
			told, slowest = time.Now(), 0
		}
	}
	return nil
}

// A figure is what a stretch of writing was like.
type figure struct {
	entries int
	took    time.Duration
	slowest time.Duration
	log     int64 // bytes of the write-ahead log at most
}

func (f figure) rate() float64 { return float64(f.entries) / f.took.Seconds() }

// A writer is the process that writes.
type writer struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan [2]int
	path  string
	n     int
}

func startWriter(o options, path string) (*writer, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &writer{cmd: exec.Command(binary, "-writer", path, "-payload", strconv.Itoa(o.payload)), lines: make(chan [2]int, 1000), path: path}
	w.cmd.Stderr = os.Stderr
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	w.stdin = stdin
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(w.lines)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			var line [2]int
			_, _ = fmt.Sscan(scan.Text(), &line[0], &line[1])
			w.lines <- line
		}
	}()
	return w, w.cmd.Start()
}

// during measures the writer until done is closed.
func (w *writer) during(done <-chan struct{}) (f figure) {
	start := time.Now()
	from := w.n
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				return f
			}
			w.n = line[0]
			f.slowest = max(f.slowest, time.Duration(line[1])*time.Microsecond)
			if info, err := os.Stat(w.path + "-wal"); err == nil {
				f.log = max(f.log, info.Size())
			}
		case <-done:
			f.entries, f.took = w.n-from, time.Since(start)
			return f
		}
	}
}

func (w *writer) alone(d time.Duration) figure {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return w.during(done)
}

func (w *writer) stop() error {
	_ = w.stdin.Close()
	for range w.lines { // to the end
	}
	return w.cmd.Wait()
}

// A way copies the database at one path to another. It says what is to be known besides.
type way struct {
	name string
	copy func(ctx context.Context, from, to string) (string, error)
}

var ways = []way{
	{"pages in a read transaction", func(ctx context.Context, from, to string) (string, error) {
		s, err := store.Open(ctx, "sqlite:"+from, store.Options{})
		if err != nil {
			return "", err
		}
		defer func() { _ = s.Close() }()
		var bytes int64
		start := time.Now()
		copied := start
		_, err = backup.Make(ctx, s, to, backup.Options{Progress: func(done, _ int64) { copied, bytes = time.Now(), done }})
		return fmt.Sprintf("%.1f s to copy, the rest to check what was copied", copied.Sub(start).Seconds()), errors.Join(err, ifZero(bytes))
	}},
	{"the same, 20 MiB a second", func(ctx context.Context, from, to string) (string, error) {
		s, err := store.Open(ctx, "sqlite:"+from, store.Options{})
		if err != nil {
			return "", err
		}
		defer func() { _ = s.Close() }()
		start := time.Now()
		copied := start
		_, err = backup.Make(ctx, s, to, backup.Options{Rate: 20 << 20, Progress: func(int64, int64) { copied = time.Now() }})
		return fmt.Sprintf("%.1f s to copy", copied.Sub(start).Seconds()), err
	}},
	{"backup API in a read transaction", func(ctx context.Context, from, to string) (string, error) { return steps(ctx, from, to, true) }},
	{"backup API", func(ctx context.Context, from, to string) (string, error) { return steps(ctx, from, to, false) }},
	{"VACUUM INTO", func(ctx context.Context, from, to string) (string, error) {
		c, err := connect(from)
		if err != nil {
			return "", err
		}
		c.SetInterrupt(ctx.Done())
		defer func() { _ = c.Close() }()
		return "", sqlitex.ExecuteTransient(c, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{to}})
	}},
}

func ifZero(bytes int64) error {
	if bytes == 0 {
		return errors.New("nothing was copied")
	}
	return nil
}

func connect(path string) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err == nil {
		c.SetBusyTimeout(10 * time.Second)
		err = sqlitex.ExecuteTransient(c, "PRAGMA wal_autocheckpoint = 0", nil)
	}
	return c, err
}

// steps copies by SQLite's backup API, 256 pages at a time.
func steps(ctx context.Context, from, to string, pinned bool) (string, error) {
	src, err := connect(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = src.Close() }()
	dst, err := sqlite.OpenConn(to, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return "", err
	}
	defer func() { _ = dst.Close() }()
	if pinned {
		for _, sql := range []string{"BEGIN", "SELECT COUNT(*) FROM sqlite_schema"} {
			if err := sqlitex.ExecuteTransient(src, sql, nil); err != nil {
				return "", err
			}
		}
	}
	b, err := sqlite.NewBackup(dst, "main", src, "main")
	if err != nil {
		return "", err
	}
	defer func() { _ = b.Close() }()
	restarts, least, last := 0, 1<<62, 1<<62
	for more := true; more; {
		if ctx.Err() != nil {
			return fmt.Sprintf("began anew %d times, and had %d of %d pages left at best", restarts, least, b.PageCount()), ctx.Err()
		}
		if more, err = b.Step(256); err != nil && !more {
			return "", err
		}
		left := b.Remaining()
		if left >= last {
			restarts++
		}
		least, last = min(least, left), left
	}
	return fmt.Sprintf("began anew %d times", restarts), nil
}

func run(o options) (err error) {
	if o.writer != "" {
		return nil
	}
	dir, err := os.MkdirTemp(o.dir, "atrium-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "atrium.db")
	ctx := context.Background()
	s, err := store.Open(ctx, "sqlite:"+path, store.Options{})
	if err != nil {
		return err
	}
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	add, err := appender(ctx, s, o.payload)
	if err != nil {
		return err
	}
	for n := 0; n < o.entries; n += batch {
		if err := add(); err != nil {
			return err
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "way\tdatabase\ttook\tentries/s before\tmeanwhile\tslowest commit before\tmeanwhile\tlog before\tmeanwhile\t")
	for i, way := range ways {
		w, err := startWriter(o, path)
		if err != nil {
			return err
		}
		w.alone(time.Second) // to warm up
		before := w.alone(4 * time.Second)
		limited, cancel := context.WithTimeout(ctx, o.limit)
		done := make(chan struct{})
		var said string
		var took time.Duration
		var failure error
		go func() {
			defer close(done)
			start := time.Now()
			said, failure = way.copy(limited, path, filepath.Join(dir, fmt.Sprintf("copy-%d.db", i)))
			took = time.Since(start)
		}()
		meanwhile := w.during(done)
		cancel()
		if err := w.stop(); err != nil {
			return err
		}
		size := int64(0)
		if info, err := os.Stat(path); err == nil {
			size = info.Size()
		}
		if failure != nil {
			said = "not finished: " + said
			if limited.Err() == nil {
				said += failure.Error()
			}
		}
		fmt.Fprintf(table, "%s\t%d MiB\t%.1f s\t%.0f\t%.0f\t%v\t%v\t%d MiB\t%d MiB\t%s\n", way.name, size>>20, took.Seconds(), before.rate(), meanwhile.rate(),
			before.slowest.Round(time.Millisecond), meanwhile.slowest.Round(time.Millisecond), before.log>>20, meanwhile.log>>20, said)
	}
	return table.Flush()
}
