// Command citus measures what a request costs on a Citus cluster, beside a plain PostgreSQL server
// on the same machine.
//
// The processes of a cluster on one machine share its processors, so a rate says little. The command
// prints the processor time per request of the node, of the coordinator (or the plain server), and of
// all workers. The cluster's servers must run on this machine, and the user of the URL must be a
// superuser. Both take turns in short rounds; the figures are medians.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
	"atrium/internal/store/engine/postgrestest"
)

type options struct {
	atrium      string
	url         string
	connections int
	rounds      int
	round       time.Duration
	accounts    int
}

func main() {
	var o options
	flag.StringVar(&o.atrium, "atrium", "../bin/atrium", "the binary to measure")
	flag.StringVar(&o.url, "url", "", "database on the coordinator")
	flag.IntVar(&o.connections, "connections", 16, "connections, each with one request in flight")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds per row")
	flag.DurationVar(&o.round, "round", 3*time.Second, "length of a round")
	flag.IntVar(&o.accounts, "accounts", 1000, "accounts, each with three prospects")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "citus:", err)
		os.Exit(1)
	}
}

// A deployment is a node on a database, with the processes of its servers.
type deployment struct {
	name     string
	node     *server.Atrium
	work     *workload.Workload
	database []int // PIDs of the coordinator or the plain server
	workers  []int
	costs    []cost
}

// A cost is the result of a round: rates per second, and processor time per request.
type cost struct {
	rate                    float64
	node, database, workers time.Duration
}

func run(ctx context.Context, o options) (err error) {
	plain, err := postgrestest.Run("shared_buffers=256MB")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	address, err := plain.Create("bench") //nolint:contextcheck // it is for tests, and takes no context
	if err != nil {
		return err
	}
	one, err := o.deploy(ctx, "PostgreSQL", address)
	if err != nil {
		return err
	}
	defer one.node.Stop()

	distributed, drop, err := postgrestest.CreateSchema(o.url, "citus.shard_count=32") //nolint:contextcheck // as above
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	if out, err := exec.CommandContext(ctx, o.atrium, "migrate", "--distribute=citus", "--database", distributed).CombinedOutput(); err != nil {
		return fmt.Errorf("distribute the tables: %w: %s", err, out)
	}
	many, err := o.deploy(ctx, "Citus", distributed)
	if err != nil {
		return err
	}
	defer many.node.Stop()
	if many.workers, err = workersOf(ctx, distributed); err != nil {
		return err
	}

	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "request\trequests/s\tnode µs\tserver or coordinator µs\tworkers µs\t")
	for _, name := range []string{workload.PostEntry, workload.GetAccount} {
		for n := range o.rounds + 1 { // the first one warms up
			for _, d := range []*deployment{one, many} {
				c, err := o.measure(ctx, d, name)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", name, d.name, err)
				}
				if n == 0 {
					d.costs = nil
				} else {
					d.costs = append(d.costs, c)
				}
			}
		}
		for _, d := range []*deployment{one, many} {
			fmt.Fprintf(out, "%s, %s\t%.0f\t%d\t%d\t%d\t\n", name, d.name,
				median(d.costs, func(c cost) float64 { return c.rate }),
				median(d.costs, func(c cost) int64 { return c.node.Microseconds() }),
				median(d.costs, func(c cost) int64 { return c.database.Microseconds() }),
				median(d.costs, func(c cost) int64 { return c.workers.Microseconds() }))
		}
	}
	return out.Flush()
}

// deploy starts a node on a database and stores the records of the workload.
func (o options) deploy(ctx context.Context, name, database string) (d *deployment, err error) {
	d = &deployment{name: name}
	if d.database, err = postmasters(ctx, database); err != nil {
		return nil, err
	}
	if d.node, err = server.StartAtrium(ctx, o.atrium, database); err != nil {
		return nil, err
	}
	d.work, err = workload.Prepare(ctx, d.node, workload.Size{Accounts: o.accounts, Payload: 1024})
	if err == nil {
		_, err = query[string](ctx, database, "ANALYZE")
	}
	if err != nil {
		d.node.Stop()
		return nil, err
	}
	return d, nil
}

// measure runs a round of one kind of request.
func (o options) measure(ctx context.Context, d *deployment, name string) (cost, error) {
	kinds := d.work.Kinds()
	kind := kinds[slices.IndexFunc(kinds, func(k load.Kind) bool { return k.Name == name })]
	database, workers := treesCPU(d.database), treesCPU(d.workers)
	r, err := load.Load{To: []load.Server{d.node}, Mix: load.Only(kind), Connections: o.connections, For: o.round}.Run(ctx)
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("%d requests of %d failed: %w", r.Failed, r.Failed+r.Answered, r.Failure)
	}
	if err != nil {
		return cost{}, err
	}
	per := func(used time.Duration) time.Duration { return used / time.Duration(r.Answered) }
	return cost{r.Rate(), r.CPUPerRequest(), per(treesCPU(d.database) - database), per(treesCPU(d.workers) - workers)}, nil
}

func treesCPU(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		sum += server.TreeCPU(pid)
	}
	return sum
}

// workersOf returns the PIDs of the workers of a cluster.
func workersOf(ctx context.Context, coordinator string) ([]int, error) {
	hosts, err := query[string](ctx, coordinator, "SELECT node_name || ':' || node_port FROM citus_get_active_worker_nodes()")
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, host := range hosts {
		name, _, err := net.SplitHostPort(host)
		if ip := net.ParseIP(name); err != nil || name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, fmt.Errorf("worker %s: its processor time can be read only on this machine", host)
		}
		u, err := url.Parse(coordinator)
		if err != nil {
			return nil, err
		}
		u.Host = host
		addresses = append(addresses, u.String())
	}
	return postmasters(ctx, addresses...)
}

// postmasters returns the PIDs of servers.
func postmasters(ctx context.Context, addresses ...string) (pids []int, err error) {
	for _, address := range addresses {
		files, err := query[string](ctx, address, "SELECT pg_read_file('postmaster.pid')")
		if err != nil {
			return nil, err
		}
		line, _, _ := strings.Cut(files[0], "\n")
		pid, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// query runs a statement and returns the first column of its rows.
func query[T any](ctx context.Context, address, statement string) (values []T, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	rows, err := conn.Query(ctx, statement)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// median returns the middle of the values of the costs.
func median[T int64 | float64](costs []cost, of func(cost) T) T {
	values := make([]T, len(costs))
	for i, c := range costs {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
