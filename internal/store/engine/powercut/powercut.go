// Package powercut is an SQLite VFS for tests. It simulates power cuts: it shows which bytes of the
// databases in one directory would have survived one at any moment.
//
// The VFS forwards every call to SQLite's own unix VFS, so connections use real files with real
// locks and real memory maps. It records for each file the changes that have not reached the disk
// yet. The rules of the simulated disk:
//
//   - The content of a file is durable up to its last completed xSync. Each write, truncation and
//     extension since then is pending: it may or may not be on the disk, and of a write, any of its
//     512 byte sectors may be. Bytes next to a write are never damaged (SQLite calls this powersafe
//     overwrite, and assumes it by default).
//   - The names in the directory are separate from the files. Creating and deleting a file stays
//     pending until the directory is synced, and a sync of the directory makes all changes of its
//     names so far durable. The directory is synced when SQLite's unix VFS does it: in the first
//     xSync through a handle that was opened to create a rollback journal, a super-journal or a
//     WAL, and in an xDelete that asks for it. A new database file is therefore durable from its
//     first journal or WAL sync, not from its own.
//   - A failed sync makes nothing durable. The pending changes remain pending, and the next
//     successful sync makes them durable, unless [FS.DropSync] is on: then the system treats the
//     changes of a failed sync as written, as Linux does, and only rewritten data can become
//     durable.
//   - Files that were in the directory before [Register], or that were created by other means
//     before SQLite opened them, count as durable as found. A file that was created empty counts as
//     created by SQLite at that moment: its name is pending.
//   - The -shm file is lost in every power cut: SQLite rebuilds it from the WAL. Temporary files
//     and files in other directories, including subdirectories, are forwarded but not tracked.
//
// The only cost in memory is undo data: for each pending change, the bytes that it overwrote or
// truncated, until the next sync of the file. A database with synchronous=OFF never syncs, so its
// undo data grows with its overwrites.
//
// Tracked files must not be written, renamed or removed except through this VFS. Each stays open
// through a descriptor of this package until Close, because on Unix, closing any descriptor of a
// file drops all POSIX locks that the process holds on it.
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

// FS is one directory behind one registered VFS. Its methods are safe for concurrent use, also
// while connections are active.
type FS struct {
	name string // of the VFS
	dir  string // absolute, without symbolic links

	tls     *libc.TLS // for Register and Close; callbacks receive their own
	cName   uintptr   // C string
	cVFS    uintptr   // sqlite3_vfs of this FS
	realVFS uintptr   // sqlite3_vfs of SQLite, never freed

	// mu makes each change of a file and its record atomic for Snapshot. It guards all fields
	// below, and the files and handles of this FS. It is held during calls of the wrapped VFS,
	// which never calls back, but not during reads and locks, which change no file.
	mu         sync.Mutex
	live       map[string]*file    // the directory as SQLite sees it
	durable    map[string]*file    // the directory as of its last sync
	open       int                 // number of handles, tracked or not
	methods    map[uintptr]uintptr // wrapped sqlite3_io_methods to ours, in C memory
	failSyncs  fault
	failWrites fault
	dropSyncs  bool              // a failed sync drops the pending changes
	writeCode  int32             // result code of a failed write
	before     func(name string) // called before each change; may be nil
	closed     bool
}

// fault selects the files of an injected error. No names means all files.
type fault struct {
	on    bool
	names []string
}

func (f fault) hits(name string) bool {
	return f.on && (len(f.names) == 0 || slices.Contains(f.names, name))
}

