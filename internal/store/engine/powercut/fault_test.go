package powercut_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine/powercut"
)

func TestAFailedSyncFailsTheCommit(t *testing.T) {
	for name, pragmas := range durable {
		t.Run(name, func(t *testing.T) {
			fs := register(t)
			conn := open(t, fs, pragmas...)
			run(t, conn, createTable)
			if err := insert(conn, 1, 100); err != nil {
				t.Fatal(err)
			}
			fs.FailSync(true)
			err := insert(conn, 2, 100)
			if code := sqlite.ErrCode(err); code != sqlite.ResultIOErrFsync && code != sqlite.ResultIOErrDirFsync {
				t.Errorf("commit with failing syncs: %v", err)
			}
			if r := restart(t, fs, 0); r.integrity != "ok" || !r.has(1, 1) || r.has(2, 2) {
				t.Errorf("integrity %s, rows %v", r.integrity, r.ids)
			}
			fs.FailSync(false)
			if err := insert(conn, 3, 100); err != nil {
				t.Errorf("commit after the fault: %v", err)
			}
			r := restart(t, fs, 0)
			if r.integrity != "ok" || !r.has(1, 1) || r.has(2, 2) || !r.has(3, 3) {
				t.Errorf("after the fault: integrity %s, rows %v", r.integrity, r.ids)
			}
		})
	}
}

func TestAFullDiskFailsOnlyTheCommit(t *testing.T) {
	for name, pragmas := range durable {
		t.Run(name, func(t *testing.T) {
			fs := register(t)
			conn := open(t, fs, pragmas...)
			run(t, conn, createTable)
			if err := insert(conn, 1, 100); err != nil {
				t.Fatal(err)
			}
			fs.FailWrites(true)
			if code := sqlite.ErrCode(insert(conn, 2, 100_000)); code != sqlite.ResultFull {
				t.Errorf("commit on a full disk: %v", code)
			}
			if ids, err := column(conn, `SELECT id FROM t`); err != nil || len(ids) != 1 {
				t.Errorf("read on a full disk: rows %v, %v", ids, err)
			}
			fs.FailWrites(false)
			if err := insert(conn, 3, 100); err != nil {
				t.Errorf("commit after the fault: %v", err)
			}
			r := restart(t, fs, 0)
			if r.integrity != "ok" || !r.has(1, 1) || r.has(2, 2) || !r.has(3, 3) {
				t.Errorf("after the fault: integrity %s, rows %v", r.integrity, r.ids)
			}
		})
	}
}

// In WAL mode, commits write only the WAL, so they continue while the database file accepts neither
// writes nor syncs. Only checkpoints fail.
func TestFaultsAffectOnlyTheNamedFile(t *testing.T) {
	fs := register(t)
	conn := open(t, fs, "journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0")
	run(t, conn, createTable)
	fs.FailWrites(true, dbName)
	if err := insert(conn, 1, 100); err != nil {
		t.Errorf("commit: %v", err)
	}
	if code := sqlite.ErrCode(exec(conn, `PRAGMA wal_checkpoint(FULL)`)); code != sqlite.ResultFull {
		t.Errorf("checkpoint without writes: %v", code)
	}
	fs.FailWrites(false)
	fs.FailSync(true, dbName)
	if err := insert(conn, 2, 100); err != nil {
		t.Errorf("commit: %v", err)
	}
	if code := sqlite.ErrCode(exec(conn, `PRAGMA wal_checkpoint(FULL)`)); code != sqlite.ResultIOErrFsync {
		t.Errorf("checkpoint without syncs: %v", code)
	}
	if r := restart(t, fs, 0); r.integrity != "ok" || !r.has(1, 2) {
		t.Errorf("integrity %s, rows %v", r.integrity, r.ids)
	}
	fs.FailSync(false)
	run(t, conn, `PRAGMA wal_checkpoint(TRUNCATE)`)
	if r := restart(t, fs, 0); r.integrity != "ok" || !r.has(1, 2) {
		t.Errorf("after the checkpoint: integrity %s, rows %v", r.integrity, r.ids)
	}
}

