package powercut

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// The interface between Go and SQLite. SQLite is translated from C: its memory is outside the Go
// heap and stores addresses as uintptr, so the garbage collector neither tracks nor updates them.
// Therefore:
//
//   - Everything that SQLite points to (sqlite3_vfs, sqlite3_io_methods, the name) is allocated by
//     libc and contains no Go pointers. A callback finds its Go state by a key: an FS by the
//     address of its sqlite3_vfs, a handle by a number in the sqlite3_file.
//   - A C function pointer is the value of a Go func variable, which is the address of a function
//     descriptor. It is in static memory only for a declared function, so methods and closures must
//     not be passed.
//   - SQLite allocates szOsFile bytes for each file, aligned to 8. They contain our header, then
//     the file of the wrapped VFS, again aligned to 8.

// header is our part of an sqlite3_file.
type header struct {
	methods uintptr // sqlite3_file.pMethods; must be first
	id      uintptr // key in table.handles
}

const headerSize = (unsafe.Sizeof(header{}) + 7) &^ 7

// handle is one open sqlite3_file.
type handle struct {
	fs      *FS
	f       *file // nil if the file is not tracked
	syncDir bool  // the next xSync also syncs the directory; guarded by fs.mu
	seen    int   // number of failed syncs of f that were reported; guarded by fs.mu
}

// table maps callbacks from C to their Go state. It is global because SQLite's registry of VFSs is.
// A goroutine that holds the mutex of an FS may lock it, but not the other way round.
var table = struct {
	sync.RWMutex
	systems map[uintptr]*FS // by address of the sqlite3_vfs
	handles map[uintptr]*handle
	lastID  uintptr
}{
	systems: map[uintptr]*FS{},
	handles: map[uintptr]*handle{},
}

func systemOf(pVfs uintptr) *FS {
	table.RLock()
	defer table.RUnlock()
	return table.systems[pVfs]
}

func handleOf(pFile uintptr) *handle {
	table.RLock()
	defer table.RUnlock()
	return table.handles[at[header](pFile).id]
}

func addHandle(h *handle) uintptr {
	table.Lock()
	defer table.Unlock()
	table.lastID++
	table.handles[table.lastID] = h
	return table.lastID
}

func removeHandle(id uintptr) {
	table.Lock()
	defer table.Unlock()
	delete(table.handles, id)
}

// at returns the T in C memory at addr. Going through the address of addr tells vet and checkptr
// that this is not arithmetic on a Go pointer.
func at[T any](addr uintptr) *T {
	return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&addr)))
}

// cFunc returns the C function pointer of a declared function.
func cFunc[F any](f F) uintptr {
	return *(*uintptr)(unsafe.Pointer(&f))
}

// goFunc returns the function of type F that a C function pointer refers to.
func goFunc[F any](p uintptr) F {
	return *(*F)(unsafe.Pointer(&p))
}

