//go:build linux || darwin

package cli

import "syscall"

// freeBytes returns how much this process may still write to the disk of a path.
func freeBytes(path string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail * uint64(fs.Bsize)), nil
}

// maxFiles returns how many files and connections this process may have open. Go has
// raised it as far as it may be.
func maxFiles() (int64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int64(min(limit.Cur, 1<<62)), err
}
