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

type panicked struct{ with any }

// writeTogether runs writes at the same time on a database whose table t has the
// number n of each that was kept, and returns their errors, or what they panicked with.
func writeTogether(t *testing.T, db engine.DB, path string, writes []func(tx engine.Tx) error) (results []any) {
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
	must("BEGIN IMMEDIATE") // so that the first one has to wait, and the others for it
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
				t.Fatal("a write does not wait for its turn")
			}
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(5 * time.Millisecond) // the first one, too
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

func TestWritesThatWaitShareACommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := openFile(t, path)
	script(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	const writes = 30
	before := db.Stats().LogBytes
	inserts := make([]func(engine.Tx) error, writes)
	for i := range inserts {
		inserts[i] = func(tx engine.Tx) error { return insertNumber(tx, i) }
	}
	for i, result := range writeTogether(t, db, path, inserts) {
		if result != nil {
			t.Errorf("write %d: %v", i, result)
		}
	}
	if found := numbers(t, db); len(found) != writes {
		t.Errorf("%d rows, want %d", len(found), writes)
	}
	// Each commit writes the page of the table to the log once more.
	if pages := (db.Stats().LogBytes - before) / 4096; pages >= writes/2 {
		t.Errorf("%d writes have put %d pages into the log: they have not shared commits", writes, pages)
	}
}

func TestAWriteThatFailsLeavesNothingAndTakesNobodyAlong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := openFile(t, path)
	script(t, db, "CREATE TABLE t (n INTEGER PRIMARY KEY)")
	refuse := func(tx engine.Tx, n int) error { return errors.Join(insertNumber(tx, n), errRefused) }
	for name, fails := range map[string]struct {
		f     func(tx engine.Tx, n int) error
		fatal bool // it panics
	}{
		"refuses": {refuse, false},
		"passes over an error": {func(tx engine.Tx, n int) error {
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
				} else { // among them the first and the last one
					writes = append(writes, func(tx engine.Tx) error { return fails.f(tx, i) })
				}
			}
			results := writeTogether(t, db, path, writes)
			found := numbers(t, db)
			for i, result := range results {
				if kept := i%3 == 1; found[i] != kept || kept != (result == nil) {
					t.Errorf("write %d: there %t, result %v", i, found[i], result)
				}
			}
			if _, panicked := results[0].(panicked); panicked != fails.fatal {
				t.Errorf("the caller has %v", results[0])
			}
		})
	}
}

// Who stops waiting for the turn must not take along those whose transaction is open.
func TestAWriteThatStopsWaitingEndsNoOther(t *testing.T) {
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
			t.Errorf("write %d is not there", i)
		}
	}
}
