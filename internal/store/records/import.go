package records

import (
	"context"
	"errors"
	"fmt"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
	"atrium/internal/store/pages"
)

// An Import is one record to be stored. An identifier that is "" is made when it
// is, and so are the instants that were not given. Number 0 of a version stands
// for the next one.
type Import struct {
	Record  Record
	Created bool // its CreatedAt was given
	Updated bool // its UpdatedAt was given

	// Fingerprint is that of an entry with an idempotency key (canonical.Fingerprint): it
	// takes too long to be made in a transaction.
	Fingerprint []byte

	// LegacyDomain is the legacy form of an account's domain (canonical.DomainForms),
	// under which the account may be stored already; "" if there is none.
	LegacyDomain string

	// Differs returns the name of a member in which the stored record with the
	// same identifier is not what is imported, or "". It is called in a
	// transaction and must not call the store.
	Differs func(stored Record) string
}

// An ImportError says which record of a chunk cannot be stored, and why.
type ImportError struct {
	Index  int    // in the chunk
	Member string // of the record
	Detail string

	taken bool // something else has what must be unique
}

// Error names the member and the reason.
func (e *ImportError) Error() string { return e.Member + ": " + e.Detail }

// ErrChunkTooLarge says that a chunk would take more than one transaction should: it names
// too much of what is stored, links too many prospects, or merges too many accounts. Nothing of it is
// stored: it is to be imported in parts, of which Unstored leaves out what is stored.
var ErrChunkTooLarge = errors.New("the chunk is too much for one transaction")

// How much of what is stored, in bytes, one chunk is compared with.
const (
	comparedBytes         = 16 << 20 // by Unstored, unless it is one record
	comparedInTransaction = 4 << 20  // what another import has stored since
)

// maxRegroupedAccounts is how many accounts the merges of one chunk lock or change. A single
// merge has two groups of atrium.MaxMerged at most.
const maxRegroupedAccounts = 1000

func refuse(index int, member, detail string) error {
	return &ImportError{Index: index, Member: member, Detail: detail}
}

func refuseTaken(index int, member, detail string) error {
	return &ImportError{Index: index, Member: member, Detail: detail, taken: true}
}

// Import stores a chunk of records as one change and returns how many were new; the
// others were there already. When one cannot be stored, nothing of the chunk is, and
// the error is an *ImportError. A record may refer to those before it. The audit log
// has how many of each kind were new, if any. It is ErrChunkTooLarge if that is too much
// for one transaction.
func (s *Store) Import(ctx context.Context, c atrium.Change, chunk []Import) (added int, err error) {
	return s.importChunk(ctx, c, chunk, false)
}

// importChunk is Import. What is copied from another store has no bounds: it is stored
// there already.
func (s *Store) importChunk(ctx context.Context, c atrium.Change, chunk []Import, copied bool) (added int, err error) {
	for try := range importTries {
		added, _, err = kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (int, error) {
			im := &importing{
				tx: tx, tenant: c.TenantID, actor: c.Actor, now: tx.At, storedAt: tx.StoredAt(), kinds: map[string]any{},
				copy: copied, bounded: !copied && len(chunk) > 1, groups: map[atrium.AccountID]*accounts.Group{},
			}
			for _, run := range runs(chunk) {
				before := im.added
				if err := im.run(run); err != nil {
					return 0, err
				}
				im.count(run, im.added-before)
			}
			if im.added > 0 {
				tx.RecordDetail("import", string(c.TenantID), im.kinds)
			}
			return im.added, nil
		})
		// What was not there when it was looked for, and is taken when it is to be
		// stored, may be this chunk's own, from another node. The next try finds it.
		refused, ok := errors.AsType[*ImportError](err)
		if ok && refused.taken && try+1 < importTries {
			continue
		}
		if ok {
			return 0, refused
		}
		break
	}
	return added, err
}

