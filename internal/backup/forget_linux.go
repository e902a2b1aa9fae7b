package backup

import (
	"os"

	"golang.org/x/sys/unix"
)

// forget has what was synced of a file read from the disk the next time, and not from
// memory. A file system may have no such thing.
func forget(file *os.File) error {
	err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.EOPNOTSUPP {
		return nil
	}
	return os.NewSyscallError("fadvise", err)
}
