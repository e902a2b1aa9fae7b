package sqlite_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

// copyFile copies a file if there is one.
func copyFile(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newLeft makes a database as a process leaves it that is killed: what the statements
// did is in the write-ahead log alone.
func newLeft(t *testing.T, sql string) (path string) {
	t.Helper()
	return leave(t, newSample(t), sql)
}

// leave is newLeft for another database than the sample.
func leave(t *testing.T, from, sql string) (path string) {
	t.Helper()
	db := openFile(t, from)
	script(t, db, sql)
	path = filepath.Join(t.TempDir(), "left.db")
	for _, end := range []string{"", "-wal", "-shm"} {
		copyFile(t, path+end, from+end)
	}
	return path
}

func count(t *testing.T, db engine.DB, table string) (n int64) {
	t.Helper()
	if err := db.Query(t.Context(), "SELECT count(*) FROM "+table, nil, func(r engine.Row) error {
		n = r.Int(0)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// What is found to be damaged is refused with a word on what to do, and left as it
// is: a second look, or a better program, finds what the first one did.
func TestDamagedFileIsRefusedAndLeftAsItIs(t *testing.T) {
	const grown = "INSERT INTO parents SELECT id + 10000, name FROM parents"
	for name, damage := range map[string]func(t *testing.T) (path string){
		"what is no database": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "letter.txt")
			if err := os.WriteFile(path, bytes.Repeat([]byte("Dear reader, "), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"a header of zeros": func(t *testing.T) string {
			path := newSample(t)
			overwrite(t, path, 0, make([]byte, 100))
			return path
		},
		"a file that was cut off": func(t *testing.T) string {
			path := newSample(t)
			if err := os.Truncate(path, 10*page); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"a table that begins on zeros": func(t *testing.T) string {
			path := newSample(t)
			db := openFile(t, path)
			at := rootOf(t, db, "children")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			overwrite(t, path, (at-1)*page, make([]byte, page))
			return path
		},
		"a page of zeros after a crash": func(t *testing.T) string {
			path := newLeft(t, "DELETE FROM children WHERE id = 1")
			overwrite(t, path, 20*page, make([]byte, page))
			return path
		},
		"the log of another database": func(t *testing.T) string {
			path := newLeft(t, grown)
			from := newSample(t)
			db := openFile(t, from)
			script(t, db, "DROP TABLE children; DELETE FROM parents WHERE id % 3 = 0; CREATE TABLE others (id INTEGER NOT NULL PRIMARY KEY) STRICT")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			copyFile(t, path+"-wal", leave(t, from, grown)+"-wal")
			return path
		},
		"a log without its database": func(t *testing.T) string {
			path := newLeft(t, grown)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"a log beside an empty file": func(t *testing.T) string {
			path := newLeft(t, grown)
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			return path
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := damage(t)
			before := contents(t, path)
			for range 2 {
				db, err := sqlite.Open(path, sqlite.Options{CheckAfterCrash: true})
				if err == nil {
					_ = db.Close()
					t.Fatal("it was opened")
				}
				if engine.ClassOf(err) != engine.Corrupt {
					t.Errorf("the error is of class %v", engine.ClassOf(err))
				}
				for _, word := range []string{path, "restore a backup", ".recover"} {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q does not say %q", err, word)
					}
				}
				after := contents(t, path)
				for end, was := range before {
					if now := after[end]; !bytes.Equal(now, was) {
						t.Errorf("the file %s was changed: %d bytes, were %d", end, len(now), len(was))
					}
				}
				if (after[""] == nil) != (before[""] == nil) {
					t.Error("a file was made where there was none")
				}
			}
		})
	}
}

// contents are those of a database file and its log, "" and "-wal", nil for one that is
// not there.
func contents(t *testing.T, path string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			all[end] = b
		}
	}
	return all
}

// What a crash leaves is no damage: the log ends in the middle of what was being
// written, or the memory that processes share is not the log's.
func TestWhatACrashLeavesIsOpened(t *testing.T) {
	const first, second = "INSERT INTO parents VALUES (-1, '')", "INSERT INTO parents VALUES (-2, '')"
	log := func(path string) int64 { return int64(len(contents(t, path)["-wal"])) }
	for name, c := range map[string]struct {
		leave func(t *testing.T) (path string)
		rows  int64
	}{
		"all": {func(t *testing.T) string { return newLeft(t, first+";"+second) }, 2002},
		"a log with a torn end": {func(t *testing.T) string {
			path := newLeft(t, first)
			if err := os.Truncate(path+"-wal", log(path)-page/2); err != nil {
				t.Fatal(err)
			}
			return path
		}, 2000},
		"a log with garbage at its end": {func(t *testing.T) string {
			path := newLeft(t, first)
			overwrite(t, path+"-wal", log(path), bytes.Repeat([]byte("garbage"), 3*page))
			return path
		}, 2001},
		"a log of half a header": {func(t *testing.T) string {
			path := newLeft(t, first)
			if err := os.Truncate(path+"-wal", 16); err != nil {
				t.Fatal(err)
			}
			return path
		}, 2000},
		"an index of a log that is gone": {func(t *testing.T) string {
			path := newLeft(t, first)
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
			return path
		}, 2000},
		"an index of garbage": {func(t *testing.T) string {
			path := newLeft(t, first)
			overwrite(t, path+"-shm", 0, bytes.Repeat([]byte("garbage"), page))
			return path
		}, 2001},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.leave(t)
			db, err := sqlite.Open(path, sqlite.Options{CheckAfterCrash: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if n := count(t, db, "parents"); n != c.rows {
				t.Errorf("%d rows, want %d", n, c.rows)
			}
			script(t, db, "INSERT INTO parents VALUES (-3, '')")
			if found, err := db.Check(t.Context(), true); err != nil || len(found) > 0 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// Damage that is met while the database is in use ends writing, and nothing else.
func TestDamageThatIsMetEndsWritesAndNoOtherReads(t *testing.T) {
	path := newSample(t)
	db := openFile(t, path)
	zeros("children")(t, db, path)
	for range 2 {
		if n := count(t, db, "parents"); n != 2000 {
			t.Errorf("%d rows of a sound table", n)
		}
		err := db.Query(t.Context(), "SELECT id FROM children", nil, func(engine.Row) error { return nil })
		if engine.ClassOf(err) != engine.Corrupt || engine.ClassOf(db.Damage()) != engine.Corrupt {
			t.Errorf("a read of a damaged table: %v, noted: %v", err, db.Damage())
		}
		err = db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("INSERT INTO parents VALUES (-1, '')") })
		if engine.ClassOf(err) != engine.Unavailable {
			t.Errorf("a write: %v", err)
		}
	}
}

// A connection reads the schema when it is opened: so does the first read.
func TestDamageThatAConnectionMeetsEndsWrites(t *testing.T) {
	path := newSample(t)
	db := openFile(t, path)
	overwrite(t, path, 100, bytes.Repeat([]byte{0x77}, 100)) // where the schema is
	err := db.Query(t.Context(), "SELECT id FROM parents", nil, func(engine.Row) error { return nil })
	if engine.ClassOf(err) != engine.Corrupt || engine.ClassOf(db.Damage()) != engine.Corrupt {
		t.Errorf("the first read: %v, noted: %v", err, db.Damage())
	}
	err = db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("INSERT INTO parents VALUES (-1, '')") })
	if engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("a write: %v", err)
	}
}

// Who has met damage saves what can be read.
func TestWhatIsDamagedIsExportedAsFarAsItCanBeRead(t *testing.T) {
	path := newSample(t)
	db := openFile(t, path)
	zeros("children")(t, db, path)
	if err := db.Query(t.Context(), "SELECT id FROM children", nil, func(engine.Row) error { return nil }); engine.ClassOf(db.Damage()) != engine.Corrupt {
		t.Fatalf("no damage was met: %v", err)
	}
	rows := int64(0)
	if err := db.Snapshot(t.Context(), func(snapshot engine.DB) error {
		rows = count(t, snapshot, "parents")
		return nil
	}); err != nil || rows != 2000 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// What is only read stays as it is to the byte, whatever it is and whatever has left it:
// it may be somebody else's, or evidence.
func TestWhatIsOnlyReadIsNotChanged(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(t *testing.T) (path string)
		rows  int64
	}{
		"a database that was closed": {newSample, 2000},
		"what a crash has left":      {func(t *testing.T) string { return newLeft(t, "INSERT INTO parents VALUES (-1, '')") }, 2001},
		"a damaged table in what a crash has left": {func(t *testing.T) string {
			path := newLeft(t, "INSERT INTO parents VALUES (-1, '')")
			overwrite(t, path, 20*page, make([]byte, page))
			return path
		}, -1},
		"an empty file": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "empty.db")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, -1},
		"one without a log, of another program": {func(t *testing.T) string {
			path := newSample(t)
			c, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite)
			if err == nil {
				err = errors.Join(sqlitex.ExecuteTransient(c, "PRAGMA journal_mode = DELETE", nil), c.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			return path
		}, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.leave(t)
			before := contents(t, path)
			db, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if c.rows >= 0 {
				if n := count(t, db, "parents"); n != c.rows {
					t.Errorf("%d rows, want %d", n, c.rows)
				}
			}
			if _, err := db.Check(t.Context(), true); err != nil {
				t.Error(err)
			}
			if err := db.Copy(t.Context(), io.Discard, func(int64) {}); err != nil {
				t.Error(err)
			}
			err = db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("CREATE TABLE t (n INTEGER)") })
			if engine.ClassOf(err) != engine.Unavailable {
				t.Errorf("a write: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if after := contents(t, path); !maps.EqualFunc(before, after, bytes.Equal) {
				t.Errorf("the files %v have become %v", sizes(before), sizes(after))
			}
		})
	}
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := sqlite.Open(path, sqlite.Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is none: %v", err)
	}
	if len(contents(t, path)) > 0 {
		t.Error("one was made")
	}
}

