// Command copy measures atrium copy: it generates accounts and entries, imports them to an SQLite
// database, copies everything to a target and compares the two. Then it copies to a second target,
// kills that copy again and again, and checks that the last run completes it. It prints the duration
// and the peak memory of each step. A target is a new SQLite database, or an empty one given as URL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
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
	atrium         string
	dir            string
	entries        int
	payload        int
	kills          int
	target, second string
}

func main() {
	var o options
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.dir, "dir", "", "parent of the temporary directory for the files (default the system's)")
	flag.IntVar(&o.entries, "entries", 1_000_000, "entries, one in two with an idempotency key, of one account in ten entries")
	flag.IntVar(&o.payload, "payload", 200, "size of a payload in bytes")
	flag.IntVar(&o.kills, "kills", 10, "how often the second copy is killed")
	flag.StringVar(&o.target, "target", "", "URL of the first empty target (default a new SQLite database)")
	flag.StringVar(&o.second, "second", "", "URL of the second empty target (default a new SQLite database)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "copy:", err)
		os.Exit(1)
	}
}

// A bench runs commands and remembers what they took.
type bench struct {
	options
	steps *tabwriter.Writer
}

func run(ctx context.Context, o options) (err error) {
	if o.atrium, err = filepath.Abs(o.atrium); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "atrium-copy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := func(name string) string { return "sqlite:" + filepath.Join(dir, name) }
	if o.target == "" {
		o.target = file("target.db")
	}
	if o.second == "" {
		o.second = file("second.db")
	}
	b := &bench{o, tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)}
	source := file("source.db")
	tenant, err := server.NewTenant(ctx, o.atrium, source)
	if err != nil {
		return err
	}
	lines := filepath.Join(dir, "lines.ndjson")
	if err := workload.WriteEntries(lines, max(o.entries/10, 1), o.entries, o.payload); err != nil {
		return err
	}
	fmt.Fprintln(b.steps, "step\ttime\tpeak memory")
	for _, step := range [][]string{
		{"import", "import", "--database", source, "--tenant", tenant, lines},
		{"migrate the target", "migrate", "--database", o.target},
		{"copy", "copy", "--from", source, "--to", o.target},
		{"verify", "copy", "--from", source, "--to", o.target, "--verify"},
		{"migrate the second target", "migrate", "--database", o.second},
	} {
		if _, err := b.step(ctx, step[0], step[1:], 0); err != nil {
			return err
		}
	}
	if err := b.killed(ctx, source); err != nil {
		return err
	}
	if _, err := b.step(ctx, "verify", []string{"copy", "--from", source, "--to", o.second, "--verify"}, 0); err != nil {
		return err
	}
	fmt.Printf("%d entries with %d bytes of payload\n\n", o.entries, o.payload)
	return b.steps.Flush()
}

// killed copies to the second target. It kills the copy after random durations, the longer the more
// often it was killed, so that it is killed in all parts of the copy.
func (b *bench) killed(ctx context.Context, source string) error {
	random := rand.New(rand.NewPCG(1, 2))
	args := []string{"copy", "--from", source, "--to", b.second}
	for n := range b.kills {
		after := time.Duration((0.5 + random.Float64()) * float64(time.Second) * float64(b.entries) / 400_000)
		done, err := b.step(ctx, fmt.Sprintf("killed copy %d", n+1), args, after)
		if err != nil || done {
			return err
		}
	}
	_, err := b.step(ctx, "last copy", args, 0)
	return err
}

// step runs a command and reports its duration and memory. It kills the command after a duration,
// unless that is 0, and reports whether it has ended before that.
func (b *bench) step(ctx context.Context, name string, args []string, after time.Duration) (done bool, err error) {
	running, stop := ctx, context.CancelFunc(func() {})
	if after > 0 {
		running, stop = context.WithTimeout(ctx, after)
	}
	defer stop()
	used, err := server.Run(running, b.atrium, args...)
	fmt.Fprintf(b.steps, "%s\t%s\t%d MiB\n", name, used.Time.Round(10*time.Millisecond), used.Memory>>20)
	if err != nil && running.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}