// Unstored returns the indexes of the records of a chunk that are to be imported: those
// that are not stored, and those of kinds whose records are small. What is stored under the
// same identifier and is not the same is an *ImportError. It takes as long as comparing
// takes, and holds up no writer. It is ErrChunkTooLarge if that is too much at once; a
// chunk of one record never is.
func (s *Store) Unstored(ctx context.Context, tenant atrium.TenantID, chunk []Import) (indexes []int, err error) {
	var lookups [3]lookup
	at := map[string][]int{} // the indexes of each identity that is looked for
	for i, item := range chunk {
		l, id := 0, identity(item.Record)
		switch item.Record.(type) {
		case *atrium.Entry:
			lookups[l].batch = entriesByID
		case *atrium.AudienceVersion:
			l = 1
			lookups[l].batch = versionsByID
		case *atrium.Page, *atrium.ScheduledPage:
			l = 2
			lookups[l].batch = pagesByID
		default:
			continue
		}
		if at[id] = append(at[id], i); id != "" && len(at[id]) == 1 {
			lookups[l].rows = append(lookups[l].rows, engine.Args{kernel.IDArg(tenant), packedID(item.Record)})
		}
	}
	scans := [3]func(engine.Row) Record{
		scanned(tenant, entries.ScanEntry), scanned(tenant, pages.ScanVersion), func(r engine.Row) Record { return pageRecord(r, tenant) },
	}
	stored := map[int]bool{}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		clear(stored)
		compared := 0
		for l, lookup := range lookups {
			if len(lookup.rows) == 0 {
				continue
			}
			if _, err := tx.Batch(lookup.batch, lookup.rows, func(r engine.Row) error {
				w := kernel.SizedRow{Row: r}
				record := scans[l](&w)
				if compared += w.Size; compared > comparedBytes && len(chunk) > 1 {
					return ErrChunkTooLarge
				}
				for _, i := range at[identity(record)] {
					if member := chunk[i].Differs(record); member != "" {
						return refuse(i, member, "is not what is stored under the same identifier")
					}
					stored[i] = true
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if refused, ok := errors.AsType[*ImportError](err); ok {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	for i := range chunk {
		if !stored[i] {
			indexes = append(indexes, i)
		}
	}
	return indexes, nil
}

// packedID returns the argument by which a record of a large kind is found.
func packedID(r Record) any {
	switch r := r.(type) {
	case *atrium.Entry:
		return kernel.IDArg(r.ID)
	case *atrium.AudienceVersion:
		return kernel.IDArg(r.ID)
	case *atrium.Page:
		return kernel.IDArg(r.ID)
	case *atrium.ScheduledPage:
		return kernel.IDArg(r.ID)
	}
	return nil
}

// importTries is how often a chunk is stored that finds things taken.
const importTries = kernel.MaxTries

// An importRun is a part of a chunk that is stored at once: records of one
// kind, none of which has an identifier twice.
type importRun struct {
	first int // index in the chunk
	items []Import
}

func runs(chunk []Import) (all []importRun) {
	var kind string
	seen := map[string]bool{}
	for i, item := range chunk {
		k, id := fmt.Sprintf("%T", item.Record), identity(item.Record)
		if len(all) == 0 || k != kind || id != "" && seen[id] {
			all = append(all, importRun{first: i})
			kind = k
			clear(seen)
		}
		seen[id] = true
		last := &all[len(all)-1]
		last.items = append(last.items, item)
	}
	return all
}

func identity(r Record) string {
	switch r := r.(type) {
	case *atrium.Account:
		return string(r.ID)
	case *atrium.LinkedProspect:
		return string(r.ID)
	case *atrium.Merge:
		return "merge of " + string(r.AccountID)
	case *atrium.Brand:
		return string(r.ID)
	case *atrium.Page:
		return string(r.ID)
	case *atrium.ScheduledPage:
		return string(r.ID)
	case *atrium.Audience:
		return string(r.ID)
	case *atrium.AudienceVersion:
		return string(r.ID)
	case *atrium.Entry:
		return string(r.ID)
	}
	return ""
}

// An importing is one transaction of Import.
type importing struct {
	tx       *kernel.Mutation
	tenant   atrium.TenantID
	actor    string
	now      atrium.Time
	storedAt int64
	added    int
	kinds    map[string]any // how many were added of each, by the name of its plural
	compared int            // bytes of what is stored that were read
	copied   int64          // links to prospects that were read or written

	copy      bool                                 // it is stored in another store already
	bounded   bool                                 // it is ErrChunkTooLarge if it takes too long; one record never is
	groups    map[atrium.AccountID]*accounts.Group // those that are locked, by each of their accounts
	regrouped int                                  // accounts that merges have locked or changed
}

// count notes how many records of a run were added.
func (im *importing) count(run importRun, added int) {
	if added == 0 {
		return
	}
	kind := ""
	switch run.items[0].Record.(type) {
	case *atrium.Account:
		kind = "accounts"
	case *atrium.LinkedProspect:
		kind = "prospects"
	case *atrium.Merge:
		kind = "merges"
	case *atrium.Brand:
		kind = "brands"
	case *atrium.Page, *atrium.ScheduledPage:
		kind = "pages"
	case *atrium.Audience:
		kind = "audiences"
	case *atrium.AudienceVersion:
		kind = "versions"
	case *atrium.Entry:
		kind = "entries"
	}
	before, _ := im.kinds[kind].(int)
	im.kinds[kind] = before + added
}

func (im *importing) run(run importRun) error {
	switch run.items[0].Record.(type) {
	case *atrium.Account:
		return im.accounts(run)
	case *atrium.LinkedProspect:
		return im.prospects(run)
	case *atrium.Merge:
		return im.merges(run)
	case *atrium.Brand:
		return im.brands(run)
	case *atrium.Page, *atrium.ScheduledPage:
		return im.pages(run)
	case *atrium.Audience:
		return im.audiences(run)
	case *atrium.AudienceVersion:
		return im.versions(run)
	case *atrium.Entry:
		return im.entries(run)
	default:
		return fmt.Errorf("import a %T", run.items[0].Record)
	}
}

// A pending is a record of a run that is not stored yet, with its place.
type pending[R any] struct {
	index  int
	item   Import
	record R
}

// fresh returns the records of a run that are not stored under their
// identifiers. One that is, and differs, is refused.
func fresh[R any](run importRun, stored map[string]Record) (todo []pending[R], err error) {
	for i, item := range run.items {
		have, ok := stored[identity(item.Record)]
		if !ok {
			todo = append(todo, pending[R]{run.first + i, item, item.Record.(R)})
			continue
		}
		if member := item.Differs(have); member != "" {
			return nil, refuse(run.first+i, member, "is not what is stored under the same identifier")
		}
	}
	return todo, nil
}

// identities returns the arguments by which the stored records of a run are
// found.
func identities[T atrium.Identifier](tenant atrium.TenantID, run importRun) (rows []engine.Args) {
	for _, item := range run.items {
		if id := identity(item.Record); id != "" {
			rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(T(id))})
		}
	}
	return rows
}

// find runs one of the batches that find records, and returns what scan makes
// of the rows, by identity.
func (im *importing) find(b *engine.Batch, rows []engine.Args, scan func(engine.Row) Record) (map[string]Record, error) {
	found := make(map[string]Record, len(rows))
	_, err := im.tx.Batch(b, rows, func(r engine.Row) error {
		w := kernel.SizedRow{Row: r}
		record := scan(&w)
		found[identity(record)] = record
		if im.compared += w.Size; im.compared > comparedInTransaction && !im.copy {
			return ErrChunkTooLarge
		}
		return nil
	})
	return found, err
}

// orMake sets an identifier that was not given.
func orMake[T atrium.Identifier](id *T) {
	if *id == "" {
		*id = atrium.NewID[T]()
	}
}

// dates sets instants that were not given: an update that nobody dated was at
// the creation, and a creation was no later than the update.
func (im *importing) dates(item Import, created, updated *atrium.Time) {
	switch {
	case item.Created && item.Updated:
	case item.Created:
		*updated = *created
	case item.Updated:
		*created = min(im.now, *updated)
	default:
		*created, *updated = im.now, im.now
	}
}
