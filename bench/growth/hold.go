package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hold reads a file into the page cache and locks it there until release. Otherwise other
// programs on the machine decide how much of the file is cached.
func hold(path string) (release func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pages, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	release = func() { _ = unix.Munmap(pages) }
	if err := unix.Mlock(pages); err != nil {
		release()
		return nil, os.NewSyscallError("mlock", err)
	}
	return release, nil
}
