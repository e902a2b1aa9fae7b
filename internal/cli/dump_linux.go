package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// disableCoreDumps keeps the memory of this process, which contains keys and passwords, out of core
// files and inaccessible to other processes of the same user (ADR 0018). The resource limit alone
// is not enough: the kernel ignores it if core dumps are piped to a program.
func disableCoreDumps() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("disable core dumps: %w", err)
	}
	return nil
}
