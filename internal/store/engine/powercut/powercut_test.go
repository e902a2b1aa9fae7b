package powercut_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium/internal/store/engine/powercut"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// durable has the settings that SQLite documents as durable.
var durable = map[string][]string{
	"wal":      {"journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=30"},
	"wal mmap": {"journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=30", "mmap_size=268435456"},
	"wal limited": {"journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=10",
		"journal_size_limit=0"},
	"rollback":          {"journal_mode=DELETE", "synchronous=EXTRA"},
	"rollback truncate": {"journal_mode=TRUNCATE", "synchronous=FULL"},
	"rollback persist":  {"journal_mode=PERSIST", "synchronous=FULL"},
	"rollback mmap":     {"journal_mode=DELETE", "synchronous=EXTRA", "mmap_size=268435456"},
}

func TestCommittedRowsSurviveAPowerCut(t *testing.T) {
	for name, pragmas := range durable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := register(t)
			conn := open(t, fs, pragmas...)
			run(t, conn, createTable)
			for id := 1; id <= 12; id++ {
				if err := insert(conn, id, id*id*100); err != nil {
					t.Fatal(err)
				}
				if id%4 == 0 {
					run(t, conn, `UPDATE t SET v = randomblob(3000) WHERE id % 3 = 0`)
				}
				// The worst case, and one random outcome.
				for _, seed := range []uint64{0, uint64(id)} {
					r := restart(t, fs, seed)
					if r.integrity != "ok" || !r.has(1, id) {
						t.Fatalf("after commit %d, seed %d: integrity %s, %d rows", id, seed, r.integrity, len(r.ids))
					}
				}
			}
		})
	}
}

// Snapshots are taken at any moment of a transaction or checkpoint. Rows acknowledged before a
// snapshot began must be in it.
func TestCommittedRowsSurviveAPowerCutAtAnyMoment(t *testing.T) {
	for _, name := range []string{"wal", "wal mmap", "wal limited", "rollback mmap"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := register(t)
			writer := open(t, fs, append(durable[name], "busy_timeout=10000", "cache_size=5", "cache_spill=2")...)
			run(t, writer, createTable)

			var committed atomic.Int64
			var done atomic.Bool
			var wg sync.WaitGroup
			for range 3 {
				reader := open(t, fs, "busy_timeout=10000")
				wg.Go(func() { read(t, reader, &committed, &done) })
			}
			if name != "rollback mmap" {
				other := open(t, fs, "busy_timeout=10000")
				wg.Go(func() { checkpoint(t, other, &done) })
			}
			wg.Go(func() {
				for id := 1; !done.Load(); id++ {
					time.Sleep(time.Millisecond) // keeps the snapshots small
					if err := insert(writer, id, id%7*3000); err != nil {
						t.Errorf("commit %d: %v", id, err)
						return
					}
					committed.Store(int64(id))
				}
			})
			for round := uint64(0); round < 16 || committed.Load() < 10 && !t.Failed(); round++ {
				seed := round % 2 * round // every second snapshot is the worst case
				acknowledged := int(committed.Load())
				r := restart(t, fs, seed)
				if r.integrity != "ok" || !r.has(1, acknowledged) {
					t.Errorf("seed %d: integrity %s, %d rows, %d acknowledged", seed, r.integrity, len(r.ids), acknowledged)
				}
			}
			done.Store(true)
			wg.Wait()
		})
	}
}

// read verifies that a reader finds all rows committed before its query.
func read(t *testing.T, conn *sqlite.Conn, committed *atomic.Int64, done *atomic.Bool) {
	for ; !done.Load(); time.Sleep(time.Millisecond) {
		want := committed.Load()
		n, err := column(conn, `SELECT count(*) FROM t WHERE length(v) >= 0`)
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		var got int64
		if _, err := fmt.Sscan(n[0], &got); err != nil || got < want {
			t.Errorf("reader found %d of %d rows (%v)", got, want, err)
			return
		}
	}
}

