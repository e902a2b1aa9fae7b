package main

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// narrowed marks a process whose CPUs are already restricted.
const narrowed = "ATRIUM_BENCH_NARROWED"

// narrow restarts this command on the given number of CPUs. Its child processes inherit
// them, so ratios are those of a machine with no more CPUs. It returns in the restarted
// process, or if there are no more CPUs.
func narrow(processors int) error {
	if os.Getenv(narrowed) != "" || runtime.NumCPU() <= processors {
		return nil
	}
	runtime.LockOSThread() // the affinity belongs to the thread and survives exec
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

// firstOf returns the first n CPUs of a set, or all if there are fewer.
func firstOf(all unix.CPUSet, n int) (some unix.CPUSet) {
	for cpu := 0; cpu < len(all)*64 && some.Count() < n; cpu++ {
		if all.IsSet(cpu) {
			some.Set(cpu)
		}
	}
	return some
}
