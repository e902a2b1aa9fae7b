package engine

import (
	"encoding/binary"
	"errors"
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
// revision. A commit of another process may have changed everything: the count has grown by
// more than one then. It begins anew when a process was killed in the middle of a commit, so
// that one which was 0 tells nothing.
const (
	walHeaderBytes = 48
	subjectSlots   = 4096
)

// A walHeader is the header of the shared memory, as it is.
type walHeader [walHeaderBytes / 8]uint64

// commits returns the count of commits, which goes round and begins anew.
func (h *walHeader) commits() uint32 {
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], h[1])
	return binary.NativeEndian.Uint32(word[:])
}

// revisions are those of what a database has stored.
type revisions struct {
	mapping sync.RWMutex                       // held by who reads the header, but for the writer in its turn
	shared  *[walHeaderBytes / 8]atomic.Uint64 // the header, written by SQLite; nil if there are no revisions, or no more
	path    string                             // of the file that the header is in; "" if it was not entered
	writing atomic.Bool                        // a transaction of the writer may be open

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
// once, for as long as it has any connection to the database: on unix the closing of any
// descriptor of a file drops all the locks that the process holds on it.
type sharedFile struct {
	users int
	file  *os.File
	bytes []byte // its first page, mapped
}

// open opens it, once there is a connection. sharedFilesMutex is held.
func (f *sharedFile) open(path string) (err error) {
	if f.file == nil {
		f.file, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	return err
}

var (
	sharedFiles      = map[string]*sharedFile{} // by path; guarded by sharedFilesMutex
	sharedFilesMutex sync.Mutex
)

// enter is called before the first connection to a database is made.
func (r *revisions) enter(path string) {
	sharedFilesMutex.Lock()
	defer sharedFilesMutex.Unlock()
	r.path = path + "-shm"
	if sharedFiles[r.path] == nil {
		sharedFiles[r.path] = &sharedFile{}
	}
	sharedFiles[r.path].users++
}

// share maps the header of a database that a connection has open. Without it there
// are no revisions.
func (r *revisions) share() {
	sharedFilesMutex.Lock()
	defer sharedFilesMutex.Unlock()
	f := sharedFiles[r.path]
	if f.file == nil {
		if f.open(r.path) != nil {
			return
		}
		var err error
		if f.bytes, err = syscall.Mmap(int(f.file.Fd()), 0, pageBytes, syscall.PROT_READ, syscall.MAP_SHARED); err != nil {
			f.bytes = nil
		}
	}
	mapped, err := f.file.Stat()
	there, e := os.Stat(r.path)
	if err != nil || e != nil || !os.SameFile(mapped, there) || f.bytes == nil {
		return // that of a database that was there before
	}
	r.seed = maphash.MakeSeed()
	r.shared = (*[walHeaderBytes / 8]atomic.Uint64)(unsafe.Pointer(&f.bytes[0])) // a page's beginning is aligned
}

// forget is called in the turn of the writer before connections are closed: the header is
// not that of the next ones.
func (r *revisions) forget() {
	r.mapping.Lock()
	defer r.mapping.Unlock()
	r.shared = nil
}

// leave is called once the connections are closed.
func (r *revisions) leave() error {
	sharedFilesMutex.Lock()
	defer sharedFilesMutex.Unlock()
	f := sharedFiles[r.path]
	if f == nil {
		return nil // it was not entered
	}
	if f.users--; f.users > 0 {
		return nil
	}
	delete(sharedFiles, r.path)
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	if f.bytes != nil { // it would keep the file system busy
		err = errors.Join(err, syscall.Munmap(f.bytes))
	}
	return err
}

// header returns what the header is. One that is read while it is written is none
// that there ever was.
func (r *revisions) header() (h walHeader) {
	for i := range h {
		h[i] = r.shared[i].Load()
	}
	return h
}

// of returns the revision of a subject.
func (r *revisions) of(subject string) (Revision, bool) {
	r.mapping.RLock()
	defer r.mapping.RUnlock()
	if r.shared == nil {
		return Revision{}, false
	}
	known := r.known.Load()
	if known == nil || r.header() != known.header {
		r.adopt()
		return Revision{}, false
	}
	revision := Revision{known.all}
	if subject != "" { // read after the header: who finds it changed finds this changed
		revision[1] = r.slot(subject).Load()
	}
	return revision, true
}

func (r *revisions) slot(subject string) *atomic.Uint64 {
	return &r.subjects[maphash.String(r.seed, subject)%subjectSlots]
}

// adopt takes the state that there is for one before which everything has changed, unless
// the writer is about to say what has.
func (r *revisions) adopt() {
	if r.writing.Load() || !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	r.set(r.header(), true)
}

// set makes a state the known one. r.mu is held.
func (r *revisions) set(h walHeader, all bool) {
	next := &knownState{header: h}
	if known := r.known.Load(); known != nil {
		next.all = known.all
	}
	if all {
		next.all++
	}
	r.known.Store(next)
}

// begin is called when the writer is about to begin a transaction.
func (r *revisions) begin() { r.writing.Store(true) }

// base returns the state that a write transaction which has begun goes out from.
func (r *revisions) base() (h walHeader) {
	if r.shared != nil {
		h = r.header()
	}
	return h
}

// end is called when a transaction has ended, before anybody is told. changed is what it
// has changed if it was committed, nil for everything.
func (r *revisions) end(base walHeader, changed map[string]bool) {
	defer r.writing.Store(false)
	if r.shared == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known, now := r.known.Load(), r.header()
	switch {
	case known == nil || now == known.header:
	case known.header == base && base.commits() > 0 && now.commits() == base.commits()+1 && changed != nil:
		for subject := range changed {
			r.slot(subject).Add(1)
		}
		r.set(now, false)
	default:
		r.set(now, true)
	}
}

func (db *sqliteDB) Revision(subject string) (Revision, bool) { return db.revisions.of(subject) }
