package main

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// narrowed says that a process has its processors already.
const narrowed = "ATRIUM_BENCH_NARROWED"

// narrow runs this command anew on so many processors, and with it all that it will start,
// so that ratios are those of a machine that has no more. It returns once that is so, or if
// there are no more.
func narrow(processors int) error {
	if os.Getenv(narrowed) != "" || runtime.NumCPU() <= processors {
		return nil
	}
	runtime.LockOSThread() // the set is the thread's, and stays with it in the new program
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	some := firstOf(all, processors)
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), narrowed+"=1"))
}

// firstOf returns the first n processors of a set, or all if there are fewer.
func firstOf(all unix.CPUSet, n int) (some unix.CPUSet) {
	for cpu := 0; cpu < len(all)*64 && some.Count() < n; cpu++ {
		if all.IsSet(cpu) {
			some.Set(cpu)
		}
	}
	return some
}
