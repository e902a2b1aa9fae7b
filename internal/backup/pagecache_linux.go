package backup

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropPageCache evicts a synced file from the page cache, so that the next read comes from disk.
// File systems that do not support this are ignored.
func dropPageCache(file *os.File) error {
	err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.EOPNOTSUPP {
		return nil
	}
	return os.NewSyscallError("fadvise", err)
}
