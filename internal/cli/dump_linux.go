package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// forbidDumps keeps the memory of this process, which has keys and passwords in it, out
// of core files and of the reach of other processes of its user (ADR 0018). The limit
// alone would not do: the kernel does not look at it where cores are piped to a program.
func forbidDumps() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	return nil
}
