//go:build linux || darwin

package backup

import (
	"errors"
	"os"
	"syscall"
)

// lock takes a shared or exclusive lock on a file until it is closed or the process ends. It does not wait.
func lock(file *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
}
