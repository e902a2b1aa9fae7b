package powercut_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"atrium/internal/store/engine"
)

const deleted = "deleted-content"

// write commits a statement.
func (f *filling) write(t *testing.T, sql string) {
	t.Helper()
	if err := f.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(sql) }); err != nil {
		t.Fatal(err)
	}
}

// newDeleted is a filling with content that is on the disk and was deleted since.
func newDeleted(t *testing.T) *filling {
	t.Helper()
	f := newFilling(t)
	f.write(t, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
		INSERT INTO t SELECT i, replace(zeroblob(i * 20), x'00', '`+deleted+`') FROM n`)
	if err := f.Purge(t.Context(), 0); err != nil { // so that it is in the file
		t.Fatal(err)
	}
	f.write(t, "DELETE FROM t")
	return f
}

// wantNoneLeft holds that no power cut at this moment leaves deleted content.
func wantNoneLeft(t *testing.T, f *filling) {
	t.Helper()
	for seed := range uint64(20) {
		dir := filepath.Join(t.TempDir(), "snapshot")
		snapshot := func(dir string) error { return f.fs.SnapshotSubset(dir, seed) }
		if seed == 0 {
			snapshot = f.fs.Snapshot
		}
		if err := snapshot(dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{dbName, dbName + "-wal"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(b, []byte(deleted)); n > 0 {
				t.Errorf("seed %d: %d times in %s", seed, n, name)
			}
		}
	}
	if r := restart(t, f.fs, 0); r.integrity != "ok" || !r.has(1000, 1000) {
		t.Errorf("left: integrity %s, rows %v", r.integrity, r.ids)
	}
}

func TestNoPowerCutBringsBackWhatWasPurgedBeforeACommit(t *testing.T) {
	f := newDeleted(t)
	if err := f.Purge(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	f.write(t, "INSERT INTO t VALUES (1000, '')")
	wantNoneLeft(t, f)
}

// A sync that fails may drop what checkpoints have written. A purge that has seen one fail is
// not done, and that of the next process does not rely on any of it.
func TestAPurgeWhoseSyncFailsIsNotDone(t *testing.T) {
	for _, name := range []string{dbName, dbName + "-wal"} {
		t.Run(name, func(t *testing.T) {
			f := newDeleted(t)
			f.fs.DropSync(true)
			f.fs.FailSync(true, name)
			if err := f.Purge(t.Context(), 0); engine.ClassOf(err) != engine.Unavailable {
				t.Errorf("error %v", err)
			}
			f.fs.FailSync(false)
			f.reopen(t)
			if err := f.Purge(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			f.write(t, "INSERT INTO t VALUES (1000, '')")
			wantNoneLeft(t, f)
		})
	}
}

func TestAPurgeWhoseWritesFailIsNotDone(t *testing.T) {
	f := newDeleted(t)
	f.fs.FailWrites(true, dbName)
	if err := f.Purge(t.Context(), 0); engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("error %v", err)
	}
	f.fs.FailWrites(false)
	if err := f.Purge(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	f.write(t, "INSERT INTO t VALUES (1000, '')")
	wantNoneLeft(t, f)
}
