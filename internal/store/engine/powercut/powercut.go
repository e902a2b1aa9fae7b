// Package powercut is a SQLite VFS for tests: it shows which bytes a power cut
// at any moment would have left of the databases in one directory.
//
// The VFS forwards every call to SQLite's own unix VFS, so connections work on
// real files with real locks and real memory maps, and remembers for each file
// what has not reached the disk yet. The rules of the simulated disk:
//
//   - What a file holds is durable up to its last completed xSync. Each write,
//     truncation and extension since then is pending: it may be on the disk, it
//     may be missing, and of a write any of its 512 byte sectors may be there.
//     Bytes next to a write are never damaged (SQLite calls this powersafe
//     overwrite, and assumes it by default).
//   - The names in the directory are separate from the files. Creating and
//     deleting a file stays pending until the directory is synced, and a sync
//     of the directory makes durable all that happened to its names so far.
//     The directory is synced when SQLite's unix VFS does it: in the first
//     xSync through a handle that was opened to create a rollback journal, a
//     super-journal or a WAL, and in an xDelete that asks for it. A new
//     database file is therefore durable from its first journal or WAL sync,
//     not from its own.
//   - A failed sync makes nothing durable. What was pending remains so, and the
//     next successful sync takes it along, unless [FS.DropSync] is on: then the
//     system takes what a failed sync had to write for written, as Linux does, and
//     only what is written again can become durable.
//   - Files that were in the directory before [Register], or that appeared in
//     it by other means before SQLite opened them, count as durable as found.
//     One that appeared empty counts as made by SQLite at that moment: its name
//     is pending.
//   - The -shm file is lost in every power cut: SQLite rebuilds it from the WAL.
//     Temporary files, and files in other directories (subdirectories too), are
//     forwarded without being followed.
//
// Only the memory for undoing is kept: for each pending change the bytes that
// it overwrote or cut off, until the next sync of the file. A database with
// synchronous=OFF never syncs, so there this memory grows with its overwrites.
//
// The followed files must not be written, renamed or removed except through
// this VFS. Each stays open through a descriptor of this package until Close,
// because on unix the closing of any descriptor drops all the POSIX locks that
// the process holds on the file.
package powercut

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrInUse is returned, wrapped, by [FS.Close] while a file is open through
// the file system.
var ErrInUse = errors.New("powercut: file system in use")

// FS is one directory behind one registered VFS. Its methods may be called
// from any goroutine, while connections are at work.
type FS struct {
	name string // of the VFS
	dir  string // absolute, without symbolic links

	tls     *libc.TLS // for Register and Close; callbacks are given their own
	cName   uintptr   // C string
	cVFS    uintptr   // sqlite3_vfs of this FS
	realVFS uintptr   // sqlite3_vfs of SQLite, never freed

	// mu makes each change of a file, with its record, one step for Snapshot.
	// It guards everything below, and the files and handles of this FS. It is
	// held while the wrapped VFS works; that one never calls back. It is not
	// held for reads and locks, which change no file.
	mu         sync.Mutex
	live       map[string]*file    // the directory as SQLite sees it
	durable    map[string]*file    // the directory as of its last sync
	open       int                 // handles, followed or not
	methods    map[uintptr]uintptr // wrapped sqlite3_io_methods to ours, in C memory
	failSyncs  fault
	failWrites fault
	dropSyncs  bool              // a failed sync drops what is pending
	writeCode  int32             // what a failed write returns
	before     func(name string) // is called before each change; nil for nothing
	closed     bool
}

// fault says which files an injected error hits: no names means every file.
type fault struct {
	on    bool
	names []string
}

func (f fault) hits(name string) bool {
	return f.on && (len(f.names) == 0 || slices.Contains(f.names, name))
}

// Register adds a VFS called name to the process, which follows the files of
// the existing directory dir. The name must not be taken; close the FS at the
// end of the test. Connections use it by opening the result of [FS.URI].
func Register(name, dir string) (*FS, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("powercut: resolve directory: %w", err)
	}
	// SQLite hands over paths with all symbolic links resolved.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("powercut: resolve directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("powercut: list directory: %w", err)
	}
	fs := &FS{
		name:    name,
		dir:     dir,
		live:    map[string]*file{},
		durable: map[string]*file{},
		methods: map[uintptr]uintptr{},
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !followed(e.Name()) {
			continue
		}
		if err := fs.adopt(e.Name()); err != nil {
			return nil, errors.Join(err, fs.closeFiles())
		}
	}
	if err := fs.register(); err != nil {
		return nil, errors.Join(err, fs.closeFiles())
	}
	return fs, nil
}

// URI returns the name under which a connection opens the database file of
// the directory through this VFS; the connection needs the URI open flag.
func (fs *FS) URI(file string) string {
	u := url.URL{
		Scheme:   "file",
		Path:     filepath.Join(fs.dir, file),
		RawQuery: url.Values{"vfs": {fs.name}}.Encode(),
	}
	return u.String()
}

