package sqlite_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
)

func increment(tx engine.Tx, name string) error {
	_, err := tx.Exec("UPDATE counters SET n = n + 1 WHERE name = $1", name)
	return err
}

// newCounters creates a database with the counters a and b, and returns its path.
func newCounters(t *testing.T) (engine.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counters.db")
	db := openFile(t, path)
	script(t, db, `CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER) STRICT;
		INSERT INTO counters VALUES ('a', 0), ('b', 0)`)
	return db, path
}

// versions returns the versions of the cache tags a and b, and of data without a tag.
func versions(t *testing.T, db engine.DB) (all [3]engine.CacheVersion) {
	t.Helper()
	for i, tag := range []string{"a", "b", ""} {
		v, ok := db.CacheVersion(tag)
		if !ok {
			t.Fatalf("the version of %q is unknown", tag)
		}
		all[i] = v
	}
	return all
}

func TestACacheVersionChangesWithItsTag(t *testing.T) {
	db, path := newCounters(t)
	write := func(db engine.DB, tags ...string) func() error {
		return func() error {
			return db.Write(t.Context(), func(tx engine.Tx) error {
				if tags != nil {
					tx.Invalidate(tags...)
				}
				return increment(tx, "a")
			})
		}
	}
	other := openFile(t, path)
	refused := errors.New("no")
	for _, step := range []struct {
		what    string
		do      func() error
		changed [3]bool
	}{
		{"nothing", func() error { return nil }, [3]bool{}},
		{"a write with a tag", write(db, "a"), [3]bool{true, false, false}},
		{"a write that changes no tag", func() error {
			return db.Write(t.Context(), func(tx engine.Tx) error {
				tx.Invalidate()
				return increment(tx, "a")
			})
		}, [3]bool{}},
		{"a write without Changes", write(db), [3]bool{true, true, true}},
		{"an empty write", func() error {
			return db.Write(t.Context(), func(engine.Tx) error { return nil })
		}, [3]bool{}},
		{"a failed write", func() error {
			err := db.Write(t.Context(), func(tx engine.Tx) error { return errors.Join(increment(tx, "a"), refused) })
			if !errors.Is(err, refused) {
				return err
			}
			return nil
		}, [3]bool{}},
		{"a write by another connection, as by another process", write(other, "a"), [3]bool{true, true, true}},
		{"a write with a tag after it", write(db, "b"), [3]bool{false, true, false}},
		{"a read", func() error {
			return db.Query(t.Context(), "SELECT n FROM counters", nil, func(engine.Row) error { return nil })
		}, [3]bool{}},
		{"a write by another connection, then one with a tag here", func() error {
			return errors.Join(write(other, "b")(), write(db, "a")())
		}, [3]bool{true, true, true}},
	} {
		before := versions(t, db)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		after := versions(t, db)
		for i, changed := range step.changed {
			if (before[i] != after[i]) != changed {
				t.Errorf("%s: the version of %q was %v and is %v", step.what, []string{"a", "b", ""}[i], before[i], after[i])
			}
		}
	}
}

func TestACacheVersionSurvivesAWALReset(t *testing.T) {
	db, path := newCounters(t)
	conn, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	before := versions(t, db)
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA wal_checkpoint(RESTART)", nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx engine.Tx) error { // from the beginning of the WAL
		tx.Invalidate("a")
		return increment(tx, "a")
	}); err != nil {
		t.Fatal(err)
	}
	if after := versions(t, db); after[0] == before[0] || after[1] != before[1] || after[2] != before[2] {
		t.Errorf("the versions were %v and are %v", before, after)
	}
}

