package engine_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store/engine"
)

// counting returns a database with the counters a and b, and its path.
func counting(t *testing.T) (engine.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "counters.db")
	db := openFile(t, path)
	script(t, db, "CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER) STRICT; INSERT INTO counters VALUES ('a', 0), ('b', 0)")
	return db, path
}

// revisions returns those of a, of b and of what has none of its own.
func revisions(t *testing.T, db engine.DB) (all [3]engine.Revision) {
	t.Helper()
	_, _ = db.Revision("") // takes note of what others have done
	for i, subject := range []string{"a", "b", ""} {
		r, ok := db.Revision(subject)
		if !ok {
			t.Fatalf("the revision of %q is not known", subject)
		}
		all[i] = r
	}
	return all
}

func TestARevisionChangesWithWhatItIsOf(t *testing.T) {
	db, path := counting(t)
	write := func(db engine.DB, subjects ...string) func() error {
		return func() error {
			return db.Write(t.Context(), func(tx engine.Tx) error {
				if subjects != nil {
					tx.Changes(subjects...)
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
		{"a write that says what it changes", write(db, "a"), [3]bool{true, false, false}},
		{"one that changes no subject", func() error {
			return db.Write(t.Context(), func(tx engine.Tx) error {
				tx.Changes()
				return increment(tx, "a")
			})
		}, [3]bool{}},
		{"one that does not say what it changes", write(db), [3]bool{true, true, true}},
		{"one that changes nothing", func() error { return db.Write(t.Context(), func(engine.Tx) error { return nil }) }, [3]bool{}},
		{"one that is refused", func() error {
			err := db.Write(t.Context(), func(tx engine.Tx) error { return errors.Join(increment(tx, "a"), refused) })
			if !errors.Is(err, refused) {
				return err
			}
			return nil
		}, [3]bool{}},
		{"one by another connection, which is as good as another process", write(other, "a"), [3]bool{true, true, true}},
		{"one behind it that says what it changes", write(db, "b"), [3]bool{false, true, false}},
		{"a read", func() error {
			return db.Query(t.Context(), "SELECT n FROM counters", nil, func(engine.Row) error { return nil })
		}, [3]bool{}},
		{"one by another connection, and one here that says what it changes", func() error {
			return errors.Join(write(other, "b")(), write(db, "a")())
		}, [3]bool{true, true, true}},
	} {
		before := revisions(t, db)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		after := revisions(t, db)
		for i, changed := range step.changed {
			if (before[i] != after[i]) != changed {
				t.Errorf("%s: the revision of %q was %v and is %v", step.what, []string{"a", "b", ""}[i], before[i], after[i])
			}
		}
	}
}

func TestARevisionOutlivesTheStartOfALogAnew(t *testing.T) {
	db, path := counting(t)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	before := revisions(t, db)
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA wal_checkpoint(RESTART)", nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx engine.Tx) error { // from the log's beginning
		tx.Changes("a")
		return increment(tx, "a")
	}); err != nil {
		t.Fatal(err)
	}
	if after := revisions(t, db); after[0] == before[0] || after[1] != before[1] || after[2] != before[2] {
		t.Errorf("the revisions were %v and are %v", before, after)
	}
}

// TestWhatIsKeptByItsRevisionIsNeverOlderThanWhatWasAcknowledged has two databases on one
// file increment counters, while readers keep what they have read by its revision.
func TestWhatIsKeptByItsRevisionIsNeverOlderThanWhatWasAcknowledged(t *testing.T) {
	one, path := counting(t)
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
						tx.Changes(names[i])
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
				for was := acknowledged[i].Load(); was < is && !acknowledged[i].CompareAndSwap(was, is); was = acknowledged[i].Load() {
				}
			}
		})
	}
	type read struct {
		revision engine.Revision
		n        int64
	}
	var kept [2]atomic.Pointer[read]
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
				before, ok := dbs[0].Revision(names[i])
				if k := kept[i].Load(); ok && k != nil && k.revision == before {
					hits.Add(1)
					if k.n < floor {
						t.Errorf("%d was kept after %d was acknowledged", k.n, floor)
						return
					}
					continue
				}
				k := read{revision: before}
				if err := dbs[0].Query(t.Context(), "SELECT n FROM counters WHERE name = $1", engine.Args{names[i]}, func(r engine.Row) error {
					k.n = r.Int(0)
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
				if after, known := dbs[0].Revision(names[i]); ok && known && after == before {
					kept[i].Store(&k)
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	if hits.Load() == 0 {
		t.Error("nothing was ever kept")
	}
	var sum int64
	for i := range names {
		sum += acknowledged[i].Load()
	}
	if sum != 4*150 {
		t.Errorf("%d increments were acknowledged, want %d", sum, 4*150)
	}
}

func TestAClosedDatabaseHasNoRevisions(t *testing.T) {
	db, path := counting(t)
	revisions(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openFile(t, path).Write(t.Context(), func(tx engine.Tx) error { return increment(tx, "a") }); err != nil {
		t.Fatal(err)
	}
	if r, ok := db.Revision("a"); ok {
		t.Errorf("one that is closed has the revision %v", r)
	}
}

// TestARevisionIsNotThatOfAFileThatWasThereBefore has a database take the place of one
// that this process has open.
func TestARevisionIsNotThatOfAFileThatWasThereBefore(t *testing.T) {
	_, path := counting(t)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(path+suffix, path+".old"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	db := openFile(t, path)
	for range 3 {
		_, _ = db.Revision("")
		before, known := db.Revision("")
		script(t, db, "CREATE TABLE IF NOT EXISTS t (n INTEGER); INSERT INTO t VALUES (1)")
		_, _ = db.Revision("")
		if after, ok := db.Revision(""); known && ok && after == before {
			t.Fatalf("the revision is %v before and after a commit", after)
		}
	}
}
