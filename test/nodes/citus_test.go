//go:build citus

package nodes_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium/internal/store/engine/postgrestest"
	"atrium/test/nodes"
)

// A cluster is a Citus cluster on this machine, with a service whose tables are distributed.
type cluster struct {
	*service
	coordinator string // URL
	workers     []string
}

// newCluster distributes the tables of a new schema on the cluster of CITUS_URL, and starts three
// nodes on it.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	address := os.Getenv("CITUS_URL")
	if address == "" {
		t.Fatal("CITUS_URL must be the address of a database on a Citus coordinator: make test-citus CITUS_URL=postgres://…")
	}
	c := &cluster{coordinator: postgrestest.NewSchema(t, address, "citus.shard_count=4")}
	nodes.Must(t, "migrate", "--distribute=citus", "--database", c.coordinator)
	c.service = serviceAt(t, c.coordinator, "--write-workers", "4", "--database-connections", "8")
	for _, w := range strings.Fields(c.query(t, c.coordinator, "SELECT string_agg(node_name || ':' || node_port, ' ' ORDER BY node_port) FROM citus_get_active_worker_nodes()")) {
		c.workers = append(c.workers, c.at(t, w))
	}
	return c
}

// at returns the URL of the database on another server of the cluster.
func (c *cluster) at(t *testing.T, host string) string {
	t.Helper()
	u, err := url.Parse(c.coordinator)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = host
	return u.String()
}

// query runs a statement on a server and returns the first column of its first row, as text.
func (c *cluster) query(t *testing.T, server, sql string) (value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() && value == "" {
		value = string(rows.RawValues()[0])
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// shard returns the shard of the tenant's accounts, and the server that has it.
func (c *cluster) shard(t *testing.T) (id, host string) {
	t.Helper()
	id = c.query(t, c.coordinator, "SELECT get_shard_id_for_distribution_column('accounts', (SELECT tenant_id FROM tenants))::text")
	return id, c.query(t, c.coordinator, "SELECT nodename || ':' || nodeport FROM citus_shards WHERE shardid = "+id)
}

// kill kills a server on this machine with SIGKILL, and returns what starts it again.
func (c *cluster) kill(t *testing.T, server string) (restart func()) {
	t.Helper()
	host, _, err := net.SplitHostPort(hostOf(t, server))
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Skipf("the server %s is not on this machine", host)
	}
	file := strings.Fields(c.query(t, server, "SELECT pg_read_file('postmaster.pid')"))
	bin := c.query(t, server, "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
	pid, err := strconv.Atoi(file[0])
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file[1])
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("the data directory has no owner")
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, p := range append([]string{file[0]}, strings.Fields(string(children))...) {
		if n, err := strconv.Atoi(p); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	restarted := false
	restart = func() {
		if restarted {
			return
		}
		restarted = true
		// The lock files name the killed process, which exists until its parent has waited for it.
		_ = os.Remove(file[1] + "/postmaster.pid")
		_ = os.Remove(fmt.Sprintf("%s/.s.PGSQL.%s.lock", file[4], file[3]))
		start := exec.Command(bin+"/pg_ctl", "start", "--wait", "--pgdata="+file[1], "--log="+file[1]+"/../restarted.log")
		start.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}, Setsid: true}
		start.Dir = file[1]
		if err := start.Run(); err != nil {
			t.Errorf("start %s: %v", server, err)
		}
	}
	t.Cleanup(restart)
	return restart
}

func hostOf(t *testing.T, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestCitusNodesThatAreKilledUnderLoadLoseAndDoubleNothing(t *testing.T) {
	c := newCluster(t)
	front := nodes.Proxy(t, c.nodes)
	l := work(t, c.service, front.Addr, clients)
	for _, n := range c.nodes {
		l.await(t, 100)
		n.Kill()
		front.Await(t, 2)
		l.await(t, 100)
		n.Restart(t)
		front.Await(t, 3)
	}
	l.end(t)
}

// Clients get 503 with Retry-After while the server of their tenant is away, and nothing that was
// acknowledged is lost.
func TestCitusServersThatAreKilledUnderLoadLoseAndDoubleNothing(t *testing.T) {
	c := newCluster(t)
	front := nodes.Proxy(t, c.nodes)
	_, home := c.shard(t)
	other := c.workers[0]
	if other == c.at(t, home) {
		other = c.workers[1]
	}
	l := work(t, c.service, front.Addr, clients)
	for _, fault := range []struct{ name, server string }{
		{"the worker of the tenant", c.at(t, home)},
		{"another worker", other},
		{"the coordinator", c.coordinator},
	} {
		for range 3 {
			l.await(t, 200)
			restart := c.kill(t, fault.server)
			time.Sleep(500 * time.Millisecond)
			restart()
		}
		l.await(t, 200)
		l.mu.Lock()
		t.Logf("%s was killed 3 times: failed so far: %v", fault.name, l.failures)
		l.mu.Unlock()
	}
	l.end(t)
}

// Shards are moved while clients write, and a move is interrupted.
func TestCitusShardsThatAreMovedUnderLoadLoseAndDoubleNothing(t *testing.T) {
	c := newCluster(t)
	front := nodes.Proxy(t, c.nodes)
	l := work(t, c.service, front.Addr, clients)
	l.await(t, 500)
	move := func(from, to string) string {
		id, _ := c.shard(t)
		fromHost, fromPort, _ := net.SplitHostPort(from)
		toHost, toPort, _ := net.SplitHostPort(to)
		return fmt.Sprintf("SELECT citus_move_shard_placement(%s, '%s', %s, '%s', %s, shard_transfer_mode => 'force_logical')", id, fromHost, fromPort, toHost, toPort)
	}
	other := func(host string) string {
		for _, w := range c.workers {
			if hostOf(t, w) != host {
				return hostOf(t, w)
			}
		}
		t.Fatal("one worker: a move needs two")
		return ""
	}
	for range 2 {
		_, from := c.shard(t)
		c.query(t, c.coordinator, move(from, other(from)))
		l.await(t, 100)
	}
	t.Run("interrupted", func(t *testing.T) {
		_, from := c.shard(t)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		conn, err := pgx.Connect(ctx, c.coordinator)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(ctx, move(from, other(from)))
		t.Logf("the move: %v", err)
		_ = conn.Close(context.Background())
		l.await(t, 100)
		c.query(t, c.coordinator, "CALL citus_cleanup_orphaned_resources()")
	})
	t.Run("isolated", func(t *testing.T) {
		c.query(t, c.coordinator, "SELECT isolate_tenant_to_new_shard('accounts', (SELECT tenant_id FROM tenants), 'CASCADE', shard_transfer_mode => 'block_writes')")
		l.await(t, 100)
		_, from := c.shard(t)
		c.query(t, c.coordinator, move(from, other(from)))
		l.await(t, 100)
	})
	l.end(t)
}