// Creating an empty file for SQLite does not make its name durable. The first commit does.
func TestTheNameOfAnEmptyFileIsPendingUntilTheFirstCommit(t *testing.T) {
	dir := t.TempDir()
	fs, err := powercut.Register("powercut-empty", dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, dbName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(fs.URI(dbName), sqlite.OpenReadWrite, sqlite.OpenURI)
	if err != nil {
		t.Fatal(err)
	}
	outcome := t.TempDir()
	if err := fs.Snapshot(outcome); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(outcome); err != nil || len(entries) > 0 {
		t.Errorf("before the first commit: %v, %v", entries, err)
	}
	run(t, conn, "PRAGMA journal_mode=WAL")
	run(t, conn, createTable)
	if err := insert(conn, 1, 10); err != nil {
		t.Fatal(err)
	}
	if r := restart(t, fs, 0); r.integrity != "ok" || !r.has(1, 1) {
		t.Errorf("integrity %s, rows %v", r.integrity, r.ids)
	}
	if err := errors.Join(conn.Close(), fs.Close()); err != nil {
		t.Error(err)
	}
}

// The system reports dropped data only once, by the failed sync of a commit. SQLite does not rely
// on the next sync: it rewrites the WAL from the end of the last commit.
func TestACommitAfterADroppedSyncIsDurable(t *testing.T) {
	for name, pragmas := range durable {
		if !strings.HasPrefix(name, "wal") {
			continue // the service uses WAL mode only
		}
		t.Run(name, func(t *testing.T) {
			fs := register(t)
			fs.DropSync(true)
			conn := open(t, fs, pragmas...)
			run(t, conn, createTable)
			for id := 1; id < 20; id += 2 {
				if err := insert(conn, id, 3000*(id%5)); err != nil {
					t.Fatal(err)
				}
				fs.FailSync(true)
				if err := insert(conn, id+1, 3000*(id%7)); err == nil {
					t.Fatal("a commit without a sync")
				}
				fs.FailSync(false)
				if id%4 == 3 {
					run(t, conn, "PRAGMA wal_checkpoint(PASSIVE)")
				}
				for seed := range uint64(4) {
					if r := restart(t, fs, seed); r.integrity != "ok" || !r.has(id, id) {
						t.Fatalf("after %d, seed %d: integrity %s, rows %v", id, seed, r.integrity, r.ids)
					}
				}
			}
		})
	}
}

// A checkpoint also rewrites the pages of a failed one before the WAL is reset.
func TestACheckpointAfterADroppedSyncIsDurable(t *testing.T) {
	fs := register(t)
	fs.DropSync(true)
	conn := open(t, fs, "journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0")
	run(t, conn, createTable)
	for id := 1; id <= 8; id++ {
		if err := insert(conn, id, 3000); err != nil {
			t.Fatal(err)
		}
		fs.FailSync(true, dbName)
		if code := sqlite.ErrCode(exec(conn, `PRAGMA wal_checkpoint(RESTART)`)); code != sqlite.ResultIOErrFsync {
			t.Errorf("checkpoint without syncs: %v", code)
		}
		fs.FailSync(false)
		run(t, conn, `PRAGMA wal_checkpoint(RESTART)`)
		run(t, conn, `UPDATE t SET v = randomblob(10) WHERE id = 1`) // resets the WAL
		for seed := range uint64(4) {
			if r := restart(t, fs, seed); r.integrity != "ok" || !r.has(1, id) {
				t.Fatalf("after %d, seed %d: integrity %s, rows %v", id, seed, r.integrity, r.ids)
			}
		}
	}
}

// Data that relies on a later sync is lost, which shows that the tests above can fail.
func TestADroppedSyncLosesDataThatIsNotRewritten(t *testing.T) {
	for _, drop := range []bool{false, true} {
		fs := register(t)
		fs.DropSync(drop)
		conn := open(t, fs, "journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0")
		run(t, conn, createTable)
		run(t, conn, "PRAGMA synchronous=NORMAL")
		for id := 1; id <= 5; id++ {
			if err := insert(conn, id, 9000); err != nil {
				t.Fatal(err)
			}
		}
		fs.FailSync(true)
		if err := exec(conn, `PRAGMA wal_checkpoint(PASSIVE)`); err == nil {
			t.Error("a checkpoint without syncs")
		}
		fs.FailSync(false)
		run(t, conn, "PRAGMA synchronous=FULL")
		if err := insert(conn, 6, 10); err != nil {
			t.Fatal(err)
		}
		if r := restart(t, fs, 0); r.integrity != "ok" || r.has(1, 6) == drop {
			t.Errorf("dropped %v: integrity %s, rows %v", drop, r.integrity, r.ids)
		}
	}
}