func checkpoint(t *testing.T, conn *sqlite.Conn, done *atomic.Bool) {
	for i := 0; !done.Load(); i++ {
		time.Sleep(time.Millisecond)
		mode := []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[i%4]
		if err := exec(conn, "PRAGMA wal_checkpoint("+mode+")"); err != nil {
			t.Errorf("checkpoint: %v", err)
			return
		}
	}
}

// A committed row can be lost, which shows that the tests above can fail.
func TestCommittedRowsAreLostWithoutSyncs(t *testing.T) {
	for name, mode := range map[string]struct{ journal, synchronous string }{
		"wal off":      {"WAL", "OFF"},
		"wal normal":   {"WAL", "NORMAL"},
		"rollback off": {"DELETE", "OFF"},
		// The journal is deleted, but its name reappears.
		"rollback full": {"DELETE", "FULL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := register(t)
			conn := open(t, fs, "journal_mode="+mode.journal, "synchronous=EXTRA")
			run(t, conn, createTable)
			if err := insert(conn, 1, 100); err != nil {
				t.Fatal(err)
			}
			run(t, conn, "PRAGMA synchronous="+mode.synchronous)
			if err := insert(conn, 2, 100); err != nil {
				t.Fatal(err)
			}
			r := restart(t, fs, 0)
			if r.integrity != "ok" || !r.has(1, 1) {
				t.Errorf("the synced rows are damaged: integrity %s, rows %v", r.integrity, r.ids)
			}
			if r.has(2, 2) {
				t.Error("a row that was never synced is in the worst case")
			}
			found := 0
			for seed := range uint64(16) {
				if restart(t, fs, seed+1).has(2, 2) {
					found++
				}
			}
			if found == 0 || found == 16 {
				t.Errorf("the row is in %d of 16 random outcomes, want some", found)
			}
		})
	}
}

// A database can be damaged, which shows that the integrity checks can fail.
func TestADatabaseIsDamagedWithoutSyncs(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			fs := register(t)
			conn := open(t, fs, "journal_mode="+journal, "synchronous=EXTRA")
			run(t, conn, createTable)
			run(t, conn, "PRAGMA synchronous=OFF")
			for id := 1; id <= 20; id++ {
				if err := insert(conn, id, 10_000); err != nil {
					t.Fatal(err)
				}
			}
			run(t, conn, "PRAGMA wal_checkpoint(TRUNCATE)")
			damaged := 0
			for seed := range uint64(20) {
				if restart(t, fs, seed+1).integrity != "ok" {
					damaged++
				}
			}
			if damaged == 0 {
				t.Error("no random outcome was damaged")
			}
		})
	}
}

// In WAL mode, NORMAL may lose the last commits, but no commit before the last checkpoint, and none
// out of order.
func TestACheckpointMakesNormalDurable(t *testing.T) {
	fs := register(t)
	conn := open(t, fs, "journal_mode=WAL", "synchronous=NORMAL", "wal_autocheckpoint=0")
	run(t, conn, createTable)
	synced := 0
	for id := 1; id <= 20; id++ {
		if err := insert(conn, id, 2000); err != nil {
			t.Fatal(err)
		}
		if id%6 == 0 {
			run(t, conn, "PRAGMA wal_checkpoint(TRUNCATE)")
			synced = id
		}
		for seed := range uint64(4) {
			r := restart(t, fs, seed)
			if synced == 0 {
				continue // the name of the database is not durable yet
			}
			if r.integrity != "ok" || !r.has(1, synced) || len(r.ids) > 0 && !r.has(1, len(r.ids)) {
				t.Fatalf("after %d, seed %d: integrity %s, rows %v", id, seed, r.integrity, r.ids)
			}
		}
	}
}

