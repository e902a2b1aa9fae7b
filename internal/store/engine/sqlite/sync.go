package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine"
)

// Failed syncs.
//
// After a failed sync, Linux treats the pages as written: they stay in the page cache, and later
// syncs succeed without them (https://wiki.postgresql.org/wiki/Fsync_Errors). The content of the
// disk is then unknown, so a failed sync is fatal: this process acknowledges nothing more, its last
// connection runs no checkpoint, and the next process recovers the database. A full disk is
// reported by the write, not by the sync, and is not fatal.
//
// Recovery must not rely on the page cache either:
//
//   - The WAL may contain frames of a failed commit that are only in the page cache. Recovery would
//     treat them as committed. So the whole WAL is rewritten and synced before recovery.
//   - A checkpoint counts pages as backfilled in the WAL-index before they are synced. The index is
//     rebuilt, and all pages are backfilled again, when no process has the database open. So
//     recovery needs exclusive access. A process that still has the database open learns of the
//     failure from its own next sync (Linux 4.13 and later), and exits, too.
//
// A marker file next to the database says that recovery is due. It need not be synced: a power cut
// empties the page cache.

// unsyncedSuffix is the suffix of the marker file.
const unsyncedSuffix = "-unsynced"

const (
	rewriteBytes = 1 << 20
	recoveryWait = time.Second // maximum wait for other processes to close the database
)

const syncAdvice = "the disk or its controller is failing: check the kernel log, stop every process " +
	`that has the database open, and start again`

// isFailedSync reports whether err is a failed sync of a file or directory.
func isFailedSync(err error) bool {
	code := sqlite.ErrCode(err)
	return code == sqlite.ResultIOErrFsync || code == sqlite.ResultIOErrDirFsync
}

// failSync makes the database refuse writes after a failed sync, and reports it on Fatal.
func (db *database) failSync(err error) {
	if e := os.WriteFile(db.path+unsyncedSuffix, nil, 0o600); e != nil {
		err = fmt.Errorf("%w (no marker could be written, so restart the machine before the server: %w)", err, e)
	}
	err = fmt.Errorf("a sync of the database failed: %w: %s", err, syncAdvice)
	err = &engine.Error{Class: engine.Unavailable, Err: err}
	if db.syncFailure.CompareAndSwap(nil, &err) {
		db.fatal <- err
	}
}

func (db *database) Fatal() <-chan error { return db.fatal }

// refusal returns the error with which writes are refused, nil if they are accepted.
func (db *database) refusal() error {
	if damage := db.Damage(); damage != nil {
		err := fmt.Errorf("writes are refused because the database is damaged: %w", damage)
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if err := db.syncFailure.Load(); err != nil {
		return *err
	}
	return nil
}

// withoutCheckpoint prevents the checkpoint that closing the last writable connection runs, until
// the returned function is called. It holds a read-only connection open.
func (db *database) withoutCheckpoint() (end func() error, err error) {
	conn, err := db.connect(sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	if err := runScript(conn, "SELECT count(*) FROM sqlite_schema"); err != nil { // opens the WAL
		return nil, errors.Join(classify(err), conn.Close())
	}
	return conn.Close, nil
}

// recoverUnsynced recovers the database if a sync failed in the process that last had it open.
func (db *database) recoverUnsynced() (err error) {
	marker := db.path + unsyncedSuffix
	if _, err := os.Stat(marker); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	conn, err := db.connect(sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	conn.SetBusyTimeout(recoveryWait)
	defer func() {
		if e := classify(conn.Close()); err == nil {
			err = e
		}
		if err == nil {
			err = os.Remove(marker)
		}
		if err != nil {
			err = &engine.Error{Class: engine.ClassOf(err), Err: fmt.Errorf("recover the database after a failed sync: %w", err)}
		}
	}()
	// With this mode set before the WAL is opened, the connection keeps the WAL-index in its own
	// memory and excludes other processes (https://www.sqlite.org/wal.html#noshm).
	if err := runScript(conn, "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM sqlite_schema"); err != nil {
		if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy {
			err = fmt.Errorf("another process has it open: stop that process first: %w", err)
		}
		return classify(err)
	}
	rewrite := rewriteFile
	if db.options.Rewrite != nil {
		rewrite = db.options.Rewrite
	}
	if err := rewrite(db.path + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("rewrite the WAL: %w", err)}
	}
	return classify(runScript(conn, "PRAGMA wal_checkpoint(TRUNCATE)"))
}

// rewriteFile overwrites a file with its own content and syncs it. A power cut in between leaves
// each byte either as on the disk or as in the page cache.
func rewriteFile(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffer := make([]byte, rewriteBytes)
	for at := int64(0); ; {
		n, err := f.ReadAt(buffer, at)
		if _, e := f.WriteAt(buffer[:n], at); e != nil {
			return e
		}
		if errors.Is(err, io.EOF) {
			return f.Sync()
		}
		if err != nil {
			return err
		}
		at += int64(n)
	}
}
