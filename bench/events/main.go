// Command events measures what outbound events cost, how fast they are delivered, and how fast receivers are.
//
// Pairs take turns in short rounds, so that other load on the machine affects both: a ratio is that of the
// medians of the rounds. The receiver and the clients are part of this process, so they share the processors with
// the server. Each row names its goal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"atrium/bench/server"
	"atrium/bench/workload"
	"atrium/internal/store/engine/postgrestest"
)

type options struct {
	atrium      string
	before      string
	engine      string
	only        string
	connections int
	rounds      int
	round       time.Duration
	open        time.Duration
	burst       int
	dead        int
	waiting     int
}

func main() {
	var o options
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.before, "before", "", "a binary of a release without events, for the row off")
	flag.StringVar(&o.engine, "engine", "", "sqlite or postgres (default both)")
	flag.StringVar(&o.only, "only", "", "rows to measure, separated by commas: "+strings.Join(rowNames(), ", ")+" (default all)")
	flag.IntVar(&o.connections, "connections", 48, "connections of a closed loop, each with one request in flight")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each side of a pair")
	flag.DurationVar(&o.round, "round", 4*time.Second, "length of a round of a closed loop")
	flag.DurationVar(&o.open, "open", time.Minute, "length of a round of an open loop")
	flag.IntVar(&o.burst, "burst", 20_000, "events of a round of deliveries")
	flag.IntVar(&o.dead, "dead", 100_000, "events that wait for an endpoint that never responds")
	flag.IntVar(&o.waiting, "waiting", 1_000_000, "waiting deliveries of the row waiting")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

func rowNames() (names []string) {
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

func (o options) wants(row string) bool {
	return o.only == "" || slices.Contains(strings.Split(o.only, ","), row)
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "atrium-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// The nodes and the commands get these settings from the environment.
	for name, value := range map[string]string{"ATRIUM_SECRETS_KEY_FILE": filepath.Join(dir, "keys"), "ATRIUM_WEBHOOK_ALLOW": "127.0.0.0/8"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	if _, err := server.Run(ctx, o.atrium, "secrets", "add-key"); err != nil {
		return err
	}
	for _, engine := range []string{"sqlite", "postgres"} {
		if o.engine != "" && o.engine != engine {
			continue
		}
		b := &bench{options: o, dir: dir}
		if err := b.measure(ctx, engine); err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
	}
	return nil
}

// A bench measures the rows on an engine.
type bench struct {
	options
	dir       string
	db        *postgrestest.Server // nil for SQLite
	databases int
}

func (b *bench) measure(ctx context.Context, engine string) (err error) {
	if engine == "postgres" {
		if b.db, err = postgrestest.Run("shared_buffers=512MB", "max_wal_size=4GB"); err != nil { //nolint:contextcheck // it is for tests, and takes no context
			return err
		}
		defer func() { err = errors.Join(err, b.db.Close()) }()
	}
	fmt.Printf("%-9s %-10s %-54s %10s %10s %7s  %s\n", "engine", "row", "figure", "without", "with", "ratio", "goal")
	for _, r := range rows {
		if !b.wants(r.name) {
			continue
		}
		figures, err := r.measure(b, ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		for _, f := range figures {
			fmt.Printf("%-9s %-10s %-54s %10s %10s %7s  %s\n", engine, r.name, f.what, f.without, f.with, f.ratio, f.goal)
		}
	}
	return nil
}

// A row measures some figures.
type row struct {
	name    string
	measure func(*bench, context.Context) ([]figure, error)
}

// A figure is a line of the output.
type figure struct{ what, without, with, ratio, goal string }

func rates(what string, without, with []float64, goal string) figure {
	a, b := median(without), median(with)
	return figure{what, fmt.Sprintf("%.0f/s", a), fmt.Sprintf("%.0f/s", b), fmt.Sprintf("%.2f", b/a), goal}
}

func times(what string, without, with time.Duration, goal string) figure {
	return figure{what, short(without), short(with), fmt.Sprintf("%.2f", float64(with)/float64(without)), goal}
}

func one(what, value, goal string) figure { return figure{what, "", value, "", goal} }

func short(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// A node is a server with a tenant whose data it has.
type node struct {
	*server.Atrium
	*workload.Workload
}

// newDatabase returns the address of an empty database.
func (b *bench) newDatabase() (string, error) {
	b.databases++
	name := fmt.Sprintf("bench%d", b.databases)
	if b.db != nil {
		return b.db.Create(name)
	}
	return "sqlite:" + filepath.Join(b.dir, name+".db"), nil
}

// start starts a binary on an empty database with a tenant.
func (b *bench) start(ctx context.Context, binary string) (*node, error) {
	database, err := b.newDatabase()
	if err != nil {
		return nil, err
	}
	a, err := server.StartAtrium(ctx, binary, database, "--log-level=error")
	if err != nil {
		return nil, err
	}
	w, err := workload.Prepare(ctx, a, workload.Size{Accounts: 10_000, Payload: 1024})
	if err != nil {
		a.Stop()
		return nil, err
	}
	return &node{a, w}, nil
}

// create creates a webhook for new entries. The tenant's first one switches its events on.
func (n *node) create(ctx context.Context, url string) (id string, err error) {
	var made struct{ WebhookID string }
	err = n.Command(ctx, &made, nil, "webhooks", "create", "--tenant", n.Tenant, "--url", url, "--event-types", "account_log.created")
	return made.WebhookID, err
}

// webhook executes a command for a webhook: enable, disable or delete.
func (n *node) webhook(ctx context.Context, command, id string) error {
	args := []string{"webhooks", command, "--tenant", n.Tenant, id}
	if command == "delete" {
		args = append(args, "--yes")
	}
	return n.Command(ctx, nil, nil, args...)
}

// copyNewest copies the newest database, whose server has stopped, and returns the addresses of both.
func (b *bench) copyNewest() (databases [2]string, err error) {
	name := fmt.Sprintf("bench%d", b.databases)
	b.databases++
	copied := fmt.Sprintf("bench%d", b.databases)
	if b.db != nil {
		databases[0] = b.db.URL(name)
		databases[1], err = b.db.Copy(name, copied)
		return databases, err
	}
	from, to := filepath.Join(b.dir, name+".db"), filepath.Join(b.dir, copied+".db")
	databases = [2]string{"sqlite:" + from, "sqlite:" + to}
	return databases, copyFile(from, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