// MakeDefault makes the VFS the one of connections that name none, until the process ends.
func (fs *FS) MakeDefault() error {
	registering.Lock()
	defer registering.Unlock()
	if rc := sqlite3.Xsqlite3_vfs_register(fs.tls, fs.cVFS, 1); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("powercut: make VFS %s the default: result code %d", fs.name, rc)
	}
	return nil
}

// FailSync makes every xSync return SQLITE_IOERR_FSYNC while on, and every
// xDelete that would sync the directory SQLITE_IOERR_DIR_FSYNC, with the file
// deleted all the same. With names, only syncs of the files so called in the
// directory fail. Each call replaces the one before. As on Linux since 4.13, the next xSync
// of every other handle that was open when one failed fails, too.
func (fs *FS) FailSync(on bool, names ...string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.failSyncs = fault{on, slices.Clone(names)}
}

// DropSync makes every failed sync, from the next one on, drop what it had to write:
// those who have the file open go on to see it, but it reaches the disk only if it is
// written again.
func (fs *FS) DropSync(on bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dropSyncs = on
}

// Rewrite is what a program does that writes the content of a file of the directory over
// itself and syncs it: nothing of it is pending or dropped any more.
func (fs *FS) Rewrite(path string) error {
	name, follow := fs.base(path)
	if !follow {
		return fmt.Errorf("powercut: rewrite %s: not a file of the directory", path)
	}
	fs.about(name)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.live[name]
	switch {
	case f == nil:
		return fmt.Errorf("powercut: rewrite %s: %w", name, os.ErrNotExist)
	case fs.failSyncs.hits(name):
		return fmt.Errorf("powercut: rewrite %s: %w", name, syscall.EIO)
	}
	f.dropped = nil
	f.synced()
	return nil
}

// FailWrites makes every xWrite return SQLITE_FULL while on, and write nothing.
// With names, only writes to the files so called in the directory fail. Each
// call replaces the one before, and that of ForbidWrites.
func (fs *FS) FailWrites(on bool, names ...string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.failWrites, fs.writeCode = fault{on, slices.Clone(names)}, sqlite3.SQLITE_FULL
}

// ForbidWrites is FailWrites for a file system that has become one that is only read:
// xWrite returns SQLITE_IOERR_WRITE, as it does for all that is not a full disk.
func (fs *FS) ForbidWrites(on bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.failWrites, fs.writeCode = fault{on, nil}, sqlite3.SQLITE_IOERR_WRITE
}

// Before calls f before each write, truncation, sync and deletion of a followed file, with
// its name, from the goroutine that is about to make it. f may take snapshots, and use no
// database of the directory. nil ends that.
func (fs *FS) Before(f func(name string)) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.before = f
}

// about is called before a change.
func (fs *FS) about(name string) {
	fs.mu.Lock()
	f := fs.before
	fs.mu.Unlock()
	if f != nil {
		f(name)
	}
}

// Close removes the VFS from the process. It returns an error wrapping
// [ErrInUse], and does nothing, while a connection is open through it, and it
// must not run at the same time as the opening of one. A second Close does
// nothing.
func (fs *FS) Close() error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return nil
	}
	if fs.open > 0 {
		return fmt.Errorf("close VFS %s with %d files open: %w", fs.name, fs.open, ErrInUse)
	}
	fs.closed = true
	fs.unregister()
	return fs.closeFiles()
}

// closeFiles closes the descriptors of all files.
func (fs *FS) closeFiles() error {
	var errs []error
	for f := range fs.files() {
		errs = append(errs, f.fd.Close())
	}
	return errors.Join(errs...)
}

// files returns the set of files with a name, pending or durable.
func (fs *FS) files() map[*file]bool {
	set := map[*file]bool{}
	for _, f := range fs.live {
		set[f] = true
	}
	for _, f := range fs.durable {
		set[f] = true
	}
	return set
}

// adopt follows a file that is in the directory already, as durable.
func (fs *FS) adopt(name string) error {
	f, err := openFile(fs.dir, name)
	if err != nil {
		return err
	}
	fs.live[name] = f
	fs.durable[name] = f
	return nil
}

// base returns the name of path in the directory, and whether it is there and
// followed.
func (fs *FS) base(path string) (string, bool) {
	dir, name := filepath.Split(path)
	return name, filepath.Clean(dir) == fs.dir && followed(name)
}

func followed(name string) bool { return name != "" && !strings.HasSuffix(name, "-shm") }

// syncDir makes the names of the directory durable as they are.
func (fs *FS) syncDir() {
	before := fs.durable
	fs.durable = make(map[string]*file, len(fs.live))
	for name, f := range fs.live {
		fs.durable[name] = f
	}
	for _, f := range before {
		fs.release(f)
	}
}

// release forgets f once nothing can reach it: no handle and no name.
func (fs *FS) release(f *file) {
	if f.handles == 0 && fs.live[f.name] != f && fs.durable[f.name] != f {
		// The descriptor was only read, so its closing has nothing to report.
		_ = f.fd.Close()
	}
}
