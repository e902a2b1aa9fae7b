//go:build linux || darwin

package doctor

import "syscall"

// freeBytes returns the free disk space that this process can use on the disk of a path.
func freeBytes(path string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail * uint64(fs.Bsize)), nil
}

// maxFiles returns the limit of open files of this process. Go raises the soft limit to the hard
// limit at startup.
func maxFiles() (int64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int64(min(limit.Cur, 1<<62)), err
}
