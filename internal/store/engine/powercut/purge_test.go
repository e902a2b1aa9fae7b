package powercut_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"atrium/internal/store/engine"
)

const deleted = "deleted-content"

// write commits a script.
func (f *testDB) write(t *testing.T, sql string) {
	t.Helper()
	if err := f.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(sql) }); err != nil {
		t.Fatal(err)
	}
}

// newDeleted returns a database with content that is on disk and was deleted since.
func newDeleted(t *testing.T) *testDB {
	t.Helper()
	f := newTestDB(t)
	f.write(t, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
		INSERT INTO t SELECT i, replace(zeroblob(i * 20), x'00', '`+deleted+`') FROM n`)
	if err := f.Purge(t.Context(), 0); err != nil { // writes it to the file
		t.Fatal(err)
	}
	f.write(t, "DELETE FROM t")
	return f
}

// wantNoneLeft fails the test if a power cut at this moment could leave deleted content.
func wantNoneLeft(t *testing.T, f *testDB) {
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
				t.Errorf("seed %d: %d remnants in %s", seed, n, name)
			}
		}
	}
	if r := restart(t, f.fs, 0); r.integrity != "ok" || !r.has(1000, 1000) {
		t.Errorf("after a power cut: integrity %s, rows %v", r.integrity, r.ids)
	}
}

func TestAPowerCutDoesNotRestorePurgedContent(t *testing.T) {
	f := newDeleted(t)
	if err := f.Purge(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	f.write(t, "INSERT INTO t VALUES (1000, '')")
	wantNoneLeft(t, f)
}

// A failed sync may drop pages that checkpoints have written. The purge fails then, and that of the
// next process does not rely on any of these pages.
func TestAPurgeFailsIfASyncFails(t *testing.T) {
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

func TestAPurgeFailsIfAWriteFails(t *testing.T) {
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
