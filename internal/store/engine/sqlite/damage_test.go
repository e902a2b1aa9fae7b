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

// copyFile copies a file if it exists.
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

// newCrashed creates the files that a killed process leaves behind: the changes of sql are in the
// WAL only.
func newCrashed(t *testing.T, sql string) (path string) {
	t.Helper()
	return crashed(t, newSample(t), sql)
}

// crashed is newCrashed for a database other than the sample.
func crashed(t *testing.T, from, sql string) (path string) {
	t.Helper()
	db := openFile(t, from)
	script(t, db, sql)
	path = filepath.Join(t.TempDir(), "crashed.db")
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

// The error says how to fix the damage, and the file stays unchanged, so later attempts and
// recovery tools find the same content.
func TestADamagedFileIsRefusedAndLeftUnchanged(t *testing.T) {
	const grown = "INSERT INTO parents SELECT id + 10000, name FROM parents"
	for name, damage := range map[string]func(t *testing.T) (path string){
		"a file that is not a database": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "letter.txt")
			if err := os.WriteFile(path, bytes.Repeat([]byte("Dear reader, "), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"a zeroed header": func(t *testing.T) string {
			path := newSample(t)
			overwrite(t, path, 0, make([]byte, 100))
			return path
		},
		"a truncated file": func(t *testing.T) string {
			path := newSample(t)
			if err := os.Truncate(path, 10*page); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"a zeroed root page of a table": func(t *testing.T) string {
			path := newSample(t)
			db := openFile(t, path)
			at := rootOf(t, db, "children")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			overwrite(t, path, (at-1)*page, make([]byte, page))
			return path
		},
		"a zeroed page after a crash": func(t *testing.T) string {
			path := newCrashed(t, "DELETE FROM children WHERE id = 1")
			overwrite(t, path, 20*page, make([]byte, page))
			return path
		},
		"the WAL of another database": func(t *testing.T) string {
			path := newCrashed(t, grown)
			from := newSample(t)
			db := openFile(t, from)
			script(t, db, `DROP TABLE children; DELETE FROM parents WHERE id % 3 = 0;
				CREATE TABLE others (id INTEGER NOT NULL PRIMARY KEY) STRICT`)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			copyFile(t, path+"-wal", crashed(t, from, grown)+"-wal")
			return path
		},
		"a WAL without its database": func(t *testing.T) string {
			path := newCrashed(t, grown)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return path
		},
		"a WAL next to an empty file": func(t *testing.T) string {
			path := newCrashed(t, grown)
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
						t.Errorf("%q does not contain %q", err, word)
					}
				}
				after := contents(t, path)
				for end, was := range before {
					if now := after[end]; !bytes.Equal(now, was) {
						t.Errorf("the file %q was changed: %d bytes before, %d after", end, len(was), len(now))
					}
				}
				if (after[""] == nil) != (before[""] == nil) {
					t.Error("a missing file was created")
				}
			}
		})
	}
}

// contents returns the contents of a database file and its WAL by the suffixes "" and "-wal",
// without missing files.
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

