// Package postgrestest starts PostgreSQL for tests: a throw-away cluster on a free
// port of 127.0.0.1, as durable as PostgreSQL is by default, whose files and
// processes are gone when the tests are.
//
// Its collation is a language's, on purpose: that text is compared by its bytes
// must be the product's doing, not that of the system it was tested on.
package postgrestest

import (
	"context"
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
)

// patience is how long a server may take for anything that is asked of it. Much
// less is usual; a crash recovery on a busy disk can need it.
const patience = time.Minute

// A Server is a running cluster. NewDatabase and Terminate may be called
// concurrently; what starts, stops and pauses it may not.
type Server struct {
	bin        string              // the folder of initdb and postgres
	owner      *syscall.Credential // of files and processes; nil for this process's own user
	settings   []string            // beside those of every server
	dir        string
	port       int
	postmaster *os.Process
	ended      chan struct{} // closed when the postmaster has ended
	databases  atomic.Int64  // made so far
}

// shared is the server that the tests of this process have in common.
var shared struct {
	sync.Mutex
	removed bool // when the tests have ended: Main runs them
	server  *Server
	err     error
}

// Main runs the tests, and then stops the server of Shared and removes its files:
//
//	func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }
//
// A process that panics or is killed takes its servers with it (on Linux), but
// leaves their files in TMPDIR.
func Main(m *testing.M) (code int) {
	shared.Lock()
	shared.removed = true
	shared.Unlock()
	code = m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		if err := shared.server.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "postgrestest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// Shared returns the server that the tests of this process have in common, each
// with databases of its own. The first call starts it. It is not for tests that
// kill it or pause it: these have Start. With -short, Shared and Start skip the test.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	skipIfShort(tb)
	shared.Lock()
	defer shared.Unlock()
	if !shared.removed {
		tb.Fatal("postgrestest.Shared needs a TestMain that calls postgrestest.Main: nobody would remove the server's files")
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
		tb.Skip("-short leaves out what needs PostgreSQL")
	}
}

// Start returns a server of the test's own, which ends with the test.
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

// Run starts a server with more settings, such as "shared_buffers=1GB", for a command
// that measures one. Close ends it and removes its files.
func Run(settings ...string) (*Server, error) { return start(nil, "", settings...) }

// Close ends a server that Run has started.
func (s *Server) Close() error { return s.remove() }

// Bin returns the folder of the server's programs.
func (s *Server) Bin() string { return s.bin }

// Create makes an empty database and returns its address.
func (s *Server) Create(name string) (url string, err error) {
	// Nobody can connect to template0, so nobody can be in the way of its copying.
	return s.url(name), s.exec("CREATE DATABASE " + name + " TEMPLATE template0")
}

// NewDatabase makes an empty database and returns its address. It is dropped when
// the test ends, whoever is still connected to it.
func (s *Server) NewDatabase(tb testing.TB) (url string) {
	tb.Helper()
	name := "test" + strconv.FormatInt(s.databases.Add(1), 10)
	url, err := s.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if !s.running() {
			return // it goes with the server that the test killed
		}
		if err := s.exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return url
}

// Port returns the port of 127.0.0.1 where the server listens, the same after a
// Restart.
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

// Terminate ends every connection to the server, as a failover or an administrator
// does. It returns when they have ended.
func (s *Server) Terminate(tb testing.TB) {
	tb.Helper()
	err := s.exec("SELECT pg_terminate_backend(pid, $1) FROM pg_stat_activity"+
		" WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()", patience.Milliseconds())
	if err != nil {
		tb.Fatal(err)
	}
}

// Kill ends the server as a power cut of its machine does, but for what the
// operating system had still to write: all its processes at once, without a chance
// to do anything more. They are gone when it returns.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.kill(); err != nil {
		tb.Fatal(err)
	}
}

// Stop ends the server in good order, as `pg_ctl stop -m fast` does.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	if err := s.stop(); err != nil {
		tb.Fatal(err)
	}
}

// Standby starts a copy of the server that follows it by streaming replication, and
// calls itself by a name that synchronous_standby_names can have. It ends with the test.
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

// BaseBackup returns a server of its own on a copy of all that this one has, made while
// it runs. It ends with the test.
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

// Promote makes a standby a primary, which accepts writes when Promote returns.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	if out, err := s.command("pg_ctl", "promote", "--wait", "--pgdata=data").CombinedOutput(); err != nil {
		tb.Fatalf("promote PostgreSQL: %v\n%s", err, out)
	}
}

// Restart starts a server that has ended, on the same port and the same files. It
// has recovered and accepts connections when Restart returns.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if s.running() {
		tb.Fatal("restart PostgreSQL: it is running")
	}
	if err := s.run(); err != nil {
		tb.Fatal(err)
	}
}

// Pause makes the server hang, as a machine or a network does that answers no
// more: its connections stay open, and new ones are made but not heard. Resume
// ends this, or the end of the test.
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() { s.Resume(tb) })
	if _, err := s.pause(); err != nil {
		tb.Fatal(err)
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	if err := s.resume(); err != nil {
		tb.Fatal(err)
	}
}

// URL returns the address of a database on the server.
func (s *Server) URL(database string) string { return s.url(database) }

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable", superuser, s.port, database)
}

func (s *Server) exec(statement string, args ...any) error {
	return execute(s.url("postgres"), statement, args...)
}

// execute runs a statement on a connection of its own, also when the test has ended.
func execute(address, statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// NewSchema makes an empty schema in a database that exists, and returns the address
// whose sessions work in it: for a cluster, where a new database would have to be
// set up on every server. It is dropped when the test ends.
func NewSchema(tb testing.TB, address string) (url string) {
	tb.Helper()
	name := fmt.Sprintf("atrium_test_%d_%d", os.Getpid(), schemas.Add(1))
	if err := execute(address, "CREATE SCHEMA "+name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := execute(address, "DROP SCHEMA "+name+" CASCADE"); err != nil {
			tb.Error(err)
		}
	})
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + "search_path=" + name + ",public"
}

// schemas counts those that NewSchema has made.
var schemas atomic.Int64