// register builds the sqlite3_vfs of fs and adds it to SQLite.
func (fs *FS) register() error {
	fs.tls = libc.NewTLS()
	fail := func(format string, args ...any) error {
		libc.Xfree(fs.tls, fs.cVFS)
		libc.Xfree(fs.tls, fs.cName)
		fs.tls.Close()
		return fmt.Errorf("powercut: "+format, args...)
	}
	var err error
	if fs.cName, err = libc.CString("unix"); err != nil {
		return fail("allocate name: %w", err)
	}
	fs.realVFS = sqlite3.Xsqlite3_vfs_find(fs.tls, fs.cName)
	libc.Xfree(fs.tls, fs.cName)
	fs.cName = 0
	if fs.realVFS == 0 {
		return fail("this platform has no unix VFS")
	}
	if fs.cName, err = libc.CString(fs.name); err != nil {
		return fail("allocate name: %w", err)
	}
	if sqlite3.Xsqlite3_vfs_find(fs.tls, fs.cName) != 0 {
		return fail("a VFS called %q already exists", fs.name)
	}
	fs.cVFS = libc.Xcalloc(fs.tls, 1, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if fs.cVFS == 0 {
		return fail("out of memory")
	}

	// Methods that do not concern files (time, randomness, loading and so on) are those of the
	// wrapped VFS, as is pAppData, which its xOpen reads: they work with our sqlite3_vfs as well.
	registering.Lock()
	defer registering.Unlock()
	vfs := at[sqlite3.Tsqlite3_vfs](fs.cVFS)
	*vfs = *at[sqlite3.Tsqlite3_vfs](fs.realVFS)
	vfs.FpNext = 0
	vfs.FzName = fs.cName
	vfs.FszOsFile += int32(headerSize)
	vfs.FxOpen = cFunc(vfsOpen)
	vfs.FxDelete = cFunc(vfsDelete)

	table.Lock()
	table.systems[fs.cVFS] = fs
	table.Unlock()
	if rc := sqlite3.Xsqlite3_vfs_register(fs.tls, fs.cVFS, 0); rc != sqlite3.SQLITE_OK {
		fs.forget()
		return fail("register VFS: result code %d", rc)
	}
	return nil
}

// registering guards SQLite's linked list of VFSs: the wrapped VFS, which register copies, contains
// a link.
var registering sync.Mutex

// unregister undoes register. No file may be open.
func (fs *FS) unregister() {
	registering.Lock()
	defer registering.Unlock()
	// It fails only before SQLite is initialized, which register has done.
	sqlite3.Xsqlite3_vfs_unregister(fs.tls, fs.cVFS)
	fs.forget()
	for _, m := range fs.methods {
		libc.Xfree(fs.tls, m)
	}
	libc.Xfree(fs.tls, fs.cVFS)
	libc.Xfree(fs.tls, fs.cName)
	fs.tls.Close()
}

func (fs *FS) forget() {
	table.Lock()
	defer table.Unlock()
	delete(table.systems, fs.cVFS)
}

type (
	openFunc   = func(tls *libc.TLS, pVfs, zName, pFile uintptr, flags int32, pOutFlags uintptr) int32
	deleteFunc = func(tls *libc.TLS, pVfs, zName uintptr, syncDir int32) int32
)

func vfsOpen(tls *libc.TLS, pVfs, zName, pFile uintptr, flags int32, pOutFlags uintptr) int32 {
	fs := systemOf(pVfs)
	fs.mu.Lock()
	defer fs.mu.Unlock()

	*at[header](pFile) = header{}
	inner := pFile + headerSize
	at[sqlite3.Tsqlite3_file](inner).FpMethods = 0
	var name string
	track := false
	if zName != 0 && flags&sqlite3.SQLITE_OPEN_DELETEONCLOSE == 0 {
		name, track = fs.base(libc.GoString(zName))
	}
	if track && fs.live[name] == nil {
		// A nonempty file was created by other means since Register.
		if info, err := os.Lstat(filepath.Join(fs.dir, name)); err == nil && info.Size() > 0 && fs.adopt(name) != nil {
			return sqlite3.SQLITE_CANTOPEN
		}
	}

	xOpen := goFunc[openFunc](at[sqlite3.Tsqlite3_vfs](fs.realVFS).FxOpen)
	rc := xOpen(tls, fs.realVFS, zName, inner, flags, pOutFlags)
	// SQLite closes the file, even after an error, if and only if it has methods.
	wrapped := at[sqlite3.Tsqlite3_file](inner).FpMethods
	if wrapped == 0 {
		return rc
	}
	methods := fs.methodsFor(tls, wrapped)
	if methods == 0 {
		closeInner(tls, inner)
		return sqlite3.SQLITE_NOMEM
	}
	h := &handle{fs: fs, syncDir: syncsDir(flags)}
	if track && rc == sqlite3.SQLITE_OK {
		if fs.live[name] == nil {
			f, err := openFile(fs.dir, name)
			if err != nil {
				closeInner(tls, inner)
				return sqlite3.SQLITE_CANTOPEN
			}
			fs.live[name] = f
		}
		h.f = fs.live[name]
		h.f.handles++
		h.seen = h.f.failed
	}
	fs.open++
	*at[header](pFile) = header{methods: methods, id: addHandle(h)}
	return rc
}

// syncsDir reports whether the first sync through a handle opened with flags also syncs the
// directory, by the rule of unixOpen.
func syncsDir(flags int32) bool {
	const journals = sqlite3.SQLITE_OPEN_SUPER_JOURNAL | sqlite3.SQLITE_OPEN_MAIN_JOURNAL | sqlite3.SQLITE_OPEN_WAL
	return flags&sqlite3.SQLITE_OPEN_CREATE != 0 && flags&journals != 0
}

func vfsDelete(tls *libc.TLS, pVfs, zName uintptr, syncDir int32) int32 {
	fs := systemOf(pVfs)
	name, track := fs.base(libc.GoString(zName))
	if track {
		fs.callBefore(name)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	xDelete := goFunc[deleteFunc](at[sqlite3.Tsqlite3_vfs](fs.realVFS).FxDelete)
	if !track {
		return xDelete(tls, fs.realVFS, zName, syncDir)
	}

	failed := syncDir != 0 && fs.failSyncs.hits(name)
	if failed {
		syncDir = 0
	}
	rc := xDelete(tls, fs.realVFS, zName, syncDir)
	if rc != sqlite3.SQLITE_OK && rc != sqlite3.SQLITE_IOERR_DIR_FSYNC {
		return rc
	}
	if f := fs.live[name]; f != nil {
		delete(fs.live, name)
		fs.release(f)
	}
	if rc == sqlite3.SQLITE_OK && syncDir != 0 {
		fs.syncDir()
	}
	if failed {
		return sqlite3.SQLITE_IOERR_DIR_FSYNC
	}
	return rc
}
