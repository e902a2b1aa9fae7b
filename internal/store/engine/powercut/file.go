package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// sectorSize is the unit of atomic disk writes: a power cut leaves each sector either old or new.
const sectorSize = 512

// file is one file of the directory, whether or not it still has a name. It is guarded by the mutex
// of its FS.
type file struct {
	name    string
	fd      *os.File // for reading only
	handles int      // number of open SQLite handles
	pending []change // changes since the last completed sync, oldest first
	failed  int      // number of failed syncs

	// dropped has the on-disk content of pages, by page number, that a failed sync dropped and that
	// have not been rewritten.
	dropped map[int64][]byte
}

// cachePage is the page size of the system's page cache: a write of one byte makes the whole page
// dirty.
const cachePage = 4096

// change has the undo data of one write, truncation or extension of a file.
type change struct {
	off    int64
	size   int64  // bytes written at off; 0 when only the length changed
	old    []byte // previous content at off, up to the end of the file
	before int64  // length of the file before the change
	after  int64  // length of the file after it
}

func openFile(dir, name string) (*file, error) {
	fd, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("powercut: track file: %w", err)
	}
	return &file{name: name, fd: fd}, nil
}

func (f *file) length() (int64, error) {
	info, err := f.fd.Stat()
	if err != nil {
		return 0, fmt.Errorf("powercut: length of %s: %w", f.name, err)
	}
	return info.Size(), nil
}

// beforeWrite returns the change of an upcoming write of size bytes at off.
func (f *file) beforeWrite(off, size int64) (change, error) {
	before, err := f.length()
	if err != nil {
		return change{}, err
	}
	for page := off / cachePage; page*cachePage < off+size; page++ {
		if old, ok := f.dropped[page]; ok {
			delete(f.dropped, page)
			f.pending = append(f.pending, change{
				off: page * cachePage, size: int64(len(old)), old: old, before: before, after: before,
			})
		}
	}
	c := change{off: off, size: size, before: before}
	c.old, err = readAt(f.fd, off, min(size, before-off))
	return c, err
}

// drop treats the pending changes as written. Beyond the end of the file on disk, the content on
// disk is zeros.
func (f *file) drop() error {
	length, err := f.length()
	if err != nil {
		return err
	}
	now, err := readAt(f.fd, 0, length)
	if err != nil {
		return err
	}
	onDisk := slices.Clone(now)
	for _, c := range slices.Backward(f.pending) {
		onDisk = append(onDisk[:min(int64(len(onDisk)), c.before)], make([]byte, max(0, c.before-int64(len(onDisk))))...)
		copy(onDisk[min(c.off, c.before):], c.old)
	}
	onDisk = append(onDisk, make([]byte, max(0, len(now)-len(onDisk)))...)
	if f.dropped == nil {
		f.dropped = map[int64][]byte{}
	}
	for at := int64(0); at < length; at += cachePage {
		end := min(at+cachePage, length)
		if !bytes.Equal(now[at:end], onDisk[at:end]) {
			f.dropped[at/cachePage] = onDisk[at:end]
		}
	}
	f.pending = nil
	return nil
}

// beforeResize returns the change of an upcoming truncation or extension to length.
func (f *file) beforeResize(length int64) (change, error) {
	before, err := f.length()
	if err != nil {
		return change{}, err
	}
	c := change{off: length, before: before}
	c.old, err = readAt(f.fd, length, before-length)
	return c, err
}

// done records a change after it was made. A failed write is recorded too, since a part of it may
// be in the file.
func (f *file) done(c change) error {
	after, err := f.length()
	if err != nil {
		return err
	}
	c.after = after
	if c.size == 0 && c.before == c.after {
		return nil
	}
	f.pending = append(f.pending, c)
	return nil
}

// synced makes all changes durable.
func (f *file) synced() { f.pending = nil }

