package powercut

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// The methods of an open file. Methods that change the file record the change, both under the mutex
// of the FS; all others only forward the call.

type ioMethods = sqlite3.Tsqlite3_io_methods

// The signatures of sqlite3_io_methods.
type (
	fileFunc    = func(tls *libc.TLS, pFile uintptr) int32
	voidFunc    = func(tls *libc.TLS, pFile uintptr)
	bufferFunc  = func(tls *libc.TLS, pFile, buf uintptr, n int32, off int64) int32
	int64Func   = func(tls *libc.TLS, pFile uintptr, n int64) int32
	int32Func   = func(tls *libc.TLS, pFile uintptr, n int32) int32
	resultFunc  = func(tls *libc.TLS, pFile, pResult uintptr) int32
	controlFunc = func(tls *libc.TLS, pFile uintptr, op int32, pArg uintptr) int32
	shmMapFunc  = func(tls *libc.TLS, pFile uintptr, region, size, extend int32, pp uintptr) int32
	shmLockFunc = func(tls *libc.TLS, pFile uintptr, off, n, flags int32) int32
	fetchFunc   = func(tls *libc.TLS, pFile uintptr, off int64, n int32, pp uintptr) int32
	unfetchFunc = func(tls *libc.TLS, pFile uintptr, off int64, p uintptr) int32
)

// methodsFor returns our method table for files with the given wrapped table, 0 if out of memory. A
// method that is missing there is missing here, because SQLite infers features from methods:
// without shared memory methods, there is no WAL.
func (fs *FS) methodsFor(tls *libc.TLS, wrapped uintptr) uintptr {
	if m := fs.methods[wrapped]; m != 0 {
		return m
	}
	m := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(ioMethods{})))
	if m == 0 {
		return 0
	}
	t := at[ioMethods](m)
	*t = *at[ioMethods](wrapped)
	for _, e := range []struct {
		slot *uintptr
		ours uintptr
	}{
		{&t.FxClose, cFunc(ioClose)},
		{&t.FxRead, cFunc(ioRead)},
		{&t.FxWrite, cFunc(ioWrite)},
		{&t.FxTruncate, cFunc(ioTruncate)},
		{&t.FxSync, cFunc(ioSync)},
		{&t.FxFileSize, cFunc(ioFileSize)},
		{&t.FxLock, cFunc(ioLock)},
		{&t.FxUnlock, cFunc(ioUnlock)},
		{&t.FxCheckReservedLock, cFunc(ioCheckReservedLock)},
		{&t.FxFileControl, cFunc(ioFileControl)},
		{&t.FxSectorSize, cFunc(ioSectorSize)},
		{&t.FxDeviceCharacteristics, cFunc(ioDeviceCharacteristics)},
		{&t.FxShmMap, cFunc(ioShmMap)},
		{&t.FxShmLock, cFunc(ioShmLock)},
		{&t.FxShmBarrier, cFunc(ioShmBarrier)},
		{&t.FxShmUnmap, cFunc(ioShmUnmap)},
		{&t.FxFetch, cFunc(ioFetch)},
		{&t.FxUnfetch, cFunc(ioUnfetch)},
	} {
		if *e.slot != 0 {
			*e.slot = e.ours
		}
	}
	fs.methods[wrapped] = m
	return m
}

// wrapped returns the wrapped file inside pFile and its methods.
func wrapped(pFile uintptr) (uintptr, *ioMethods) {
	inner := pFile + headerSize
	return inner, at[ioMethods](at[sqlite3.Tsqlite3_file](inner).FpMethods)
}

func closeInner(tls *libc.TLS, inner uintptr) int32 {
	m := at[ioMethods](at[sqlite3.Tsqlite3_file](inner).FpMethods)
	return goFunc[fileFunc](m.FxClose)(tls, inner)
}

func ioClose(tls *libc.TLS, pFile uintptr) int32 {
	h := handleOf(pFile)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	rc := closeInner(tls, pFile+headerSize)
	removeHandle(at[header](pFile).id)
	h.fs.open--
	if h.f != nil {
		h.f.handles--
		h.fs.release(h.f)
	}
	return rc
}

