package postgrestest_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium/internal/store/engine/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // its server may be gone
	return conn
}

func run(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// value returns the single value of a query's result.
func value[T any](t *testing.T, conn *pgx.Conn, query string) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func TestTheServerHasASupportedVersion(t *testing.T) {
	conn := connect(t, postgrestest.Shared(t).NewDatabase(t))
	if v := value[int](t, conn, `SELECT current_setting('server_version_num')::int`); v < 150000 {
		t.Errorf("the server has version %d, want 150000 or later", v)
	}
}

func TestCommitsAreSynced(t *testing.T) {
	conn := connect(t, postgrestest.Shared(t).NewDatabase(t))
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if v := value[string](t, conn, `SHOW `+setting); v != "on" {
			t.Errorf("%s is %s", setting, v)
		}
	}
}

func TestTheCollationDiffersFromByteOrder(t *testing.T) {
	conn := connect(t, postgrestest.Shared(t).NewDatabase(t))
	if !value[bool](t, conn, `SELECT 'a' < 'B'`) {
		t.Error("a sorts after B")
	}
	if value[bool](t, conn, `SELECT 'a' < 'B' COLLATE "C"`) {
		t.Error("a sorts before B by bytes")
	}
}

func TestDatabasesAreIsolated(t *testing.T) {
	server := postgrestest.Shared(t)
	one, other := connect(t, server.NewDatabase(t)), connect(t, server.NewDatabase(t))
	run(t, one, `CREATE TABLE t (v INT)`)
	if !value[bool](t, other, `SELECT to_regclass('t') IS NULL`) {
		t.Error("the other database has the table")
	}
}

func TestDatabasesAreCreatedConcurrentlyAndDropped(t *testing.T) {
	server := postgrestest.Shared(t)
	admin := connect(t, server.NewDatabase(t))
	t.Run("tests", func(t *testing.T) {
		for range 8 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				connect(t, server.NewDatabase(t))
			})
		}
	})
	const count = `SELECT count(*) FROM pg_database WHERE datname ~ '^test'`
	if n := value[int](t, admin, count); n != 1 {
		t.Errorf("%d databases, want 1", n)
	}
}

func TestTerminateClosesConnections(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.NewDatabase(t)
	conn := connect(t, url)
	server.Terminate(t)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection is still open")
	}
	connect(t, url)
}

func TestCommitsSurviveAKill(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.NewDatabase(t)
	port := server.Port()
	for round := range 3 {
		conn := connect(t, url)
		run(t, conn, `CREATE TABLE IF NOT EXISTS t (v INT)`)
		run(t, conn, `INSERT INTO t VALUES (1)`)
		run(t, conn, `BEGIN`)
		run(t, conn, `INSERT INTO t VALUES (2)`)
		server.Kill(t)
		if err := conn.Ping(t.Context()); err == nil {
			t.Fatal("the connection is still open")
		}
		if _, err := pgx.Connect(t.Context(), url); err == nil {
			t.Fatal("the killed server accepts connections")
		}
		server.Restart(t)
		conn = connect(t, url)
		if n := value[int](t, conn, `SELECT sum(v) FROM t`); n != round+1 || server.Port() != port {
			t.Fatalf("%d commits on port %d, want %d on port %d\n%s", n, server.Port(), round+1, port, server.Log())
		}
	}
}

func TestAPausedServerHangsUntilItIsResumed(t *testing.T) {
	server := postgrestest.Start(t)
	conn := connect(t, server.NewDatabase(t))
	server.Pause(t)
	response := make(chan error, 1)
	go func() { response <- conn.Ping(t.Context()) }()
	select {
	case err := <-response:
		t.Fatalf("the paused server responded: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	server.Resume(t)
	if err := <-response; err != nil {
		t.Error(err)
	}
}

func TestAPausedServerCanBeKilledAndRemoved(t *testing.T) {
	server := postgrestest.Start(t)
	url := server.NewDatabase(t)
	conn := connect(t, url)
	server.Pause(t)
	server.Kill(t)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection is still open")
	}
	server.Restart(t)
	connect(t, url)
	server.Pause(t)
}

// All files of a server are in TMPDIR, which the test sets. An unprivileged user must be able to
// reach it.
func TestRemovedServersLeaveNoFiles(t *testing.T) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	t.Run("test", func(t *testing.T) {
		postgrestest.Start(t).NewDatabase(t)
		server := postgrestest.Start(t)
		server.NewDatabase(t)
		server.Kill(t)
		if n := len(files()); n != 2 {
			t.Errorf("%d directories, want one per server", n)
		}
	})
	if left := files(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestTheServerRunsAsAnUnprivilegedUser(t *testing.T) {
	conn := connect(t, postgrestest.Shared(t).NewDatabase(t))
	info, err := os.Stat(value[string](t, conn, `SHOW data_directory`))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid == 0 || info.Mode().Perm() != 0o700 {
		t.Errorf("the files belong to user %d and have mode %o", uid, info.Mode().Perm())
	}
}
