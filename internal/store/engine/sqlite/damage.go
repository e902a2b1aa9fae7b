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

// The rules of this file.
//
// A damaged file is found before it is used where that costs little, and is left as it
// was found: nothing is written to it, and its write-ahead log is not moved into it.
//
// What is damaged may be met at any later time. Reads go on as far as they can, but
// nothing is written any more: what is acknowledged must be found again, also by those
// who put a copy back.
//
// The directory is synced before the first commit. SQLite does so too when it makes
// the log, but goes on if that fails (https://www.sqlite.org/src, os_unix.c, unixSync).

// maxCheckedBytes is the size of a file that is read as a whole at the start if it was
// not closed. That takes about 2 ms for a megabyte that is in memory.
const maxCheckedBytes = 1 << 30

// examine looks for damage before anything is written. It uses a connection that can
// only read, because the last one that can write moves the log into the database when
// it is closed. What else is wrong is for those who open the file next to find.
func (db *database) examine() error {
	size, err := sizeOf(db.path)
	if err != nil {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	log, err := sizeOf(db.path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	if size == 0 {
		if err := mustHaveNoLog(db.path); err != nil {
			return err
		}
	}
	conn, err := db.connect(sqlite.OpenReadOnly)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }() // it has only read
	c := &connection{conn: conn, statements: map[string]*resultRow{}}
	checks := []string{checkRoots}
	if db.options.CheckAfterCrash && log > 0 && size <= maxCheckedBytes {
		checks = append(checks, checkPages)
	}
	if err := runScript(conn, fmt.Sprintf("PRAGMA mmap_size = %d", mmapBytes)); err != nil && engine.ClassOf(classified(err)) != engine.Corrupt {
		return nil
	}
	if found, err := c.check(checks...); err == nil && len(found) > 0 {
		return &engine.Error{Class: engine.Corrupt, Err: errors.New(found[0].Detail)}
	}
	return nil
}

// mustHaveNoLog returns an error if the database at path, which is missing or empty, has
// a log. SQLite would take it for a new one, and delete the log.
func mustHaveNoLog(path string) error {
	switch log, err := sizeOf(path + "-wal"); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &engine.Error{Class: engine.Unavailable, Err: err}
	case log > 0:
		return &engine.Error{Class: engine.Corrupt, Err: fmt.Errorf("the file is missing or empty, and its write-ahead log %s-wal is not", path)}
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

// settle makes sure that commits can be made and will be found: that the file can be
// written, and that the names of it and of its log, which is there by now, are on the
// disk.
func (db *database) settle() error {
	// A write that has nothing to do. BEGIN IMMEDIATE takes what cannot be written for
	// a wish to read.
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

// noting remembers that damage was met or that a sync failed, and returns err.
func (db *database) noting(err error) error {
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

// advised adds to the error of an opening what to do about it.
func advised(err error) error {
	var advice string
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case engine.ClassOf(err) == engine.Corrupt:
		advice = "the database is damaged, or is none: nothing was changed; keep the file and its -wal, and restore a backup (atrium restore), " +
			"or save what can be read with the .recover command of sqlite3 (docs/operations.md, \"The database is damaged\")"
	case errors.Is(err, fs.ErrPermission), code == sqlite.ResultReadOnly, code == sqlite.ResultPerm, code == sqlite.ResultCantOpen:
		advice = "the file, those beside it that end in -wal and -shm, and the directory must be writable for the user that runs this, " +
			"on a file system that is not mounted read-only"
	case code == sqlite.ResultFull, code == sqlite.ResultIOErr:
		advice = "look whether the disk is full or failing"
	default:
		return err
	}
	return &engine.Error{Class: engine.ClassOf(err), Err: fmt.Errorf("%w: %s", err, advice)}
}