// Closing the last connection deletes the WAL without a sync of the directory, so it may reappear
// after a power cut, and a later WAL may replace it.
func TestADeletedWALMayReappear(t *testing.T) {
	fs := register(t)
	for id := 1; id <= 3; id++ {
		conn := open(t, fs, "journal_mode=WAL", "synchronous=FULL")
		if id == 1 {
			run(t, conn, createTable)
		}
		if err := insert(conn, id, 5000); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		outcomes := map[bool]bool{}
		for seed := range uint64(12) {
			dir := t.TempDir()
			if err := fs.SnapshotSubset(dir, seed); err != nil {
				t.Fatal(err)
			}
			_, err := os.Stat(filepath.Join(dir, dbName+"-wal"))
			outcomes[err == nil] = true
			if r := restart(t, fs, seed); r.integrity != "ok" || !r.has(1, id) {
				t.Fatalf("after %d, seed %d: integrity %s, rows %v", id, seed, r.integrity, r.ids)
			}
		}
		if len(outcomes) != 2 {
			t.Errorf("after %d: the WAL exists: only %v, want both outcomes", id, outcomes)
		}
	}
}

func TestASnapshotHasNoSharedMemoryAndNeedsAnEmptyDirectory(t *testing.T) {
	fs := register(t)
	conn := open(t, fs, "journal_mode=WAL", "synchronous=FULL")
	run(t, conn, createTable)
	dir := t.TempDir()
	if err := fs.Snapshot(dir); err != nil {
		t.Fatal(err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := fmt.Sprint(names), "[test.db test.db-wal]"; got != want {
		t.Errorf("snapshot holds %s, want %s", got, want)
	}
	if err := fs.Snapshot(dir); err == nil {
		t.Error("a snapshot overwrote another one")
	}
}

// A memory-mapped database is extended before it is written.
func TestGrowthOfAMemoryMappedFileIsPending(t *testing.T) {
	fs := register(t)
	conn := open(t, fs, "journal_mode=DELETE", "synchronous=EXTRA", "mmap_size=268435456",
		"cache_size=5", "cache_spill=2")
	run(t, conn, createTable)
	length := func() int64 {
		dir := t.TempDir()
		if err := fs.Snapshot(dir); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, dbName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := length()
	run(t, conn, "BEGIN IMMEDIATE")
	if err := insert(conn, 1, 500_000); err != nil {
		t.Fatal(err)
	}
	if got := length(); got != before {
		t.Errorf("before the commit: %d bytes, want %d", got, before)
	}
	run(t, conn, "COMMIT")
	if got := length(); got < 500_000 {
		t.Errorf("after the commit: %d bytes", got)
	}
}

func TestExistingFilesAreDurable(t *testing.T) {
	dir := t.TempDir()
	conn, err := sqlite.OpenConn(filepath.Join(dir, dbName), sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	run(t, conn, createTable)
	if err := errors.Join(insert(conn, 1, 10), conn.Close()); err != nil {
		t.Fatal(err)
	}
	fs, err := powercut.Register("powercut-before", dir)
	if err != nil {
		t.Fatal(err)
	}
	if r := restart(t, fs, 0); !r.has(1, 1) {
		t.Errorf("rows %v", r.ids)
	}
	if err := fs.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseFailsWhileAConnectionIsOpen(t *testing.T) {
	fs, err := powercut.Register("powercut-close", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := powercut.Register("powercut-close", t.TempDir()); err == nil {
		t.Error("a name was registered twice")
	}
	pool, err := sqlitex.NewPool(fs.URI(dbName), sqlitex.PoolOptions{PoolSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run(t, conn, createTable)
	if err := fs.Close(); !errors.Is(err, powercut.ErrInUse) {
		t.Errorf("Close with a connection: %v", err)
	}
	if err := insert(conn, 1, 10); err != nil {
		t.Errorf("insert after the refused Close: %v", err)
	}
	pool.Put(conn)
	if err := errors.Join(pool.Close(), fs.Close(), fs.Close()); err != nil {
		t.Error(err)
	}
	if err := fs.Snapshot(t.TempDir()); err == nil {
		t.Error("Snapshot of a closed FS succeeded")
	}
	if _, err := sqlite.OpenConn(fs.URI(dbName), sqlite.OpenReadWrite, sqlite.OpenURI); err == nil {
		t.Error("a connection through a closed FS was opened")
	}
}
