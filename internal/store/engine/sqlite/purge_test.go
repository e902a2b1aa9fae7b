package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

// newChurned creates a database whose pages were split and merged in random order, and deletes half
// of its rows. remnants returns how often the values of that half are in each of its files.
func newChurned(t *testing.T) (path string, db engine.DB, remnants func() map[string]int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.db")
	db = openFile(t, path)
	script(t, db, `CREATE TABLE t (k BLOB PRIMARY KEY, gone INTEGER, v TEXT) STRICT, WITHOUT ROWID;
		CREATE TABLE u (id INTEGER PRIMARY KEY, gone INTEGER, v TEXT) STRICT`)
	for i := range 20 {
		script(t, db, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
			INSERT INTO t SELECT randomblob(8), i % 2, format('%.*c', abs(random()) % 40, 'x') FROM n`)
		script(t, db, `UPDATE t SET v = replace(format('%.*c', 1 + abs(random()) % 40, 'x'), 'x',
				CASE gone WHEN 1 THEN 'deleted-' ELSE 'retained-' END)
			WHERE abs(random()) % 3 = 0`)
		script(t, db, fmt.Sprintf(`INSERT INTO u SELECT NULL, gone,
				replace(format('%%.*c', 1 + abs(random()) %% 1000, 'x'), 'x', CASE gone WHEN 1 THEN 'deleted-' ELSE 'retained-' END)
			FROM t LIMIT 20 OFFSET %d`, i))
	}
	script(t, db, "DELETE FROM t WHERE gone = 1; DELETE FROM u WHERE gone = 1")
	return path, db, func() map[string]int {
		found := map[string]int{}
		files := contents(t, path)
		var b bytes.Buffer
		if err := db.Copy(t.Context(), &b, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		files["copy"] = b.Bytes()
		if !bytes.Contains(b.Bytes(), []byte("retained-")) {
			t.Error("rows that were not deleted are missing")
		}
		for end, b := range files {
			if n := bytes.Count(b, []byte("deleted-")); n > 0 {
				found[end] = n
			}
		}
		return found
	}
}

func TestAPurgeRemovesAllDeletedContentFromTheFiles(t *testing.T) {
	_, db, remnants := newChurned(t)
	// In the copy, remnants are in unallocated space only: secure_delete has zeroed the rest.
	if before := remnants(); before["-wal"] == 0 || before["copy"] == 0 {
		t.Fatalf("before: %v", before)
	}
	rows := count(t, db, "t")
	if err := db.Purge(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if left := remnants(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if found, err := db.Check(t.Context(), true); err != nil || len(found) > 0 || count(t, db, "t") != rows {
		t.Errorf("%v, %v, %d rows of %d", found, err, count(t, db, "t"), rows)
	}
}

func TestPurgesRunConcurrentlyWithWrites(t *testing.T) {
	path, db, remnants := newChurned(t)
	other := openFile(t, path)
	var writers sync.WaitGroup
	stopped, stop := context.WithCancel(t.Context())
	for _, db := range []engine.DB{db, other} {
		writers.Go(func() {
			for stopped.Err() == nil {
				if err := db.Write(t.Context(), func(tx engine.Tx) error {
					return tx.Script(`INSERT INTO t SELECT randomblob(8), 0, v FROM t ORDER BY random() LIMIT 20;
						DELETE FROM t WHERE abs(random()) % 20 = 0`)
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, db := range []engine.DB{db, other, db} {
		err := db.Purge(t.Context(), 0)
		for tries := 0; engine.ClassOf(err) == engine.Unavailable && tries < 1000; tries++ { // blocked by the other database
			err = db.Purge(t.Context(), 0)
		}
		if err != nil {
			t.Error(err)
		}
	}
	stop()
	writers.Wait()
	if left := remnants(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if found, err := db.Check(t.Context(), true); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestAReadTransactionOlderThanADeletionBlocksAPurge(t *testing.T) {
	_, db, remnants := newChurned(t)
	if err := db.Read(t.Context(), func(tx engine.Tx) error {
		if err := tx.Query("SELECT count(*) FROM t", nil, func(engine.Row) error { return nil }); err != nil {
			return err
		}
		if err := db.Purge(t.Context(), 0); engine.ClassOf(err) != engine.Unavailable {
			t.Errorf("during the read: %v", err)
		}
		if !db.Stats().WALBlocked {
			t.Error("long reads are not asked to end, although one blocks a purge")
		}
		script(t, db, "INSERT INTO t VALUES (randomblob(8), 0, '')")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Purge(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if db.Stats().WALBlocked {
		t.Error("long reads are still asked to end after the purge")
	}
	if left := remnants(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestADatabaseAboveTheSizeLimitIsNotPurged(t *testing.T) {
	_, db, remnants := newChurned(t)
	if err := db.Purge(t.Context(), 100_000); engine.ClassOf(err) != engine.Unavailable || remnants()["-wal"] == 0 {
		t.Errorf("%v, left: %v", err, remnants())
	}
	if err := db.Purge(t.Context(), 100_000_000); err != nil {
		t.Error(err)
	}
}

// Cached responses stay valid while pages are scrubbed. Only the two truncations of the WAL
// invalidate them, because they change PRAGMA data_version.
func TestScrubbingDoesNotChangeCacheVersions(t *testing.T) {
	_, db, _ := newChurned(t)
	version := func() uint64 {
		t.Helper()
		v, ok := db.CacheVersion("")
		if !ok {
			t.Fatal("the version is unknown")
		}
		return v[0]
	}
	before := version()
	if err := db.Purge(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if after := version(); after > before+2 {
		t.Errorf("version %d, want at most %d", after, before+2)
	}
}

func TestAReadOnlyDatabaseIsNotPurged(t *testing.T) {
	path := newSample(t)
	db, err := sqlite.Open(path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Purge(t.Context(), 0); engine.ClassOf(err) != engine.Unavailable {
		t.Errorf("%v", err)
	}
}
