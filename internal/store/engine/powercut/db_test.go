package powercut_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"atrium/internal/store/engine/powercut"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const dbName = "test.db"

var vfsCount atomic.Int64

// register creates a VFS on a new directory for one test. Connections opened after it are closed
// before it.
func register(t *testing.T) *powercut.FS {
	t.Helper()
	fs, err := powercut.Register(fmt.Sprintf("powercut%d", vfsCount.Add(1)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	})
	return fs
}

// open opens the test database through fs and runs the pragmas.
func open(t *testing.T, fs *powercut.FS, pragmas ...string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlite.OpenConn(fs.URI(dbName), sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	for _, p := range pragmas {
		run(t, conn, "PRAGMA "+p)
	}
	return conn
}

func run(t *testing.T, conn *sqlite.Conn, query string, args ...any) {
	t.Helper()
	if err := exec(conn, query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func exec(conn *sqlite.Conn, query string, args ...any) error {
	return sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{Args: args})
}

// column returns the first column of a query.
func column(conn *sqlite.Conn, query string) ([]string, error) {
	var rows []string
	err := sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error {
			rows = append(rows, stmt.ColumnText(0))
			return nil
		},
	})
	return rows, err
}

const createTable = `CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB NOT NULL)`

// insert commits a row with the given id and a value of size bytes.
func insert(conn *sqlite.Conn, id, size int) error {
	return exec(conn, `INSERT INTO t (id, v) VALUES (?, randomblob(?))`, id, size)
}

// recovered is the state that SQLite recovers from a snapshot.
type recovered struct {
	integrity string // "ok" or the error
	ids       map[string]bool
}

// restart takes a snapshot, the worst case for seed 0, and opens it as a restarted service would,
// with the default VFS.
func restart(t *testing.T, fs *powercut.FS, seed uint64) recovered {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snapshot")
	var err error
	if seed == 0 {
		err = fs.Snapshot(dir)
	} else {
		err = fs.SnapshotSubset(dir, seed)
	}
	if err != nil {
		t.Error(err)
		return recovered{integrity: "no snapshot"}
	}
	conn, err := sqlite.OpenConn(filepath.Join(dir, dbName), sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		return recovered{integrity: err.Error()}
	}
	defer func() { _ = conn.Close() }()
	check, err := column(conn, `PRAGMA integrity_check`)
	if err != nil || len(check) != 1 || check[0] != "ok" {
		return recovered{integrity: fmt.Sprint(check, err)}
	}
	r := recovered{integrity: "ok", ids: map[string]bool{}}
	tables, err := column(conn, `SELECT name FROM sqlite_schema WHERE name = 't'`)
	if err == nil && len(tables) == 0 {
		return r // the power cut came before the table was durable
	}
	ids, err := column(conn, `SELECT id FROM t`)
	if err != nil {
		return recovered{integrity: err.Error()}
	}
	for _, id := range ids {
		r.ids[id] = true
	}
	return r
}

// has reports whether all rows from..to exist.
func (r recovered) has(from, to int) bool {
	for id := from; id <= to; id++ {
		if !r.ids[strconv.Itoa(id)] {
			return false
		}
	}
	return true
}
