// Package nodes runs Atrium for tests as in production: as processes of atrium serve on
// one PostgreSQL database, behind HAProxy and optionally with PgBouncer. Its own tests
// check that several nodes behave as one service.
package nodes

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"atrium/internal/cli"
	"atrium/internal/store/engine/postgrestest"
)

// StopLimit is how long atrium serve may take to stop after a signal.
const StopLimit = 8 * time.Second

// variable makes a test binary run the command atrium instead of its tests. The command is
// thus built with the race detector if the tests are.
const variable = "ATRIUM_NODES_TEST_COMMAND"

// Main runs the tests, or the command in a process of Start or Command:
//
//	func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }
func Main(m *testing.M) (code int) {
	if os.Getenv(variable) != "" {
		return cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	return postgrestest.Main(m)
}

// A Node is a process of atrium serve.
type Node struct {
	Addr string // address that it listens on, also after Restart

	*process
	binary    Binary // that it runs; "" for the command of this test binary
	flags     []string
	restarted bool // keeps its address
}

// Start starts n nodes on a database at once, with additional flags, and waits until each
// of them serves.
func Start(tb testing.TB, n int, database string, flags ...string) []*Node {
	tb.Helper()
	nodes := make([]*Node, n)
	for i := range nodes {
		nodes[i] = Launch(tb, database, flags...)
	}
	for _, node := range nodes {
		node.wait(tb)
	}
	return nodes
}

// Launch starts a node without waiting for it. If database is "", the environment names
// it.
func Launch(tb testing.TB, database string, flags ...string) *Node {
	tb.Helper()
	return launch(tb, "", database, flags...)
}

func launch(tb testing.TB, binary Binary, database string, flags ...string) *Node {
	tb.Helper()
	n := &Node{Addr: freeAddr(tb), binary: binary, flags: append([]string{"--log-format", "text"}, flags...)}
	if database != "" {
		n.flags = append(n.flags, "--database", database)
	}
	n.launch(tb)
	return n
}

// Unprivileged starts a node as a user other than root, with a database file in a new
// directory, and waits until it serves.
func Unprivileged(tb testing.TB, flags ...string) *Node {
	tb.Helper()
	binary, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	content, err := os.ReadFile(binary) // that user may not have access to its directory
	if err != nil {
		tb.Fatal(err)
	}
	cmd := command(tb, "true", map[string][]byte{"atrium": content})
	path := filepath.Join(cmd.Dir, "atrium")
	if err := os.Chmod(path, 0o755); err != nil {
		tb.Fatal(err)
	}
	n := &Node{Addr: freeAddr(tb)}
	args := append([]string{path, "serve", "--addr", n.Addr, "--log-format", "text", "--database", "sqlite:" + filepath.Join(cmd.Dir, "atrium.db")}, flags...)
	cmd.Path, cmd.Args, cmd.Env = path, args, append(cmd.Env, variable+"=1", "GORACE=atexit_sleep_ms=0")
	n.process = run(tb, "node "+n.Addr, cmd)
	n.wait(tb)
	return n
}

func (n *Node) launch(tb testing.TB) {
	tb.Helper()
	n.process = run(tb, "node "+n.Addr, n.binary.command(tb, append([]string{"serve", "--addr", n.Addr}, n.flags...)...))
	of := n.process
	tb.Cleanup(func() {
		for _, bad := range []string{"DATA RACE", "panic: "} {
			if strings.Contains(of.log.String(), bad) {
				tb.Errorf("%s logged %q:\n%s", of.name, bad, of.log)
			}
		}
	})
}

// serving matches the log line of a node that serves, in either format.
var serving = regexp.MustCompile(`msg"?[=:]"?serving"?[ ,]"?addr"?[=:]"?([^\s",]+)`)

// wait waits until the node serves. If another process took its port, it starts the node
// on another one.
func (n *Node) wait(tb testing.TB) {
	tb.Helper()
	for tries := 3; n.logged(tb, serving) == ""; tries-- {
		if tries == 0 || n.restarted || !strings.Contains(n.log.String(), "address already in use") {
			tb.Fatalf("%s did not start:\n%s", n.name, n.log)
		}
		n.Addr = freeAddr(tb)
		n.launch(tb)
	}
}

// Restart starts a stopped node again at the same address, and waits until it serves.
func (n *Node) Restart(tb testing.TB) {
	tb.Helper()
	n.restarted = true
	n.launch(tb)
	n.wait(tb)
}

// Stop stops a node gracefully, within StopLimit.
func (n *Node) Stop(tb testing.TB) {
	tb.Helper()
	n.Signal(tb, syscall.SIGTERM)
	if code := n.ExitCode(tb, StopLimit); code != 0 {
		tb.Errorf("%s ended with exit code %d:\n%s", n.name, code, n.log.tail())
	}
}

// Command runs an atrium command and returns its output and exit code.
func Command(tb testing.TB, args ...string) (stdout, stderr string, code int) {
	tb.Helper()
	return Binary("").Command(tb, args...)
}

// Must is Command for a command that must succeed.
func Must(tb testing.TB, args ...string) (stdout string) {
	tb.Helper()
	stdout, stderr, code := Command(tb, args...)
	if code != 0 {
		tb.Fatalf("atrium %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// Client returns a client that opens a connection per request and never retries.
func Client(tb testing.TB) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Timeout: waitLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Log returns the log of the node since its start.
func (n *Node) Log() string { return n.log.String() }

// PID returns the process ID of the node.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Status returns the wait status of the ended process.
func (n *Node) Status() syscall.WaitStatus {
	status, _ := n.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status
}

// Ended reports whether the node's process has ended.
func (n *Node) Ended() bool { return n.ended() }
