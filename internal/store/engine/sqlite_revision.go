package engine

import (
	"encoding/binary"
	"hash/maphash"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The rules of this file.
//
// The memory that all processes share which use a database in WAL mode begins with a
// header that every commit replaces (https://sqlite.org/walformat.html, section 2.1): it
// has a count of commits, the length of the log, and a checksum over the whole log. While
// it is the same, nobody has committed anything. SQLite reads it at the beginning of every
// transaction; here it is mapped, read without one, and compared.
//
// After a commit of this process the writer says what has changed, before anybody is
// told of it; in between, the header is not the one that is known, and there is no
// revision. A commit of another process may have changed everything.
const (
	walHeaderBytes = 48
	subjectSlots   = 4096
)

// A walHeader is the header of the shared memory, as it is.
type walHeader [walHeaderBytes / 8]uint64

// commits returns the count of commits, which goes round.
func (h *walHeader) commits() uint32 {
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], h[1])
	return binary.NativeEndian.Uint32(word[:])
}

// revisions are those of what a database has stored.
type revisions struct {
	shared  *[walHeaderBytes / 8]atomic.Uint64 // the header, written by SQLite; nil if there are no revisions
	file    *sharedFile
	writing atomic.Bool // a transaction of the writer may be open

	mu       sync.Mutex // held by who sets known
	known    atomic.Pointer[knownState]
	subjects [subjectSlots]atomic.Uint64 // how often what has its hash there has changed
	seed     maphash.Seed
}

// A knownState is a state of the database of which it is known what has changed since
// the one before.
type knownState struct {
	header walHeader
	all    uint64 // how often everything may have changed
}

// A sharedFile is the file of the shared memory of one database. This process has it open
// once, for as long as it has the database open: on unix the closing of any descriptor of a
// file drops all the locks that the process holds on it.
type sharedFile struct {
	file  *os.File
	bytes []byte // its first page, which stays mapped: who reads late reads what was
	users int
}

var (
	sharedFiles      = map[string]*sharedFile{} // by path; guarded by sharedFilesMutex
	sharedFilesMutex sync.Mutex
)

// share maps the header of a database that a connection has open. Without it there
// are no revisions.
func (v *revisions) share(path string) {
	path += "-shm"
	sharedFilesMutex.Lock()
	defer sharedFilesMutex.Unlock()
	f := sharedFiles[path]
	if f == nil {
		file, err := os.Open(path)
		if err != nil {
			return
		}
		f = &sharedFile{file: file}
		if f.bytes, err = syscall.Mmap(int(file.Fd()), 0, pageBytes, syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
			f.bytes = nil
		}
		sharedFiles[path] = f
	}
	f.users++
	v.file, v.seed = f, maphash.MakeSeed()
	if f.bytes != nil {
		v.shared = (*[walHeaderBytes / 8]atomic.Uint64)(unsafe.Pointer(&f.bytes[0])) // of a page's beginning, and so aligned
	}
}

// leave is called once the connections are closed.
func (v *revisions) leave() error {
	if v.file == nil {
		return nil
	}
	sharedFilesMutex.Lock()
	defer sharedFilesMutex.Unlock()
	if v.file.users--; v.file.users > 0 {
		return nil
	}
	delete(sharedFiles, v.file.file.Name())
	return v.file.file.Close()
}

// header returns what the header is. One that is read while it is written is none
// that there ever was.
func (v *revisions) header() (h walHeader) {
	for i := range h {
		h[i] = v.shared[i].Load()
	}
	return h
}

// of returns the revision of a subject.
func (v *revisions) of(subject string) (Revision, bool) {
	if v.shared == nil {
		return Revision{}, false
	}
	known := v.known.Load()
	if known == nil || v.header() != known.header {
		v.adopt()
		return Revision{}, false
	}
	revision := Revision{known.all}
	if subject != "" { // read after the header: who finds it changed finds this changed
		revision[1] = v.slot(subject).Load()
	}
	return revision, true
}

func (v *revisions) slot(subject string) *atomic.Uint64 {
	return &v.subjects[maphash.String(v.seed, subject)%subjectSlots]
}

// adopt takes the state that there is for one before which everything has changed, unless
// the writer is about to say what has.
func (v *revisions) adopt() {
	if v.writing.Load() || !v.mu.TryLock() {
		return
	}
	defer v.mu.Unlock()
	v.set(v.header(), true)
}

// set makes a state the known one. v.mu is held.
func (v *revisions) set(h walHeader, all bool) {
	next := &knownState{header: h}
	if known := v.known.Load(); known != nil {
		next.all = known.all
	}
	if all {
		next.all++
	}
	v.known.Store(next)
}

// begin is called when the writer is about to begin a transaction.
func (v *revisions) begin() { v.writing.Store(true) }

// base returns the state that a write transaction which has begun goes out from.
func (v *revisions) base() (h walHeader) {
	if v.shared != nil {
		h = v.header()
	}
	return h
}

// end is called when a transaction has ended, before anybody is told. changed is what it
// has changed if it was committed, nil for everything.
func (v *revisions) end(base walHeader, changed map[string]bool) {
	defer v.writing.Store(false)
	if v.shared == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known, now := v.known.Load(), v.header()
	switch {
	case known == nil || now == known.header:
	case known.header == base && now.commits() == base.commits()+1 && changed != nil:
		for subject := range changed {
			v.slot(subject).Add(1)
		}
		v.set(now, false)
	default:
		v.set(now, true)
	}
}

// checkpointed is called after a checkpoint, which changes the header when the log
// starts over, and else nothing that is stored.
func (v *revisions) checkpointed(before walHeader) {
	if v.shared == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known, now := v.known.Load(), v.header()
	if known != nil && known.header == before && now != before && now.commits() == before.commits() {
		v.set(now, false)
	}
}

func (db *sqliteDB) Revision(subject string) (Revision, bool) { return db.revisions.of(subject) }
