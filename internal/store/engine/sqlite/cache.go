package sqlite

import (
	"hash/maphash"
	"sync"

	"atrium/internal/store/engine"
)

// The rules of this file.
//
// A response that is cached under a CacheVersion is never older than an acknowledged write, whichever
// process wrote. This follows from PRAGMA data_version
// (https://www.sqlite.org/pragma.html#pragma_data_version): its value on a connection changes when
// any other connection, in any process, commits. It does not change when the connection itself commits.
// Two connections are asked:
//
//   - The observer never writes, so its value changes with every commit.
//   - The writer's value changes with every commit but its own.
//
// The versions belong to one value of the observer. A version is returned only while the observer still
// has that value: then nothing was committed since, and all that was committed before is in the version.
// So if a version is the same at two times, no commit in between has changed what it covers. Whoever finds
// another value brings the versions up to date:
//
//   - The writer, after its commit and before that is acknowledged, asks the observer, then itself. If
//     its own value is the one from before, nobody else has committed up to the moment at which
//     the observer was asked, and only the versions of the commit's cache tags change.
//   - Otherwise another process has committed, and all versions change. The writer asks the observer again, so
//     that no commit is in its own value that is not in the observer's.
//   - A read changes all versions, too. While the writer is in a transaction, it does not, and gets
//     no version, because the new value may be that of the writer's commit.
//
// The writer also asks itself at the beginning of a transaction, when nobody else can commit. That only
// keeps a commit of another process from changing all versions twice.

// tagSlots bounds the memory for cache tags. Tags that share a slot change together.
const tagSlots = 4096

// unknownVersion stands for a data_version that could not be read.
const unknownVersion = -1

// cacheVersions are the versions of all cache tags of a database.
type cacheVersions struct {
	mu       sync.Mutex  // held for all that follows
	observer *connection // nil if there are no versions
	observed int64       // the data_version of the observer that the versions belong to
	foreign  int64       // the data_version of the writer when it was asked last
	writing  bool        // the writer is in a transaction
	all      uint64      // how often everything may have changed
	tags     [tagSlots]uint64
	seed     maphash.Seed
}

// open starts to track versions on a connection that only reads.
func (v *cacheVersions) open(observer *connection) {
	v.mu.Lock()
	defer v.mu.Unlock()
	observer.conn.SetBusyTimeout(0) // a read does not wait for a version
	v.observer, v.observed, v.seed = observer, unknownVersion, maphash.MakeSeed()
}

// close closes the observer. There are no versions any more.
func (v *cacheVersions) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.observer == nil {
		return nil
	}
	observer := v.observer
	v.observer = nil
	return observer.conn.Close()
}

// of returns the version of a tag.
func (v *cacheVersions) of(tag string) (engine.CacheVersion, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.observer == nil {
		return engine.CacheVersion{}, false
	}
	now := dataVersion(v.observer)
	if now == unknownVersion || now != v.observed && v.writing {
		return engine.CacheVersion{}, false
	}
	v.adopt(now)
	version := engine.CacheVersion{v.all}
	if tag != "" {
		version[1] = v.tags[v.slot(tag)]
	}
	return version, true
}

// begin is called when the writer has begun a transaction, so that nobody else commits.
func (v *cacheVersions) begin(writer *connection) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.observer == nil {
		return
	}
	v.writing = true
	if v.othersCommitted(writer) {
		v.adopt(dataVersion(v.observer))
	}
}

// end is called when a transaction of the writer has ended, before its commit is
// acknowledged. changed has its cache tags, and is nil for everything.
func (v *cacheVersions) end(writer *connection, changed map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.observer == nil {
		return
	}
	v.writing = false
	now := dataVersion(v.observer)
	if now == v.observed && now != unknownVersion {
		return // nothing was committed
	}
	if v.othersCommitted(writer) || changed == nil || now == unknownVersion {
		v.adopt(dataVersion(v.observer))
		return
	}
	for tag := range changed {
		v.tags[v.slot(tag)]++
	}
	v.observed = now
}

// othersCommitted reports whether other connections may have committed since the last call. v.mu is held.
func (v *cacheVersions) othersCommitted(writer *connection) bool {
	before := v.foreign
	v.foreign = dataVersion(writer)
	return v.foreign != before || v.foreign == unknownVersion
}

// adopt changes all versions unless they belong to a value of the observer. v.mu is held.
func (v *cacheVersions) adopt(now int64) {
	if now != v.observed || now == unknownVersion {
		v.all++
		v.observed = now
	}
}

func (v *cacheVersions) slot(tag string) uint64 { return maphash.String(v.seed, tag) % tagSlots }

// dataVersion returns what PRAGMA data_version says on a connection, unknownVersion if it fails.
func dataVersion(c *connection) int64 {
	version := int64(unknownVersion)
	if err := engine.Find(c.Query, "PRAGMA data_version", nil, func(r engine.Row) { version = r.Int(0) }); err != nil {
		return unknownVersion
	}
	return version
}

func (db *database) CacheVersion(tag string) (engine.CacheVersion, bool) { return db.versions.of(tag) }
