package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

// A lossCase takes a file of a database away while it is open, and puts it back.
type lossCase struct{ lose, restore func() error }

// losses are the ways to lose the file at path, which is in a folder of its own.
func losses(path string) map[string]lossCase {
	kept, folder := path+".kept", filepath.Dir(path)
	putBack := func() error { return os.Rename(kept, path) }
	return map[string]lossCase{
		"moved away":            {func() error { return os.Rename(path, kept) }, putBack},
		"removed":               {func() error { return errors.Join(os.Link(path, kept), os.Remove(path)) }, putBack},
		"replaced":              {func() error { return errors.Join(os.Rename(path, kept), os.WriteFile(path, []byte("other"), 0o600)) }, putBack},
		"moved with its folder": {func() error { return os.Rename(folder, folder+".kept") }, func() error { return os.Rename(folder+".kept", folder) }},
	}
}

// insert returns a write of a row.
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

// What is acknowledged is in the files that the next process opens.
func TestNothingIsAcknowledgedOnceAFileIsRemovedOrReplaced(t *testing.T) {
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
					t.Errorf("a commit during which it is lost: %v", err)
				}
				if err := write(func(engine.Tx) error {
					t.Error("a write was begun")
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
				if err := db.Read(t.Context(), func(engine.Tx) error { // has the open connection
					return db.Query(t.Context(), "SELECT n FROM rows", nil, func(engine.Row) error { return nil })
				}); engine.ClassOf(err) != engine.Unavailable || err == nil {
					t.Errorf("a read on a new connection: %v", err)
				}

				if err := loss.restore(); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(write(insert(3)), db.CheckFiles()); err != nil {
					t.Errorf("once it is back: %v", err)
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

// A file that is lost while nothing is written is found before the next write begins.
func TestAFileThatIsFoundMissingRefusesTheNextWrite(t *testing.T) {
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
		t.Error("the check finds nothing")
	}
	if err := db.Write(t.Context(), func(engine.Tx) error {
		t.Error("a write was begun")
		return nil
	}); engine.ClassOf(err) != engine.Unavailable || err == nil {
		t.Errorf("a write: %v", err)
	}
}

// What was acknowledged is saved when the log alone was removed: closing moves it to the database.
func TestARemovedLogIsMovedToTheDatabaseByClosing(t *testing.T) {
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
		t.Errorf("%d rows are there, want 1", n)
	}
}

// A database that took the place of one that is open keeps all it has when that is closed.
func TestClosingALostDatabaseLeavesTheOneInItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "atrium.db")
	open := func() engine.DB {
		db, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	lost := open()
	if err := lost.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("CREATE TABLE rows (n INTEGER)") }); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+".lost"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	made := open()
	if err := errors.Join(
		made.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("CREATE TABLE rows (n INTEGER)") }),
		made.Write(t.Context(), insert(1)),
	); err != nil {
		t.Fatal(err)
	}
	log, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
	if now, err := os.Stat(path + "-wal"); err != nil || !os.SameFile(log, now) || now.Size() != log.Size() {
		t.Errorf("the log of the database in its place: %v", err)
	}
	if err := made.Write(t.Context(), insert(2)); err != nil {
		t.Error(err)
	}
	if n := rowsIn(t, made); n != 2 {
		t.Errorf("%d rows are there, want 2", n)
	}
	if err := made.Close(); err != nil {
		t.Error(err)
	}
}

// Every commit pays for one check.
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
