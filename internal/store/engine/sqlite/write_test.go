package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

var errRefused = errors.New("refused")

type panicked struct{ value any }

// writeConcurrently runs writes concurrently, and makes all of them wait for the first. It returns
// their errors, or the values that they panicked with. Table t of the database has the number n of
// each write that succeeded.
func writeConcurrently(t *testing.T, db engine.DB, path string, writes []func(tx engine.Tx) error) (results []any) {
	t.Helper()
	other, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	must := func(sql string) {
		t.Helper()
		if err := sqlitex.ExecuteTransient(other, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	must("BEGIN IMMEDIATE") // the first write waits for this, and the others for the first
	results = make([]any, len(writes))
	var all sync.WaitGroup
	for i, f := range writes {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					results[i] = panicked{p}
				}
			}()
			if err := db.Write(t.Context(), f); err != nil {
				results[i] = err
			}
		})
		for deadline := time.Now().Add(time.Minute); sqlite.WaitingToWrite(db) < i; {
			if time.Now().After(deadline) {
				t.Fatal("a write does not wait for the write lock")
			}
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(5 * time.Millisecond) // lets the first write poll
	must("ROLLBACK")
	all.Wait()
	return results
}

func insertNumber(tx engine.Tx, n int) error {
	_, err := tx.Exec("INSERT INTO t (n) VALUES ($1)", int64(n))
	return err
}

func numbers(t *testing.T, db engine.DB) map[int]bool {
	t.Helper()
	found := map[int]bool{}
	if err := db.Query(t.Context(), "SELECT n FROM t", nil, func(r engine.Row) error {
		found[int(r.Int(0))] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestConcurrentWritesShareACommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := openFile(t, path)
	script(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	const writes = 30
	before := db.Stats().WALBytes
	inserts := make([]func(engine.Tx) error, writes)
	for i := range inserts {
		inserts[i] = func(tx engine.Tx) error { return insertNumber(tx, i) }
	}
	for i, result := range writeConcurrently(t, db, path, inserts) {
		if result != nil {
			t.Errorf("write %d: %v", i, result)
		}
	}
	if found := numbers(t, db); len(found) != writes {
		t.Errorf("%d rows, want %d", len(found), writes)
	}
	// Each commit writes the table's page to the WAL once more.
	if pages := (db.Stats().WALBytes - before) / 4096; pages >= writes/2 {
		t.Errorf("%d writes wrote %d pages to the WAL: they did not share commits", writes, pages)
	}
}

func TestAFailedWriteIsRolledBackAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := openFile(t, path)
	script(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	fail := func(tx engine.Tx, n int) error { return errors.Join(insertNumber(tx, n), errRefused) }
	for name, failing := range map[string]struct {
		f      func(tx engine.Tx, n int) error
		panics bool
	}{
		"returns an error": {fail, false},
		"ignores an error": {func(tx engine.Tx, n int) error {
			_ = insertNumber(tx, n)
			_ = insertNumber(tx, n)
			return nil
		}, false},
		"panics": {func(tx engine.Tx, n int) error {
			_ = insertNumber(tx, n)
			panic(errRefused)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, db, "DELETE FROM t")
			var writes []func(engine.Tx) error
			for i := range 9 {
				if i%3 == 1 {
					writes = append(writes, func(tx engine.Tx) error { return insertNumber(tx, i) })
				} else { // including the first and the last write
					writes = append(writes, func(tx engine.Tx) error { return failing.f(tx, i) })
				}
			}
			results := writeConcurrently(t, db, path, writes)
			found := numbers(t, db)
			for i, result := range results {
				if want := i%3 == 1; found[i] != want || want != (result == nil) {
					t.Errorf("write %d: stored %t, result %v", i, found[i], result)
				}
			}
			if _, panicked := results[0].(panicked); panicked != failing.panics {
				t.Errorf("the caller got %v", results[0])
			}
		})
	}
}

// A write that stops waiting for the lock must not end a commit group of others.
func TestACanceledWaiterDoesNotAffectOtherWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := openFile(t, path)
	script(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			if err := db.Write(t.Context(), func(tx engine.Tx) error { return insertNumber(tx, i) }); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Microsecond)
			defer cancel()
			_ = db.Write(ctx, func(tx engine.Tx) error { return insertNumber(tx, 1000+i) })
		})
	}
	all.Wait()
	found := numbers(t, db)
	for i := range 200 {
		if !found[i] {
			t.Errorf("write %d is missing", i)
		}
	}
}
