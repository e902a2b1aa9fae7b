// Package postgrestest starts PostgreSQL servers for tests: temporary clusters on a free port of
// 127.0.0.1, with PostgreSQL's default durability. Their files and processes are removed when the
// tests end.
//
// The collation of the databases is linguistic on purpose: Atrium must compare text by bytes
// whatever the default of the system.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// serverTimeout is the maximum time of each operation of a server. Most take much less, but a crash
// recovery on a busy disk can need it.
const serverTimeout = time.Minute

// A Server is a running cluster. NewDatabase and Terminate are safe for concurrent use; methods
// that start, stop or pause the server are not.
type Server struct {
	bin        string              // the directory of initdb and postgres
	owner      *syscall.Credential // of files and processes; nil for the user of this process
	settings   []string            // in addition to the default ones
	dir        string
	port       int
	postmaster *os.Process
	ended      chan struct{} // closed when the postmaster has ended
	databases  atomic.Int64  // number of databases created

	original struct { // of the databases of NewCopy
		sync.Once
		err error
	}
}

// shared is the server that the tests of this process share.
var shared struct {
	sync.Mutex
	removed bool // Main runs, and will remove the server
	server  *Server
	err     error
}

// Main runs the tests, then stops the server of Shared and removes its files:
//
//	func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
//
// On Linux, the servers of a process that panics or is killed stop as well, but their files stay in
// TMPDIR.
func Main(m *testing.M) (code int) {
	shared.Lock()
	shared.removed = true
	shared.Unlock()
	cluster.parent = os.TempDir()
	code = m.Run()
	shared.Lock()
	defer shared.Unlock()
	var err error
	if shared.server != nil {
		err = shared.server.remove()
	}
	if err = errors.Join(err, os.RemoveAll(cluster.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "postgrestest:", err)
		code = max(code, 1)
	}
	return code
}

// Shared returns the server that the tests of this process share, each with its own databases. The
// first call starts it. Tests that kill or pause a server must use Start. With -short, Shared and
// Start skip the test.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	skipIfShort(tb)
	shared.Lock()
	defer shared.Unlock()
	if !shared.removed {
		tb.Fatal("postgrestest.Shared: the server would not be removed: add a TestMain that calls postgrestest.Main")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(nil, "")
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

func skipIfShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("-short skips tests that need PostgreSQL")
	}
}

// Start starts a server for one test and removes it when the test ends.
func Start(tb testing.TB) *Server {
	tb.Helper()
	skipIfShort(tb)
	s, err := start(nil, "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.remove(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Run starts a server with additional settings, such as "shared_buffers=1GB", for benchmarks. Close
// removes it.
func Run(settings ...string) (*Server, error) { return start(nil, "", settings...) }

// Close stops a server that Run has started, and removes its files.
func (s *Server) Close() error { return s.remove() }

// Bin returns the directory of the server's programs.
func (s *Server) Bin() string { return s.bin }

// Create creates an empty database and returns its URL.
func (s *Server) Create(name string) (url string, err error) {
	// template0 accepts no connections, so none can block copying it.
	return s.Copy("template0", name)
}

// Copy creates a copy of a database to which nobody is connected, and returns its URL. Its files are copied, which takes half
// the time of a copy through the WAL, the default.
func (s *Server) Copy(from, name string) (url string, err error) {
	return s.url(name), s.exec("CREATE DATABASE " + name + " TEMPLATE " + from + " STRATEGY file_copy")
}

// NewDatabase creates an empty database and returns its URL. The database is dropped when the test
// ends, even if clients are still connected.
func (s *Server) NewDatabase(tb testing.TB) (url string) {
	tb.Helper()
	return s.newDatabase(tb, "template0")
}

// NewCopy is NewDatabase for a copy of one database of the server, which the first call fills. fill
// leaves no connection to the database open, and is the same in all calls.
func (s *Server) NewCopy(tb testing.TB, fill func(url string) error) (url string) {
	tb.Helper()
	const original = "original"
	s.original.Do(func() {
		if url, s.original.err = s.Create(original); s.original.err == nil {
			s.original.err = fill(url)
		}
	})
	if s.original.err != nil {
		tb.Fatal(s.original.err)
	}
	return s.newDatabase(tb, original)
}

func (s *Server) newDatabase(tb testing.TB, from string) (url string) {
	tb.Helper()
	name := "test" + strconv.FormatInt(s.databases.Add(1), 10)
	url, err := s.Copy(from, name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if !s.running() {
			return // the files are removed with the server
		}
		if err := s.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return url
}

// Port returns the server's port on 127.0.0.1. It stays the same after a Restart.
func (s *Server) Port() int { return s.port }

// Log returns the last lines of the server's log.
func (s *Server) Log() string {
	log, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.SplitAfter(string(log), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "")
}

// Terminate closes all client connections, as a failover or an administrator does, and waits until
// they are closed.
func (s *Server) Terminate(tb testing.TB) {
	tb.Helper()
	err := s.exec("SELECT pg_terminate_backend(pid, $1) FROM pg_stat_activity"+
		" WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()", serverTimeout.Milliseconds())
	if err != nil {
		tb.Fatal(err)
	}
}

// Kill kills all processes of the server at once with SIGKILL, and waits until they are gone.
// Unlike in a power cut, the operating system still completes its writes.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.kill(); err != nil {
		tb.Fatal(err)
	}
}

// Stop shuts the server down, as `pg_ctl stop -m fast` does.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	if err := s.stop(); err != nil {
		tb.Fatal(err)
	}
}

