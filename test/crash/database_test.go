package crash

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
)

// A database is a database that servers use.
type database struct {
	url     string
	tenants []*tenant

	// read returns its content, once the servers have ended.
	read func(t *testing.T) map[*tenant]*content
}

// engines create a database with two tenants, on each engine.
var engines = map[string]func(t *testing.T) *database{
	"sqlite":   newFile,
	"postgres": func(t *testing.T) *database { return newRemote(t, postgrestest.Shared(t)) },
}

func newFile(t *testing.T) *database {
	t.Helper()
	return newFileIn(t, t.TempDir())
}

func newFileIn(t *testing.T, dir string) *database {
	t.Helper()
	path := filepath.Join(dir, "atrium.db")
	db := &database{url: "sqlite:" + path}
	db.make(t)
	db.read = func(t *testing.T) map[*tenant]*content {
		t.Helper()
		return readCopy(t, path, db.tenants)
	}
	return db
}

// password is in the URL of every database on a server, which does not require it. It must
// never be logged.
const password = "open-sesame"

func newRemote(t *testing.T, server *postgrestest.Server) *database {
	t.Helper()
	return remote(t, server.NewDatabase(t))
}

// newRemoteIn is newRemote for a database with its files in a directory.
func newRemoteIn(t *testing.T, server *postgrestest.Server, dir string) *database {
	t.Helper()
	space := strings.ReplaceAll(filepath.Base(dir), "-", "_")
	var maintenance string
	run := func(statement string) {
		conn, err := pgx.Connect(context.WithoutCancel(t.Context()), maintenance)
		if err == nil {
			_, err = conn.Exec(context.WithoutCancel(t.Context()), statement)
			_ = conn.Close(context.WithoutCancel(t.Context()))
		}
		if err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { run("DROP TABLESPACE " + space) }) // after the database is dropped
	address := server.NewDatabase(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	maintenance = u.String()
	run("CREATE TABLESPACE " + space + " LOCATION '" + dir + "'")
	run("ALTER DATABASE " + name + " SET TABLESPACE " + space)
	return remote(t, address)
}

// remote returns the database at a URL.
func remote(t *testing.T, address string) *database {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	db := &database{url: u.String()}
	db.make(t)
	db.read = func(t *testing.T) map[*tenant]*content {
		t.Helper()
		db.waitForNobody(t)
		s, err := store.Open(t.Context(), db.url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := readStore(t.Context(), s, db.tenants)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	return db
}

// make creates the schema and the tenants.
func (db *database) make(t *testing.T) {
	t.Helper()
	s, err := store.Open(t.Context(), db.url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db.tenants = createTenants(t, s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// connect opens a session for the test on a database server.
func (db *database) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // its server may be gone
	return conn
}

// sessions counts the sessions of a database server that match a condition, without the
// test's own.
func (db *database) sessions(t *testing.T, condition string) (n int) {
	t.Helper()
	conn := db.connect(t)
	defer func() { _ = conn.Close(t.Context()) }()
	err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND datname = current_database() AND pid <> pg_backend_pid() AND `+condition).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitForNobody waits until the sessions of ended servers are closed.
func (db *database) waitForNobody(t *testing.T) {
	t.Helper()
	waitUntil(t, "all sessions on the database have ended", startLimit, func() bool { return db.sessions(t, "true") == 0 })
}

// waitUntil waits until a condition holds.
func waitUntil(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
