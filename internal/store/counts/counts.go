// Package counts counts entries by period, source and type.
package counts

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Each stored entry is counted once, by the hour and the day of its CreatedAt. Appends count nothing: a
// job (job.go) reads the entries after the last counted one, in the order of their identifiers, which
// begin with the time. It stores the numbers and its position in one transaction.
//
// An entry is timely if the time in its identifier is within maxIDDelay of CreatedAt. Only timely entries
// can be counted by position: once the time in an identifier is settleDelay ago, no transaction stores a
// timely entry before it. Other entries are imported ones, and those of an append that waited for long
// or whose clock was set. The transaction that stores them counts them (Add), unless the job still has to
// examine their identifiers for the first time.
//
// Every transaction that stores entries before a position or deletes entries locks the row of
// entry_counting and increments its version. The job reads entries without this lock, and reads them
// again if the version has changed. The lock is the last one of its transaction, except for that of the
// audit log.

const (
	// maxIDDelay is the maximum time between the creation of an identifier and the beginning of the
	// transaction that stores a timely entry.
	maxIDDelay = time.Minute

	// settleDelay is the age at which the job counts entries: the transactions that store timely ones have
	// ended, even if the clock of a node is a minute behind.
	settleDelay = maxIDDelay + engine.MaxWriteTime + time.Minute
)

// A Store keeps the counts of tenants. It is safe for concurrent use.
type Store struct {
	db  *kernel.DB
	due *Due
}

// New returns a Store on a database, whose job counts the entries of due tenants.
func New(db *kernel.DB, due *Due) *Store { return &Store{db: db, due: due} }

// Due has the tenants whose entries the job counts, and until when. It is safe for concurrent use.
type Due struct {
	mu    sync.Mutex
	until map[atrium.TenantID]time.Time // guarded by mu
}

// markInterval is the maximum time between two calls of Due.Appended for entries of one tenant.
const markInterval = 2 * time.Minute

// Appended makes the job count entries that were just stored, when they are settled.
func (d *Due) Appended(tenant atrium.TenantID, now time.Time) {
	d.add(tenant, now.Add(settleDelay+markInterval))
}

func (d *Due) add(tenant atrium.TenantID, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.until = map[atrium.TenantID]time.Time{}
	}
	if !until.Before(d.until[tenant]) {
		d.until[tenant] = until
	}
}

func (d *Due) tenants() []atrium.TenantID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.until))
}

// counted removes a tenant whose settled entries were counted, unless more are to settle.
func (d *Due) counted(tenant atrium.TenantID, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.until[tenant].After(now) {
		delete(d.until, tenant)
	}
}

// An Entry is what is counted of an entry.
type Entry struct {
	ID           atrium.EntryID
	CreatedAt    atrium.Time
	Source, Type string
}

// timely reports whether an entry is timely.
func (e *Entry) timely() bool { return newWindow(e.CreatedAt).has(e.ID) }

// A window has the identifiers of the timely entries of one CreatedAt.
type window struct{ from, to atrium.EntryID }

func newWindow(at atrium.Time) window {
	return window{atrium.FirstID[atrium.EntryID](at.Std().Add(-maxIDDelay)), atrium.FirstID[atrium.EntryID](at.Std().Add(maxIDDelay))}
}

func (w window) has(id atrium.EntryID) bool { return w.from <= id && id < w.to }

// Late returns the indexes of those of newly stored entries that the job will not count: see Add. All
// have the same CreatedAt.
func Late(entries []Entry) (late []int) {
	if len(entries) == 0 {
		return nil
	}
	window := newWindow(entries[0].CreatedAt)
	for i := range entries {
		if !window.has(entries[i].ID) {
			late = append(late, i)
		}
	}
	return late
}

// Add counts stored entries of a tenant, unless the job will. Call it at the end of the transaction that
// stores them, with all of them that may not be timely or not be new.
func Add(tx engine.Tx, tenant atrium.TenantID, entries []Entry) error {
	return adjust(tx, tenant, entries, 1)
}

// Remove removes deleted entries from the counts, if they were counted. Call it in the transaction that
// deletes them, after it has locked their accounts.
func Remove(tx engine.Tx, tenant atrium.TenantID, entries []Entry) error {
	return adjust(tx, tenant, entries, -1)
}

func adjust(tx engine.Tx, tenant atrium.TenantID, entries []Entry, sign int64) error {
	if len(entries) == 0 {
		return nil
	}
	state, err := lockState(tx, tenant)
	if err != nil {
		return err
	}
	for _, p := range state.passes() {
		found := numbers{}
		for i := range entries {
			if p.counted(&entries[i]) {
				found.add(&entries[i], sign)
			}
		}
		if err := p.write(tx, tenant, found); err != nil {
			return err
		}
	}
	return state.save(tx)
}

// counted reports whether the pass has counted an entry, or would have, had it been stored.
func (p *pass) counted(e *Entry) bool {
	after := p.untimelyAfter
	if e.timely() {
		after = p.timelyAfter
	}
	return bytes.Compare(kernel.IDArg(e.ID).([]byte), after) <= 0
}
