package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"atrium/internal/store/engine"
)

// Corruption.
//
// Open detects damage before the file is used, where that is cheap, and leaves a damaged file
// unchanged: it writes nothing and does not backfill the WAL.
//
// Damage may also be detected at any later time. Reads that succeed continue, but writes are
// refused: every acknowledged write must be readable later, also after a backup is restored.
//
// The directory is synced before the first commit. SQLite syncs it too when it creates the WAL, but
// ignores a failure (https://www.sqlite.org/src, os_unix.c, unixSync).

// maxCheckedBytes is the maximum size of a file that is checked completely at the start if it was
// not closed. The check takes about 2 ms per megabyte of cached file.
const maxCheckedBytes = 1 << 30

// inspect looks for damage before anything is written. It uses a read-only connection, because the
// last writable connection backfills the WAL when it is closed. It leaves other errors to the
// connection that opens the file next.
func (db *database) inspect() error {
	size, err := sizeOf(db.path)
	if err != nil {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	wal, err := sizeOf(db.path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if size == 0 {
		if err := rejectOrphanedWAL(db.path); err != nil {
			return err
		}
	}
	conn, err := db.connect(sqlite.OpenReadOnly)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }() // read-only
	c := &connection{conn: conn, statements: map[string]*resultRow{}}
	checks := []string{checkRoots}
	if db.options.CheckAfterCrash && wal > 0 && size <= maxCheckedBytes {
		checks = append(checks, checkPages)
	}
	err = runScript(conn, fmt.Sprintf("PRAGMA mmap_size = %d", mmapBytes))
	if err != nil && engine.ClassOf(classify(err)) != engine.Corrupt {
		return nil
	}
	if found, err := c.check(checks...); err == nil && len(found) > 0 {
		return &engine.Error{Class: engine.Corrupt, Err: errors.New(found[0].Detail)}
	}
	return nil
}

// rejectOrphanedWAL returns an error if the database at path, which is missing or empty, has a WAL.
// SQLite would treat it as a new database and delete the WAL.
func rejectOrphanedWAL(path string) error {
	switch wal, err := sizeOf(path + "-wal"); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &engine.Error{Class: engine.Unavailable, Err: err}
	case wal > 0:
		err := fmt.Errorf("the file is missing or empty, but its write-ahead log %s-wal is not", path)
		return &engine.Error{Class: engine.Corrupt, Err: err}
	}
	return nil
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// ensureWritable verifies that the file is writable, and syncs the directory entries of the file
// and of the WAL, which exists by now.
func (db *database) ensureWritable() error {
	// A write that changes nothing. BEGIN IMMEDIATE is not enough: on a read-only file it falls
	// back to a read transaction.
	_, err := db.writer.Exec("PRAGMA incremental_vacuum(1)")
	if err != nil && sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy { // by another process
		return err
	}
	if err := syncDirectory(filepath.Dir(db.path)); err != nil {
		return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("sync the directory: %w", err)}
	}
	return nil
}

var syncDirectory = func(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// recordFailure records corruption and failed syncs, and returns err.
func (db *database) recordFailure(err error) error {
	if isFailedSync(err) {
		db.failSync(err)
	}
	if engine.ClassOf(err) == engine.Corrupt {
		db.damage.CompareAndSwap(nil, &err)
	}
	return err
}

func (db *database) Damage() error {
	if err := db.damage.Load(); err != nil {
		return *err
	}
	return nil
}

// withAdvice adds to an error of Open how to fix it.
func withAdvice(err error) error {
	var advice string
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case engine.ClassOf(err) == engine.Corrupt:
		advice = "the file is damaged or not a database; nothing was changed: keep the file and its -wal, " +
			"and restore a backup (atrium restore), or save what is readable with the .recover command of sqlite3"
	case errors.Is(err, fs.ErrPermission), code == sqlite.ResultReadOnly,
		code == sqlite.ResultPerm, code == sqlite.ResultCantOpen:
		advice = "the file, its -wal and -shm files, and the directory must be writable by the user " +
			"that runs this command, on a file system that is not mounted read-only"
	case code == sqlite.ResultFull, code == sqlite.ResultIOErr:
		advice = "check whether the disk is full or failing"
	default:
		return err
	}
	return &engine.Error{Class: engine.ClassOf(err), Err: fmt.Errorf("%w: %s", err, advice)}
}