// The files that a crash leaves are not damaged: the WAL may end in the middle of a write, and the
// WAL-index may not match the WAL.
func TestFilesLeftByACrashAreOpened(t *testing.T) {
	const first, second = "INSERT INTO parents VALUES (-1, '')", "INSERT INTO parents VALUES (-2, '')"
	walSize := func(path string) int64 { return int64(len(contents(t, path)["-wal"])) }
	for name, c := range map[string]struct {
		leave func(t *testing.T) (path string)
		rows  int64
	}{
		"all": {func(t *testing.T) string { return newCrashed(t, first+";"+second) }, 2002},
		"a WAL with a torn end": {func(t *testing.T) string {
			path := newCrashed(t, first)
			if err := os.Truncate(path+"-wal", walSize(path)-page/2); err != nil {
				t.Fatal(err)
			}
			return path
		}, 2000},
		"a WAL with garbage at its end": {func(t *testing.T) string {
			path := newCrashed(t, first)
			overwrite(t, path+"-wal", walSize(path), bytes.Repeat([]byte("garbage"), 3*page))
			return path
		}, 2001},
		"a WAL with half a header": {func(t *testing.T) string {
			path := newCrashed(t, first)
			if err := os.Truncate(path+"-wal", 16); err != nil {
				t.Fatal(err)
			}
			return path
		}, 2000},
		"a WAL-index without a WAL": {func(t *testing.T) string {
			path := newCrashed(t, first)
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
			return path
		}, 2000},
		"a WAL-index of garbage": {func(t *testing.T) string {
			path := newCrashed(t, first)
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

func TestDamageStopsWritesButNotOtherReads(t *testing.T) {
	path := newSample(t)
	db := openFile(t, path)
	zeros("children")(t, db, path)
	for range 2 {
		if n := count(t, db, "parents"); n != 2000 {
			t.Errorf("%d rows in an undamaged table, want 2000", n)
		}
		err := db.Query(t.Context(), "SELECT id FROM children", nil, func(engine.Row) error { return nil })
		if engine.ClassOf(err) != engine.Corrupt || engine.ClassOf(db.Damage()) != engine.Corrupt {
			t.Errorf("a read of a damaged table: %v, recorded: %v", err, db.Damage())
		}
		err = db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("INSERT INTO parents VALUES (-1, '')") })
		if engine.ClassOf(err) != engine.Unavailable {
			t.Errorf("a write: %v", err)
		}
	}
}

// A connection reads the schema when it is opened, so the first read finds the damage.
func TestDamageFoundWhileConnectingStopsWrites(t *testing.T) {
	path := newSample(t)
	db := openFile(t, path)
	overwrite(t, path, 100, bytes.Repeat([]byte{0x77}, 100)) // the schema
	err := db.Query(t.Context(), "SELECT id FROM parents", nil, func(engine.Row) error { return nil })
	if engine.ClassOf(err) != engine.Corrupt || engine.ClassOf(db.Damage()) != engine.Corrupt {
		t.Errorf("the first read: %v, recorded: %v", err, db.Damage())
	}
	err = db.Write(t.Context(), func(tx engine.Tx) error { return tx.Script("INSERT INTO parents VALUES (-1, '')") })
	if engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("a write: %v", err)
	}
}

// After damage was found, operators can still save the readable data.
func TestADamagedDatabaseIsExportedAsFarAsItIsReadable(t *testing.T) {
	path := newSample(t)
	db := openFile(t, path)
	zeros("children")(t, db, path)
	err := db.Query(t.Context(), "SELECT id FROM children", nil, func(engine.Row) error { return nil })
	if engine.ClassOf(db.Damage()) != engine.Corrupt {
		t.Fatalf("no damage was found: %v", err)
	}
	rows := int64(0)
	if err := db.Snapshot(t.Context(), func(snapshot engine.DB) error {
		rows = count(t, snapshot, "parents")
		return nil
	}); err != nil || rows != 2000 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// A read-only database stays unchanged to the byte, whatever its state: it may belong to others, or
// be evidence.
func TestReadOnlyLeavesTheFilesUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(t *testing.T) (path string)
		rows  int64
	}{
		"a closed database": {newSample, 2000},
		"a crashed database": {func(t *testing.T) string {
			return newCrashed(t, "INSERT INTO parents VALUES (-1, '')")
		}, 2001},
		"a crashed database with a damaged table": {func(t *testing.T) string {
			path := newCrashed(t, "INSERT INTO parents VALUES (-1, '')")
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
		"a database of another program without a WAL": {func(t *testing.T) string {
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
				t.Errorf("file sizes were %v and are %v", sizes(before), sizes(after))
			}
		})
	}
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := sqlite.Open(path, sqlite.Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if len(contents(t, path)) > 0 {
		t.Error("a missing file was created")
	}
}

func sizes(files map[string][]byte) map[string]int {
	all := map[string]int{}
	for end, b := range files {
		all[end] = len(b)
	}
	return all
}

// Backups and the doctor read while a server writes.
func TestAReadOnlyDatabaseSeesWritesOfOtherProcesses(t *testing.T) {
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
		t.Errorf("%d rows after the reader was closed, want 2002", n)
	}
}

// A directory entry that is not on disk is lost in a power cut, and with it everything committed to
// the file.
func TestOpenFailsIfTheDirectoryCannotBeSynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.db")
	synced := ""
	defer sqlite.SetSyncDirectory(func(dir string) error {
		synced = dir
		if info, err := os.Stat(path + "-wal"); err != nil || info.IsDir() {
			t.Errorf("the WAL does not exist yet: %v", err)
		}
		return errors.New("input/output error")
	})()
	if db, err := sqlite.Open(path, sqlite.Options{}); err == nil {
		_ = db.Close()
		t.Error("it was opened")
	}
	if want, err := filepath.EvalSymlinks(filepath.Dir(path)); err != nil || synced != want {
		t.Errorf("%q was synced, want %q, %v", synced, want, err)
	}
}