func ioWrite(tls *libc.TLS, pFile, buf uintptr, n int32, off int64) int32 {
	inner, m := wrapped(pFile)
	xWrite := goFunc[bufferFunc](m.FxWrite)
	h := handleOf(pFile)
	if h.f == nil {
		return xWrite(tls, inner, buf, n, off)
	}
	h.fs.callBefore(h.f.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.fs.failWrites.hits(h.f.name) {
		return h.fs.writeCode
	}
	c, err := h.f.beforeWrite(off, int64(n))
	if err != nil {
		return sqlite3.SQLITE_IOERR_WRITE
	}
	rc := xWrite(tls, inner, buf, n, off)
	if h.f.done(c) != nil {
		return sqlite3.SQLITE_IOERR_WRITE
	}
	return rc
}

func ioTruncate(tls *libc.TLS, pFile uintptr, length int64) int32 {
	inner, m := wrapped(pFile)
	xTruncate := goFunc[int64Func](m.FxTruncate)
	h := handleOf(pFile)
	if h.f == nil {
		return xTruncate(tls, inner, length)
	}
	h.fs.callBefore(h.f.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	c, err := h.f.beforeResize(length)
	if err != nil {
		return sqlite3.SQLITE_IOERR_TRUNCATE
	}
	rc := xTruncate(tls, inner, length)
	if h.f.done(c) != nil {
		return sqlite3.SQLITE_IOERR_TRUNCATE
	}
	return rc
}

func ioSync(tls *libc.TLS, pFile uintptr, flags int32) int32 {
	inner, m := wrapped(pFile)
	xSync := goFunc[int32Func](m.FxSync)
	h := handleOf(pFile)
	if h.f == nil {
		return xSync(tls, inner, flags)
	}
	h.fs.callBefore(h.f.name)
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.fs.failSyncs.hits(h.f.name) {
		h.f.failed++
		h.seen = h.f.failed
		if h.fs.dropSyncs && h.f.drop() != nil {
			return sqlite3.SQLITE_IOERR_READ
		}
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	rc := xSync(tls, inner, flags)
	if rc != sqlite3.SQLITE_OK {
		return rc
	}
	h.f.synced()
	if h.syncDir {
		h.syncDir = false
		h.fs.syncDir()
	}
	if h.seen < h.f.failed {
		h.seen = h.f.failed
		return sqlite3.SQLITE_IOERR_FSYNC
	}
	return rc
}

func ioFileControl(tls *libc.TLS, pFile uintptr, op int32, pArg uintptr) int32 {
	inner, m := wrapped(pFile)
	xFileControl := goFunc[controlFunc](m.FxFileControl)
	h := handleOf(pFile)
	if h.f == nil || op != sqlite3.SQLITE_FCNTL_SIZE_HINT {
		return xFileControl(tls, inner, op, pArg)
	}
	// A size hint extends a memory-mapped file immediately.
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	before, err := h.f.length()
	if err != nil {
		return sqlite3.SQLITE_IOERR_FSTAT
	}
	rc := xFileControl(tls, inner, op, pArg)
	if h.f.done(change{off: before, before: before}) != nil {
		return sqlite3.SQLITE_IOERR_FSTAT
	}
	return rc
}

func ioRead(tls *libc.TLS, pFile, buf uintptr, n int32, off int64) int32 {
	inner, m := wrapped(pFile)
	return goFunc[bufferFunc](m.FxRead)(tls, inner, buf, n, off)
}

func ioFileSize(tls *libc.TLS, pFile, pSize uintptr) int32 {
	inner, m := wrapped(pFile)
	return goFunc[resultFunc](m.FxFileSize)(tls, inner, pSize)
}

func ioLock(tls *libc.TLS, pFile uintptr, level int32) int32 {
	inner, m := wrapped(pFile)
	return goFunc[int32Func](m.FxLock)(tls, inner, level)
}

func ioUnlock(tls *libc.TLS, pFile uintptr, level int32) int32 {
	inner, m := wrapped(pFile)
	return goFunc[int32Func](m.FxUnlock)(tls, inner, level)
}

func ioCheckReservedLock(tls *libc.TLS, pFile, pResult uintptr) int32 {
	inner, m := wrapped(pFile)
	return goFunc[resultFunc](m.FxCheckReservedLock)(tls, inner, pResult)
}

func ioSectorSize(tls *libc.TLS, pFile uintptr) int32 {
	inner, m := wrapped(pFile)
	return goFunc[fileFunc](m.FxSectorSize)(tls, inner)
}

func ioDeviceCharacteristics(tls *libc.TLS, pFile uintptr) int32 {
	inner, m := wrapped(pFile)
	return goFunc[fileFunc](m.FxDeviceCharacteristics)(tls, inner)
}

func ioShmMap(tls *libc.TLS, pFile uintptr, region, size, extend int32, pp uintptr) int32 {
	inner, m := wrapped(pFile)
	return goFunc[shmMapFunc](m.FxShmMap)(tls, inner, region, size, extend, pp)
}

func ioShmLock(tls *libc.TLS, pFile uintptr, off, n, flags int32) int32 {
	inner, m := wrapped(pFile)
	return goFunc[shmLockFunc](m.FxShmLock)(tls, inner, off, n, flags)
}

func ioShmBarrier(tls *libc.TLS, pFile uintptr) {
	inner, m := wrapped(pFile)
	goFunc[voidFunc](m.FxShmBarrier)(tls, inner)
}

func ioShmUnmap(tls *libc.TLS, pFile uintptr, deleteFlag int32) int32 {
	inner, m := wrapped(pFile)
	return goFunc[int32Func](m.FxShmUnmap)(tls, inner, deleteFlag)
}

func ioFetch(tls *libc.TLS, pFile uintptr, off int64, n int32, pp uintptr) int32 {
	inner, m := wrapped(pFile)
	return goFunc[fetchFunc](m.FxFetch)(tls, inner, off, n, pp)
}

func ioUnfetch(tls *libc.TLS, pFile uintptr, off int64, p uintptr) int32 {
	inner, m := wrapped(pFile)
	return goFunc[unfetchFunc](m.FxUnfetch)(tls, inner, off, p)
}