func sizes(files map[string][]byte) map[string]int {
	all := map[string]int{}
	for end, b := range files {
		all[end] = len(b)
	}
	return all
}

// A server writes while a backup or a doctor only reads.
func TestWhoOnlyReadsSeesWhatOthersWrite(t *testing.T) {
	path := newSample(t)
	writer := openFile(t, path)
	reader, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	script(t, writer, "INSERT INTO parents VALUES (-1, '')")
	if n := count(t, reader, "parents"); n != 2001 {
		t.Errorf("%d rows, want 2001", n)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	script(t, writer, "INSERT INTO parents VALUES (-2, '')")
	if n := count(t, writer, "parents"); n != 2002 {
		t.Errorf("%d rows when it had gone, want 2002", n)
	}
}

// A name that is not on the disk is gone with the power, and all that was committed
// to the file with it.
func TestDirectoryThatCannotBeSyncedIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	synced := ""
	defer sqlite.SetSyncDirectory(func(dir string) error {
		synced = dir
		if info, err := os.Stat(path + "-wal"); err != nil || info.IsDir() {
			t.Errorf("the log is not there yet: %v", err)
		}
		return errors.New("input/output error")
	})()
	if db, err := sqlite.Open(path, sqlite.Options{}); err == nil {
		_ = db.Close()
		t.Error("it was opened")
	}
	if want, err := filepath.EvalSymlinks(filepath.Dir(path)); err != nil || synced != want {
		t.Errorf("%s was synced, want %s, %v", synced, want, err)
	}
}