// Two databases on one file increment counters, while readers cache the values under their
// versions.
func TestACachedReadIsNeverOlderThanAnAcknowledgedWrite(t *testing.T) {
	one, path := newCounters(t)
	dbs := []engine.DB{one, openFile(t, path)}
	names := []string{"a", "b"}
	var acknowledged [2]atomic.Int64
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writing.Go(func() {
			for n := range 150 {
				db, i := dbs[0], rand.IntN(2)
				if w == 0 && n%10 == 0 {
					db = dbs[1]
				}
				var is int64
				if err := db.Write(t.Context(), func(tx engine.Tx) error {
					if n%20 != 0 {
						tx.Invalidate(names[i])
					}
					if err := increment(tx, names[i]); err != nil {
						return err
					}
					return tx.Query("SELECT n FROM counters WHERE name = $1", engine.Args{names[i]}, func(r engine.Row) error {
						is = r.Int(0)
						return nil
					})
				}); err != nil {
					t.Error(err)
					return
				}
				for was := acknowledged[i].Load(); was < is; was = acknowledged[i].Load() {
					if acknowledged[i].CompareAndSwap(was, is) {
						break
					}
				}
			}
		})
	}
	type read struct {
		version engine.CacheVersion
		n       int64
	}
	var cached [2]atomic.Pointer[read]
	var hits atomic.Int64
	for range 3 {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				i := rand.IntN(2)
				floor := acknowledged[i].Load()
				before, ok := dbs[0].CacheVersion(names[i])
				if c := cached[i].Load(); ok && c != nil && c.version == before {
					hits.Add(1)
					if c.n < floor {
						t.Errorf("%d was cached after %d was acknowledged", c.n, floor)
						return
					}
					continue
				}
				c := read{version: before}
				const sql = "SELECT n FROM counters WHERE name = $1"
				if err := dbs[0].Query(t.Context(), sql, engine.Args{names[i]}, func(r engine.Row) error {
					c.n = r.Int(0)
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
				if after, known := dbs[0].CacheVersion(names[i]); ok && known && after == before {
					cached[i].Store(&c)
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	if hits.Load() == 0 {
		t.Error("no read was served from the cache")
	}
	var sum int64
	for i := range names {
		sum += acknowledged[i].Load()
	}
	if sum != 4*150 {
		t.Errorf("%d increments were acknowledged, want %d", sum, 4*150)
	}
}

// Another process commits constantly, including between a commit of this one and the change of its
// cache tags.
func TestACommitDoesNotHideCommitsOfAnotherProcess(t *testing.T) {
	db, path := newCounters(t)
	other, err := zombiezen.OpenConn(path, zombiezen.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := sqlitex.ExecuteTransient(other, "PRAGMA synchronous = OFF", nil); err != nil { // for speed
		t.Fatal(err)
	}
	var acknowledged atomic.Int64 // of b, which the other process increments
	var all sync.WaitGroup
	done := make(chan struct{})
	running := func() bool {
		select {
		case <-done:
			return false
		default:
			return true
		}
	}
	all.Go(func() {
		for running() {
			err := sqlitex.ExecuteTransient(other, "UPDATE counters SET n = n + 1 WHERE name = 'b'", nil)
			switch zombiezen.ErrCode(err) {
			case zombiezen.ResultOK:
				acknowledged.Add(1)
				time.Sleep(rand.N(50 * time.Microsecond))
			case zombiezen.ResultBusy:
			default:
				t.Error(err)
				return
			}
		}
	})
	all.Go(func() {
		var version engine.CacheVersion
		cached := int64(-1)
		for running() {
			floor := acknowledged.Load()
			before, ok := db.CacheVersion("b")
			if ok && cached >= 0 && before == version {
				if cached < floor {
					t.Errorf("%d was cached after %d was acknowledged", cached, floor)
					return
				}
				continue
			}
			var n int64
			if err := db.Query(t.Context(), "SELECT n FROM counters WHERE name = 'b'", nil, func(r engine.Row) error {
				n = r.Int(0)
				return nil
			}); err != nil {
				t.Error(err)
				return
			}
			if after, known := db.CacheVersion("b"); ok && known && after == before {
				version, cached = before, n
			}
		}
	})
	for range 2000 {
		if err := db.Write(t.Context(), func(tx engine.Tx) error {
			tx.Invalidate("a")
			return increment(tx, "a")
		}); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	all.Wait()
	if acknowledged.Load() == 0 {
		t.Error("the other process did not commit")
	}
}

func TestAClosedDatabaseHasNoCacheVersions(t *testing.T) {
	db, path := newCounters(t)
	versions(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openFile(t, path).Write(t.Context(), func(tx engine.Tx) error { return increment(tx, "a") }); err != nil {
		t.Fatal(err)
	}
	if v, ok := db.CacheVersion("a"); ok {
		t.Errorf("a closed database has the version %v", v)
	}
}

// Another database replaces one that this process has open.
func TestCacheVersionsBelongToTheOpenFile(t *testing.T) {
	_, path := newCounters(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+".old"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	db := openFile(t, path)
	script(t, db, "CREATE TABLE t (n INTEGER)")
	for range 3 {
		before := versions(t, db)
		script(t, db, "INSERT INTO t VALUES (1)")
		if after := versions(t, db); after == before {
			t.Fatalf("the versions are %v before and after a commit", after)
		}
	}
}

func BenchmarkCacheVersion(b *testing.B) {
	db, err := sqlite.Open(filepath.Join(b.TempDir(), "counters.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for b.Loop() {
		if _, ok := db.CacheVersion("a"); !ok {
			b.Fatal("the version is unknown")
		}
	}
}