// copyDurable writes the durable content of f to a new file at path. A non-nil rng adds a random
// subset of the pending changes.
func (f *file) copyDurable(path string, rng *rand.Rand) (err error) {
	dst, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("powercut: create copy: %w", err)
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := f.fd.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("powercut: rewind %s: %w", f.name, err)
	}
	if _, err := io.Copy(dst, f.fd); err != nil {
		return fmt.Errorf("powercut: copy %s: %w", f.name, err)
	}

	// Undoing the changes one by one temporarily restores the content that each of them wrote,
	// which may have been overwritten since.
	kept := choose(len(f.pending), rng)
	data := make([][]byte, len(f.pending))
	for i := len(f.pending) - 1; i >= 0; i-- {
		c := f.pending[i]
		if kept[i] != none && c.size > 0 {
			if data[i], err = readAt(dst, c.off, min(c.size, c.after-c.off)); err != nil {
				return err
			}
		}
		if err := c.undo(dst); err != nil {
			return fmt.Errorf("powercut: undo in copy of %s: %w", f.name, err)
		}
	}
	for page, old := range f.dropped {
		if err := overlay(dst, page*cachePage, old); err != nil {
			return fmt.Errorf("powercut: drop from copy of %s: %w", f.name, err)
		}
	}
	for i, c := range f.pending {
		if err := c.redo(dst, data[i], kept[i], rng); err != nil {
			return fmt.Errorf("powercut: redo in copy of %s: %w", f.name, err)
		}
	}
	return nil
}

// overlay writes the part of b that is within the length of dst.
func overlay(dst *os.File, off int64, b []byte) error {
	info, err := dst.Stat()
	if err != nil || info.Size() <= off {
		return err
	}
	_, err = dst.WriteAt(b[:min(int64(len(b)), info.Size()-off)], off)
	return err
}

func (c change) undo(dst *os.File) error {
	if err := dst.Truncate(c.before); err != nil {
		return err
	}
	_, err := dst.WriteAt(c.old, c.off)
	return err
}

// redo applies to dst the part of a change that reached the disk.
func (c change) redo(dst *os.File, data []byte, part portion, rng *rand.Rand) error {
	end := c.off + int64(len(data))
	switch {
	case part == none:
		return nil
	case c.size == 0 && c.after < c.before:
		return dst.Truncate(c.after)
	case c.size == 0:
		return extend(dst, c.after)
	case part == whole:
		_, err := dst.WriteAt(data, c.off)
		return err
	}
	// The new length reached the disk, but only some sectors of the content did.
	if err := extend(dst, end); err != nil {
		return err
	}
	for from := c.off; from < end; {
		to := min((from/sectorSize+1)*sectorSize, end)
		if rng.IntN(2) == 0 {
			if _, err := dst.WriteAt(data[from-c.off:to-c.off], from); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}

// extend makes dst at least length bytes long.
func extend(dst *os.File, length int64) error {
	info, err := dst.Stat()
	if err != nil || info.Size() >= length {
		return err
	}
	return dst.Truncate(length)
}

// portion is how much of a change reached the disk.
type portion uint8

const (
	none portion = iota
	torn
	whole
)

// choose decides how much of each of n changes reached the disk: nothing if rng is nil. A disk that
// preserves the order of writes has a prefix of the changes, whose last one may be torn; any other
// disk has any subset. choose simulates both kinds, with a random size of the subset so that both
// extremes occur.
func choose(n int, rng *rand.Rand) []portion {
	kept := make([]portion, n)
	if rng == nil || n == 0 {
		return kept
	}
	if rng.IntN(3) == 0 {
		last := rng.IntN(n + 1)
		for i := range last {
			kept[i] = whole
		}
		if last < n {
			kept[last] = portion(rng.IntN(2))
		}
		return kept
	}
	p := rng.Float64()
	for i := range kept {
		switch {
		case rng.Float64() >= p:
		case rng.IntN(3) == 0:
			kept[i] = torn
		default:
			kept[i] = whole
		}
	}
	return kept
}

// readAt returns size bytes at off, fewer at the end of the file, and none if size is not positive.
func readAt(fd *os.File, off, size int64) ([]byte, error) {
	if size <= 0 {
		return nil, nil
	}
	b := make([]byte, size)
	n, err := fd.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("powercut: read %s: %w", fd.Name(), err)
	}
	return b[:n], nil
}
