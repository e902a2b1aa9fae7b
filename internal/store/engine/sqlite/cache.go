package sqlite

import (
	"hash/maphash"
	"sync"

	"atrium/internal/store/engine"
)

// Cache versions.
//
// A response that is cached under a CacheVersion is never older than an acknowledged write,
// whichever process wrote. This follows from PRAGMA data_version
// (https://www.sqlite.org/pragma.html#pragma_data_version): its value on a connection changes when
// any other connection, in any process, commits. It does not change when the connection itself
// commits. Two connections read it:
//
//   - The observer never writes, so its value changes with every commit.
//   - The writer's value changes with every commit but its own.
//
// The versions belong to one value of the observer. A version is returned only while the observer
// still has that value: then nothing was committed since, and the version covers everything
// committed before. So if a version is the same at two times, no commit in between has changed the
// data that it covers. When the observer's value has changed, the versions are updated:
//
//   - After its commit, and before that is acknowledged, the writer reads the observer's value,
//     then its own. If its own value is unchanged, no other connection committed before the
//     observer was read, and only the versions of the commit's cache tags change.
//   - Otherwise another process has committed, and all versions change. The observer is read again,
//     so that the writer's value includes no commit that the observer's value does not.
//   - A read that finds a new value changes all versions, too, unless the writer is in a
//     transaction: the new value may then be that of the writer's commit, so the read gets no
//     version.
//
// The writer's value is also read at the beginning of a transaction, when no other connection can
// commit. That only prevents a commit of another process from changing all versions twice.

// tagSlots bounds the memory for cache tags. Tags that share a slot change together.
const tagSlots = 4096

// unknownVersion stands for a data_version that could not be read.
const unknownVersion = -1

// cacheVersions has the versions of all cache tags of a database.
type cacheVersions struct {
	mu       sync.Mutex       // guards all fields below
	observer *connection      // nil if the database is closed or read-only
	observed int64            // the observer's data_version that the versions belong to
	foreign  int64            // the writer's data_version when it was last read
	writing  bool             // the writer is in a transaction
	all      uint64           // number of times that all versions changed
	tags     [tagSlots]uint64 // number of changes per slot
	seed     maphash.Seed
}

// open starts to track versions with a read-only connection.
func (v *cacheVersions) open(observer *connection) {
	v.mu.Lock()
	defer v.mu.Unlock()
	observer.conn.SetBusyTimeout(0) // reading a version never waits
	v.observer, v.observed, v.seed = observer, unknownVersion, maphash.MakeSeed()
}

// close closes the observer. From then on, no versions are known.
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

// begin is called when the writer has begun a transaction, so that no other connection can commit.
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

// end is called when a transaction of the writer has ended, before its commit is acknowledged.
// changed has the cache tags that it changed, nil for all.
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

// othersCommitted reports whether other connections may have committed since the last call. The
// caller holds v.mu.
func (v *cacheVersions) othersCommitted(writer *connection) bool {
	before := v.foreign
	v.foreign = dataVersion(writer)
	return v.foreign != before || v.foreign == unknownVersion
}

// adopt changes all versions if the observer's value is new or unknown. The caller holds v.mu.
func (v *cacheVersions) adopt(now int64) {
	if now != v.observed || now == unknownVersion {
		v.all++
		v.observed = now
	}
}

func (v *cacheVersions) slot(tag string) uint64 { return maphash.String(v.seed, tag) % tagSlots }

// dataVersion returns PRAGMA data_version of a connection, unknownVersion if it fails.
func dataVersion(c *connection) int64 {
	version := int64(unknownVersion)
	if err := engine.Find(c.Query, "PRAGMA data_version", nil, func(r engine.Row) { version = r.Int(0) }); err != nil {
		return unknownVersion
	}
	return version
}

func (db *database) CacheVersion(tag string) (engine.CacheVersion, bool) { return db.versions.of(tag) }