// Register registers a VFS called name, which tracks the files of the existing directory dir. The
// name must be unused. Close the FS at the end of the test. Connections use it by opening the
// result of [FS.URI].
func Register(name, dir string) (*FS, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("powercut: resolve directory: %w", err)
	}
	// SQLite passes paths with all symbolic links resolved.
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
		if !e.Type().IsRegular() || !tracked(e.Name()) {
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

// URI returns the URI that opens the given database file of the directory through this VFS. The
// connection needs the URI open flag.
func (fs *FS) URI(file string) string {
	u := url.URL{
		Scheme:   "file",
		Path:     filepath.Join(fs.dir, file),
		RawQuery: url.Values{"vfs": {fs.name}}.Encode(),
	}
	return u.String()
}

// MakeDefault makes this VFS the default of connections, until the process exits.
func (fs *FS) MakeDefault() error {
	registering.Lock()
	defer registering.Unlock()
	if rc := sqlite3.Xsqlite3_vfs_register(fs.tls, fs.cVFS, 1); rc != sqlite3.SQLITE_OK {
		return fmt.Errorf("powercut: make VFS %s the default: result code %d", fs.name, rc)
	}
	return nil
}

// FailSync makes every xSync return SQLITE_IOERR_FSYNC while on, and every xDelete that would sync
// the directory delete the file and return SQLITE_IOERR_DIR_FSYNC. With names, only syncs of these
// files fail. Each call replaces the previous one. As on Linux since 4.13, after a failed sync the
// next xSync of every other open handle of the file fails, too.
func (fs *FS) FailSync(on bool, names ...string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.failSyncs = fault{on, slices.Clone(names)}
}

// DropSync makes every failed sync from now on drop the changes that it had to write: processes
// that have the file open still see them, but they reach the disk only if they are rewritten.
func (fs *FS) DropSync(on bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.dropSyncs = on
}

// Rewrite simulates a program that overwrites a file of the directory with its own content and
// syncs it: afterwards none of its changes are pending or dropped.
func (fs *FS) Rewrite(path string) error {
	name, follow := fs.base(path)
	if !follow {
		return fmt.Errorf("powercut: rewrite %s: not a file of the directory", path)
	}
	fs.callBefore(name)
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

// FailWrites makes every xWrite return SQLITE_FULL and write nothing while on. With names, only
// writes to these files fail. Each call replaces the previous one, including that of ForbidWrites.
func (fs *FS) FailWrites(on bool, names ...string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.failWrites, fs.writeCode = fault{on, slices.Clone(names)}, sqlite3.SQLITE_FULL
}

// ForbidWrites is FailWrites for a file system that became read-only: xWrite returns
// SQLITE_IOERR_WRITE, as it does for all errors but a full disk.
func (fs *FS) ForbidWrites(on bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.failWrites, fs.writeCode = fault{on, nil}, sqlite3.SQLITE_IOERR_WRITE
}

// Before calls f before each write, truncation, sync and deletion of a tracked file, with the
// file's name, from the goroutine that makes the change. f may take snapshots but must not use a
// database of the directory. A nil f removes the callback.
func (fs *FS) Before(f func(name string)) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.before = f
}

// callBefore runs the callback of Before.
func (fs *FS) callBefore(name string) {
	fs.mu.Lock()
	f := fs.before
	fs.mu.Unlock()
	if f != nil {
		f(name)
	}
}

// Close unregisters the VFS. While a connection is open through it, Close does nothing and returns
// an error that wraps [ErrInUse]. Close must not run concurrently with opening a connection. A
// second Close does nothing.
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

// files returns all files that have a name, pending or durable.
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

// adopt tracks an existing file of the directory as durable.
func (fs *FS) adopt(name string) error {
	f, err := openFile(fs.dir, name)
	if err != nil {
		return err
	}
	fs.live[name] = f
	fs.durable[name] = f
	return nil
}

// base returns the name of path in the directory, and whether it is a tracked file there.
func (fs *FS) base(path string) (string, bool) {
	dir, name := filepath.Split(path)
	return name, filepath.Clean(dir) == fs.dir && tracked(name)
}

func tracked(name string) bool { return name != "" && !strings.HasSuffix(name, "-shm") }

// syncDir makes the current names of the directory durable.
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

// release closes f once it has no handle and no name.
func (fs *FS) release(f *file) {
	if f.handles == 0 && fs.live[f.name] != f && fs.durable[f.name] != f {
		// The descriptor is read-only, so closing it cannot lose data.
		_ = f.fd.Close()
	}
}
