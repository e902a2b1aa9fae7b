package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// partialSuffix is the suffix of an incomplete file. A killed process may leave one behind; it can
// be deleted. Its process holds a shared lock on the directory.
const partialSuffix = ".partial"

// place creates the file at path: write fills a temporary file, check verifies it after it is
// synced, and name moves it to path. If one of them fails, the temporary file is removed.
func place(
	path string, write func(*os.File) error, check func(partial string) error, name func(from, to string) error,
) (err error) {
	dir := filepath.Dir(path)
	unlock, err := shareDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	file, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*"+partialSuffix) // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // the link at path stays
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := check(file.Name()); err != nil {
		return err
	}
	if err := name(file.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// linkOrRename moves a file to an unused name. If the file system has no hard links, it renames the
// file after a check, so another process may create the name in between.
func linkOrRename(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	if err := checkNotExist(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func checkNotExist(path string) error {
	_, err := os.Lstat(path)
	if err == nil {
		return fmt.Errorf("%s already exists", path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
