// Command size moves a large tenant from one database to another: it generates accounts
// and entries, imports them, exports them, imports the export into an empty database,
// exports that, and compares the two exports byte for byte. It prints the duration and the
// peak memory of each step, and the sizes of the files.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"atrium/bench/server"
	"atrium/bench/workload"
)

type options struct {
	atrium   string
	dir      string
	accounts int
	entries  int
	payload  int
}

func main() {
	var o options
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.dir, "dir", "", "parent of the temporary directory for the files (default the system's)")
	flag.IntVar(&o.accounts, "accounts", 1_000_000, "accounts")
	flag.IntVar(&o.entries, "entries", 5_000_000, "entries, one in two with an idempotency key")
	flag.IntVar(&o.payload, "payload", 200, "size of a payload in bytes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// A step is a command that was run.
type step struct {
	name string
	server.Usage
	lines int
}

func run(ctx context.Context, o options) (err error) {
	bin, err := filepath.Abs(o.atrium)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "atrium-size-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := func(name string) string { return filepath.Join(dir, name) }

	fmt.Printf("%d accounts, %d entries with %d bytes of payload\n\n", o.accounts, o.entries, o.payload)
	if err := workload.WriteEntries(file("made.ndjson"), o.accounts, o.entries, o.payload); err != nil {
		return err
	}
	lines := o.accounts + o.entries
	one, err := server.NewTenant(ctx, bin, "sqlite:"+file("one.db"))
	if err != nil {
		return err
	}
	two, err := server.NewTenant(ctx, bin, "sqlite:"+file("two.db"))
	if err != nil {
		return err
	}
	var steps []step
	for _, s := range []struct {
		name string
		args []string
	}{
		{"import", []string{"import", "--database", "sqlite:" + file("one.db"), "--tenant", one, file("made.ndjson")}},
		{"export", []string{"export", "--database", "sqlite:" + file("one.db"), "--tenant", one, file("one.ndjson")}},
		{"import the export", []string{"import", "--database", "sqlite:" + file("two.db"), "--tenant", two, file("one.ndjson")}},
		{"export that", []string{"export", "--database", "sqlite:" + file("two.db"), "--tenant", two, file("two.ndjson")}},
		{"import again", []string{"import", "--database", "sqlite:" + file("two.db"), "--tenant", two, file("one.ndjson")}},
	} {
		used, err := server.Run(ctx, bin, s.args...)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		steps = append(steps, step{s.name, used, lines})
	}
	first, err := sum(file("one.ndjson"))
	if err != nil {
		return err
	}
	second, err := sum(file("two.ndjson"))
	if err != nil {
		return err
	}
	report(steps, file("one.db"), file("one.ndjson"))
	fmt.Printf("\nSHA-256 of the exports:\n%s\n%s\n", first, second)
	if first != second {
		return errors.New("the exports differ")
	}
	fmt.Println("They are identical.")
	return nil
}

func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

func report(steps []step, database, export string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\ttime\tlines/s\tmemory at most\t\n")
	for _, s := range steps {
		fmt.Fprintf(w, "%s\t%v\t%.0f\t%d MiB\t\n", s.name, s.Time.Round(100*time.Millisecond), float64(s.lines)/s.Time.Seconds(), s.Memory>>20)
	}
	_ = w.Flush()
	for _, path := range []string{database, export} {
		if info, err := os.Stat(path); err == nil {
			fmt.Printf("\n%s: %d MiB", filepath.Base(path), info.Size()>>20)
		}
	}
	fmt.Println()
}
