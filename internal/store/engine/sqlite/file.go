package sqlite

import (
	"fmt"
	"os"
	"sync/atomic"

	"atrium/internal/store/engine"
)

// The rules of this file.
//
// A file that is removed or replaced while it is open still takes writes, but the next process
// that opens its path does not find them. SQLite notices in rollback mode only. So each
// commit is followed by a check that the paths still lead to the files that are open: what is
// acknowledged was, at that moment, in the database that others find. The check comes after
// the commit because a file can be removed during it.
//
// Without its file, the shared memory, another process would make a new one and take locks
// there, and neither would see what the other writes. So it is checked as well.
//
// While a file is missing, nothing is written and no connection is opened: it would be one to
// other files. Reads go on, on connections that are open. All goes on once the file is back.

// A fileCheck knows the files of a database that is open. Its methods are safe for concurrent
// use.
type fileCheck struct {
	files []openFile
	lost  atomic.Bool // as of the last check
}

// An openFile is a file as it was when it was opened.
type openFile struct {
	path string
	info os.FileInfo
}

// watch makes the check one of the files of the database at path, which are open.
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

// check returns an error of class Unavailable if a path does not lead to its file any more.
func (c *fileCheck) check() error {
	for _, f := range c.files {
		info, err := os.Stat(f.path)
		if err == nil && os.SameFile(info, f.info) {
			continue
		}
		c.lost.Store(true)
		if err == nil {
			err = fmt.Errorf("%s is another file", f.path)
		}
		return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("a database file was removed or replaced while it is open: %w: put the original back, or stop the server and restore a backup", err)}
	}
	c.lost.Store(false)
	return nil
}

// recheck is check, but does nothing if the last check found every file.
func (c *fileCheck) recheck() error {
	if !c.lost.Load() {
		return nil
	}
	return c.check()
}

func (db *database) CheckFiles() error { return db.files.check() }
