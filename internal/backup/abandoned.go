package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxLockWait is how long place waits for a process that removes abandoned files in the same directory.
const maxLockWait = 10 * time.Second

// shareDir takes a shared lock on a directory for as long as this process has a partial file in it. On a file system without
// locks it does nothing.
func shareDir(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(maxLockWait); ; time.Sleep(10 * time.Millisecond) {
		switch err := lock(d, false); {
		case !errors.Is(err, errLocked): // nil, or there are no locks
			return func() { _ = d.Close() }, nil
		case time.Now().After(deadline):
			_ = d.Close()
			return nil, fmt.Errorf("lock %s: another process removes files there: try again when it has ended", dir)
		}
	}
}

// removeAbandoned removes partial files of path that killed processes have left, apart from the file keep, from which to restore. It
// removes nothing while any process has a partial file in the directory. It is best effort, and ignores errors.
func removeAbandoned(path string, keep fs.FileInfo) {
	dir := filepath.Dir(path)
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer func() { _ = d.Close() }()
	if err := lock(d, true); err != nil {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		partial := e.Name() // or the name of a file that SQLite keeps beside it
		for _, end := range []string{"-wal", "-shm", "-journal"} {
			partial = strings.TrimSuffix(partial, end)
		}
		if !e.Type().IsRegular() || !isPartial(partial, path) {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, partial)); err == nil && os.SameFile(info, keep) {
			continue
		}
		_ = os.Remove(filepath.Join(dir, e.Name()))
	}
}

// isPartial reports whether a name is one that place gives to a partial file of path.
func isPartial(name, path string) bool {
	middle, ok := strings.CutPrefix(name, "."+filepath.Base(path)+".")
	number, partial := strings.CutSuffix(middle, partialSuffix)
	return ok && partial && number != "" && strings.Trim(number, "0123456789") == ""
}

// errLocked is the error of lock if another process has a lock that excludes this one.
var errLocked = errors.New("locked by another process")
