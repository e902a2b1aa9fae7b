//go:build unix

package secrets

import (
	"os"
	"syscall"
)

// keepAccess gives a new file the owner, group and mode of the one that it replaces: the server may read it as
// another user than the one who adds a key.
func keepAccess(file *os.File, replaced string) error {
	info, err := os.Stat(replaced)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := file.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
			return err
		}
	}
	return file.Chmod(info.Mode().Perm())
}