// Standby starts a standby that follows the server by streaming replication. name is its
// application_name, for synchronous_standby_names. The standby is removed when the test ends.
func (s *Server) Standby(tb testing.TB, name string) *Server {
	tb.Helper()
	standby, err := start(s, name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := standby.remove(); err != nil {
			tb.Error(err)
		}
	})
	return standby
}

// BaseBackup starts an independent server on a base backup of this one, taken while it runs. The
// new server is removed when the test ends.
func (s *Server) BaseBackup(tb testing.TB) *Server {
	tb.Helper()
	copied, err := start(s, "")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := copied.remove(); err != nil {
			tb.Error(err)
		}
	})
	return copied
}

// Promote promotes a standby, and waits until it accepts writes.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	if out, err := s.command("pg_ctl", "promote", "--wait", "--pgdata=data").CombinedOutput(); err != nil {
		tb.Fatalf("promote PostgreSQL: %v\n%s", err, out)
	}
}

// Restart starts a stopped server on the same port and files, and waits until it has recovered and
// accepts connections.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if s.running() {
		tb.Fatal("restart PostgreSQL: it is running")
	}
	if err := s.run(); err != nil {
		tb.Fatal(err)
	}
}

// Pause makes the server hang like an unresponsive machine or network: its connections stay open,
// and new ones are accepted by the kernel only. It lasts until Resume, or until the test ends.
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() { s.Resume(tb) })
	if _, err := s.pause(); err != nil {
		tb.Fatal(err)
	}
}

// Resume resumes a paused server.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	if err := s.resume(); err != nil {
		tb.Fatal(err)
	}
}

// URL returns the URL of a database on the server.
func (s *Server) URL(database string) string { return s.url(database) }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", superuser, s.port, database)
}

func (s *Server) exec(statement string, args ...any) error {
	return execute(s.url("postgres"), statement, args...)
}

// execute runs a statement on a new connection, even after the test has ended.
func execute(address, statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statement, args...); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// NewSchema is CreateSchema for a test. The schema is dropped when the test ends.
func NewSchema(tb testing.TB, address string, settings ...string) (url string) {
	tb.Helper()
	url, drop, err := CreateSchema(address, settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := drop(); err != nil {
			tb.Error(err)
		}
	})
	return url
}

// CreateSchema creates an empty schema in an existing database, and returns a URL with it in the
// search path: on a cluster, a new database would have to be set up on every server. The sessions of
// the URL have the given settings, such as "citus.shard_count=4".
func CreateSchema(address string, settings ...string) (url string, drop func() error, err error) {
	name := fmt.Sprintf("atrium_test_%d_%d", os.Getpid(), schemas.Add(1))
	if err := execute(address, "CREATE SCHEMA "+name); err != nil {
		return "", nil, err
	}
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	url = address + separator + strings.Join(append(settings, "search_path="+name+",public"), "&")
	return url, func() error { return dropSchema(address, name) }, nil
}

// dropSchema drops a schema. On a cluster it may deadlock with tests that distribute their tables,
// so it is tried again.
func dropSchema(address, name string) error {
	for end := time.Now().Add(serverTimeout); ; {
		err := execute(address, "DROP SCHEMA "+name+" CASCADE")
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "40P01" || time.Now().After(end) {
			return err
		}
	}
}

// schemas is the number of schemas that CreateSchema has created.
var schemas atomic.Int64
