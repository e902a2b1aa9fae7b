package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

// A lossCase removes a file of an open database, and restores it.
type lossCase struct{ lose, restore func() error }

// losses returns the ways to lose the file at path, which is in its own directory.
func losses(path string) map[string]lossCase {
	kept, folder := path+".kept", filepath.Dir(path)
	putBack := func() error { return os.Rename(kept, path) }
	return map[string]lossCase{
		"moved away": {func() error { return os.Rename(path, kept) }, putBack},
		"removed":    {func() error { return errors.Join(os.Link(path, kept), os.Remove(path)) }, putBack},
		"replaced": {func() error {
			return errors.Join(os.Rename(path, kept), os.WriteFile(path, []byte("other"), 0o600))
		}, putBack},
		"moved with its directory": {
			func() error { return os.Rename(folder, folder+".kept") },
			func() error { return os.Rename(folder+".kept", folder) },
		},
	}
}

// insert returns a write that inserts a row.
func insert(n int64) func(engine.Tx) error {
	return func(tx engine.Tx) error {
		_, err := tx.Exec("INSERT INTO rows (n) VALUES ($1)", n)
		return err
	}
}

func rowsIn(t *testing.T, db engine.DB) (n int64) {
	t.Helper()
	if err := engine.Find(func(sql string, args engine.Args, each func(engine.Row) error) error {
		return db.Query(t.Context(), sql, args, each)
	}, "SELECT count(*) FROM rows", nil, func(r engine.Row) { n = r.Int(0) }); err != nil {
		t.Errorf("a read: %v", err)
	}
	return n
}

// Acknowledged data is in the files that the next process opens.
func TestNoWriteIsAcknowledgedAfterAFileIsRemovedOrReplaced(t *testing.T) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		for name := range losses("") {
			t.Run("atrium.db"+suffix+" is "+name, func(t *testing.T) {
				folder := filepath.Join(t.TempDir(), "data")
				if err := os.Mkdir(folder, 0o700); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(folder, "atrium.db")
				loss := losses(path + suffix)[name]
				db, err := sqlite.Open(path, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				write := func(f func(engine.Tx) error) error { return db.Write(context.Background(), f) }
				if err := write(func(tx engine.Tx) error { return tx.Script("CREATE TABLE rows (n INTEGER)") }); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(write(insert(1)), db.CheckFiles()); err != nil || rowsIn(t, db) != 1 {
					t.Fatalf("before the loss: %v", err)
				}

				err = write(func(tx engine.Tx) error { return errors.Join(insert(2)(tx), loss.lose()) })
				if engine.ClassOf(err) != engine.Uncertain {
					t.Errorf("a commit during the loss: %v", err)
				}
				if err := write(func(engine.Tx) error {
					t.Error("a write began")
					return nil
				}); engine.ClassOf(err) != engine.Unavailable || err == nil {
					t.Errorf("a write afterwards: %v", err)
				}
				if err := db.CheckFiles(); engine.ClassOf(err) != engine.Unavailable || err == nil {
					t.Errorf("a check: %v", err)
				}
				if n := rowsIn(t, db); n != 2 {
					t.Errorf("a read finds %d rows", n)
				}
				if err := db.Read(t.Context(), func(engine.Tx) error { // uses the open connection
					return db.Query(t.Context(), "SELECT n FROM rows", nil, func(engine.Row) error { return nil })
				}); engine.ClassOf(err) != engine.Unavailable || err == nil {
					t.Errorf("a read on a new connection: %v", err)
				}

				if err := loss.restore(); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(write(insert(3)), db.CheckFiles()); err != nil {
					t.Errorf("after the file is restored: %v", err)
				}
				again, err := sqlite.Open(path, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if n := rowsIn(t, again); n != 3 {
					t.Errorf("another connection finds %d rows, want 3", n)
				}
				if err := errors.Join(again.Close(), db.Close()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A file that is lost while the database is idle is detected before the next write begins.
func TestAMissingFileRefusesTheNextWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "atrium.db")
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := os.Rename(path, path+".kept"); err != nil {
		t.Fatal(err)
	}
	if db.CheckFiles() == nil {
		t.Error("the check did not detect the loss")
	}
	if err := db.Write(t.Context(), func(engine.Tx) error {
		t.Error("a write began")
		return nil
	}); engine.ClassOf(err) != engine.Unavailable || err == nil {
		t.Errorf("a write: %v", err)
	}
}

// If only the WAL is removed, Close saves the acknowledged data: it backfills the WAL.
func TestClosingBackfillsARemovedWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "atrium.db")
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("CREATE TABLE rows (n INTEGER)") }),
		db.Write(t.Context(), insert(1)),
		os.Remove(path+"-wal"), db.Close(),
	); err != nil {
		t.Fatal(err)
	}
	again, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if n := rowsIn(t, again); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// A database that replaced an open one loses nothing when the old one is closed.
func TestClosingAReplacedDatabaseLeavesTheNewOneUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "atrium.db")
	open := func() engine.DB {
		db, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	lost := open()
	script(t, lost, "CREATE TABLE rows (n INTEGER)")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+".lost"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	replacement := open()
	if err := errors.Join(
		replacement.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("CREATE TABLE rows (n INTEGER)") }),
		replacement.Write(t.Context(), insert(1)),
	); err != nil {
		t.Fatal(err)
	}
	wal, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
	if now, err := os.Stat(path + "-wal"); err != nil || !os.SameFile(wal, now) || now.Size() != wal.Size() {
		t.Errorf("the WAL of the replacement has changed: %v", err)
	}
	if err := replacement.Write(t.Context(), insert(2)); err != nil {
		t.Error(err)
	}
	if n := rowsIn(t, replacement); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if err := replacement.Close(); err != nil {
		t.Error(err)
	}
}

// Every commit runs one check.
func BenchmarkCheckFiles(b *testing.B) {
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "atrium.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	b.ReportAllocs()
	for b.Loop() {
		if err := db.CheckFiles(); err != nil {
			b.Fatal(err)
		}
	}
}

// A connection that is opened while a file is replaced reads the other file, which may be no database.
func TestFilesThatAreReplacedWhileAConnectionOpensAreNotDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	replaced := losses(path)["replaced"]
	for range 200 {
		db := openFile(t, path)
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				_ = db.Read(t.Context(), func(tx engine.Tx) error {
					return tx.Query("SELECT 1", nil, func(engine.Row) error { return nil })
				})
			})
		}
		if err := errors.Join(replaced.lose(), replaced.restore()); err != nil {
			t.Fatal(err)
		}
		readers.Wait()
		if err := db.Damage(); err != nil {
			t.Fatalf("the database counts as damaged: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
