package powercut_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine/powercut"
)

func TestFailedSyncFailsTheCommit(t *testing.T) {
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

func TestFullDiskFailsTheCommitAndNotTheDatabase(t *testing.T) {
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

// In WAL mode commits touch the WAL only, so they go on while the database
// file takes neither writes nor syncs; its checkpoint fails.
func TestFaultHitsOnlyTheNamedFile(t *testing.T) {
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

// Who makes an empty file for SQLite has not made its name durable: the first
// commit does that.
func TestNameOfAnEmptyFileIsPendingUntilTheFirstCommit(t *testing.T) {
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
