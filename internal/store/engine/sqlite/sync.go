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

// The rules of this file.
//
// After a failed sync, Linux treats the pages as written: they stay in the page cache, and later
// syncs succeed without them (https://wiki.postgresql.org/wiki/Fsync_Errors). Nobody knows what is
// on the disk, so a failed sync is fatal: this process acknowledges nothing any more, its last
// connection makes no checkpoint, and the next process recovers the database. A full disk is
// reported by the write, not by the sync, and is not fatal.
//
// Recovery must not rely on the page cache either:
//
//   - The WAL may have the frames of a commit that was refused, in the page cache alone. Recovery
//     takes them for committed. So all of the WAL is written and synced again before it is
//     recovered.
//   - A checkpoint counts pages as backfilled before they are synced, in the WAL-index. The index is rebuilt, and
//     all pages are backfilled again, when no process has the database open. So recovery needs
//     exclusive access. A process that still has the database open is told of the failure by its own
//     next sync (Linux 4.13 and later), and ends, too.
//
// A marker file next to the database says that recovery is due. It need not be synced: a
// power cut empties the page cache.

// unsyncedSuffix is that of the marker file.
const unsyncedSuffix = "-unsynced"

const (
	rewriteBytes = 1 << 20
	recoveryWait = time.Second // for other processes to close the database
)

const syncAdvice = "the disk or its controller is failing: see the kernel's log, end every process that has the database open, and start again " +
	`(docs/operations.md, "A sync failed")`

// isFailedSync reports whether an error says that a file or directory could not be synced.
func isFailedSync(err error) bool {
	code := sqlite.ErrCode(err)
	return code == sqlite.ResultIOErrFsync || code == sqlite.ResultIOErrDirFsync
}

// failSync stops all writing after a failed sync, and reports it to the receiver of Fatal.
func (db *database) failSync(err error) {
	if e := os.WriteFile(db.path+unsyncedSuffix, nil, 0o600); e != nil {
		err = fmt.Errorf("%w (restart the machine before the server, because there is no marker: %w)", err, e)
	}
	err = &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("a sync of the database failed: %w: %s", err, syncAdvice)}
	if db.syncFailure.CompareAndSwap(nil, &err) {
		db.fatal <- err
	}
}

func (db *database) Fatal() <-chan error { return db.fatal }

// refusal returns why nothing is written any more, nil if writes are possible.
func (db *database) refusal() error {
	if damage := db.Damage(); damage != nil {
		return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("nothing is written to a damaged database: %w", damage)}
	}
	if err := db.syncFailure.Load(); err != nil {
		return *err
	}
	return nil
}

// withoutCheckpoint keeps the closing of connections from making a checkpoint until the returned
// function is called: the last connection makes one, if it can write.
func (db *database) withoutCheckpoint() (end func() error, err error) {
	conn, err := db.connect(sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	if err := runScript(conn, "SELECT count(*) FROM sqlite_schema"); err != nil { // opens the WAL
		return nil, errors.Join(classified(err), conn.Close())
	}
	return conn.Close, nil
}

// recoverUnsynced recovers the database if a sync failed in the process that had it open last.
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
		if e := classified(conn.Close()); err == nil {
			err = e
		}
		if err == nil {
			err = os.Remove(marker)
		}
		if err != nil {
			err = &engine.Error{Class: engine.ClassOf(err), Err: fmt.Errorf("recover the database after a failed sync: %w", err)}
		}
	}()
	// In this mode, set before the WAL is opened, the connection has the WAL-index in its own
	// memory and keeps other processes out (https://www.sqlite.org/wal.html#noshm).
	if err := runScript(conn, "PRAGMA locking_mode = EXCLUSIVE; SELECT count(*) FROM sqlite_schema"); err != nil {
		if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy {
			err = fmt.Errorf("another process has it open, and must end first: %w", err)
		}
		return classified(err)
	}
	rewrite := rewriteFile
	if db.options.Rewrite != nil {
		rewrite = db.options.Rewrite
	}
	if err := rewrite(db.path + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("write the WAL again: %w", err)}
	}
	return classified(runScript(conn, "PRAGMA wal_checkpoint(TRUNCATE)"))
}

// rewriteFile writes the content of a file over itself and syncs it. A power cut in between leaves
// each byte as it was on the disk or as it is in the page cache.
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
