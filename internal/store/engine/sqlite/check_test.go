package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

func openFile(t *testing.T, path string) engine.DB {
	t.Helper()
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// script runs statements in a transaction.
func script(t *testing.T, db engine.DB, sql string) {
	t.Helper()
	if err := db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(sql) }); err != nil {
		t.Fatal(err)
	}
}

const sample = `
	CREATE TABLE parents (id INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL) STRICT;
	CREATE TABLE children (id INTEGER NOT NULL PRIMARY KEY, parent INTEGER NOT NULL REFERENCES parents (id)) STRICT;
	CREATE INDEX parents_by_name ON parents (name);
	WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
		INSERT INTO parents SELECT i, hex(randomblob(20)) FROM n;
	INSERT INTO children SELECT id, id FROM parents;`

// rootOf returns the number of the root page of a table or an index, from 1.
func rootOf(t *testing.T, db engine.DB, name string) (page int64) {
	t.Helper()
	err := engine.Find(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return db.Query(t.Context(), sql, args, each)
	}, "SELECT rootpage FROM sqlite_schema WHERE name = $1", engine.Args{name}, func(r engine.Row) { page = r.Int(0) })
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// overwrite writes to a file without SQLite's locks.
func overwrite(t *testing.T, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(with, at)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

const page = 4096

func TestCheckFindsDamage(t *testing.T) {
	for name, c := range map[string]struct {
		damage      func(t *testing.T, db engine.DB, path string)
		quick, full bool
	}{
		"nothing":                        {func(*testing.T, engine.DB, string) {}, false, false},
		"a zeroed root page of a table":  {zeros("parents"), true, true},
		"a zeroed root page of an index": {zeros("parents_by_name"), true, true},
		"a zeroed page": {func(t *testing.T, _ engine.DB, path string) {
			overwrite(t, path, 20*page, make([]byte, page))
		}, false, true},
		"a foreign key violation": {func(t *testing.T, _ engine.DB, path string) {
			c, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite) // does not enforce foreign keys
			if err == nil {
				err = errors.Join(sqlitex.ExecuteTransient(c, "DELETE FROM parents WHERE id = 7", nil), c.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := newSample(t)
			db := openFile(t, path)
			c.damage(t, db, path)
			for full, want := range map[bool]bool{false: c.quick, true: c.full} {
				found, err := db.Check(t.Context(), full)
				if err != nil || (len(found) > 0) != want {
					t.Errorf("full %v: %v, %v", full, found, err)
				}
			}
		})
	}
}

// newSample creates a closed database with the sample data.
func newSample(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "sample.db")
	sampled.Do(func() {
		db := openFile(t, path)
		script(t, db, sample)
		err := db.Close()
		if err == nil {
			sampleFile, err = os.ReadFile(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if err := os.WriteFile(path, sampleFile, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The sample database is created only once.
var (
	sampled    sync.Once
	sampleFile []byte
)

// zeros zeroes the root page of a table or an index.
func zeros(name string) func(t *testing.T, db engine.DB, path string) {
	return func(t *testing.T, db engine.DB, path string) {
		overwrite(t, path, (rootOf(t, db, name)-1)*page, make([]byte, page))
	}
}

func TestCheckStopsWhenItsContextIsCanceled(t *testing.T) {
	db := openFile(t, newSample(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Check(ctx, true); engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("a canceled check: %v", err)
	}
	if found, err := db.Check(t.Context(), true); err != nil || len(found) > 0 {
		t.Errorf("the next check: %v, %v", found, err)
	}
}
