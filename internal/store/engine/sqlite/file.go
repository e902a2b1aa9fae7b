package sqlite

import (
	"fmt"
	"os"
	"sync/atomic"

	"atrium/internal/store/engine"
)

// Detection of removed and replaced files.
//
// A file that is removed or replaced while it is open still accepts writes, but the next process
// that opens its path does not find them. SQLite detects this only in rollback mode. So every
// commit is followed by a check that the paths still refer to the open files: data is acknowledged
// only if it is, at that moment, in the database that other processes open. The check follows the
// commit because a file can be removed during it.
//
// The shared memory file (-shm) is checked as well. Without it, another process would create a new
// one and take its locks there, and neither process would see what the other writes.
//
// While a file is missing, nothing is written and no connection is opened, because it would refer
// to other files. Reads continue on open connections. Everything resumes once the file is back.

// A fileCheck identifies the files of an open database. Its methods are safe for concurrent use.
type fileCheck struct {
	files []openFile
	lost  atomic.Bool // result of the last check
}

// An openFile is the path and identity of a file when it was opened.
type openFile struct {
	path string
	info os.FileInfo
}

// watch records the open files of the database at path.
func (c *fileCheck) watch(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			return &engine.Error{Class: engine.Unavailable, Err: err}
		}
		c.files = append(c.files, openFile{path + suffix, info})
	}
	return nil
}

// check returns an error of class Unavailable if a path no longer refers to its file.
func (c *fileCheck) check() error {
	for _, f := range c.files {
		info, err := os.Stat(f.path)
		if err == nil && os.SameFile(info, f.info) {
			continue
		}
		c.lost.Store(true)
		if err == nil {
			err = fmt.Errorf("%s is a different file", f.path)
		}
		err = fmt.Errorf("a database file was removed or replaced while it is open: %w: "+
			"do not stop the server: move the original back, or export the tenants with atrium export --server", err)
		return &engine.Error{Class: engine.Unavailable, Err: err}
	}
	c.lost.Store(false)
	return nil
}

// recheck is check, but only if the last check failed.
func (c *fileCheck) recheck() error {
	if !c.lost.Load() {
		return nil
	}
	return c.check()
}

func (db *database) CheckFiles() error { return db.files.check() }
