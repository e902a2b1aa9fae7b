package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/counts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
	"atrium/internal/store/pages"
)

// An Import is a record to store. An empty identifier is generated, and instants that were not
// given are set. Number 0 of a version means the next number.
type Import struct {
	Record  Record
	Created bool // its CreatedAt was given
	Updated bool // its UpdatedAt was given

	// Fingerprint is the fingerprint of an entry with an idempotency key (canonical.Fingerprint).
	// It is computed before the transaction, because that takes long.
	Fingerprint []byte

	// LegacyDomain is the legacy form of an account's domain (canonical.DomainForms), under which
	// the account may be stored already; "" if there is none.
	LegacyDomain string

	// AccountDomain is the domain, in both forms, of an account to which a prospect is linked, besides its AccountIDs; ""
	// for none.
	AccountDomain, LegacyAccountDomain string

	// MatchBy is how a prospect without an identifier is matched. Matcher.SetID sets the identifier before the
	// record is compared or stored.
	MatchBy MatchBy

	// Differs compares the stored record with the same identifier with this one. It returns the
	// name of the first member that differs, or "". It is called within a transaction and must
	// not call the store.
	Differs func(stored Record) string
}

// An ImportError says which record of a chunk cannot be stored, and why.
type ImportError struct {
	Index  int    // in the chunk
	Member string // of the record
	Detail string

	// Existing has the indexes of all records of the chunk that cannot be stored because the same identifier is
	// stored with other values, or another record has a unique member. It is empty for other reasons.
	Existing []int

	taken bool // another record has the unique member
}

// Error returns the member and the reason.
func (e *ImportError) Error() string { return e.Member + ": " + e.Detail }

// ErrChunkTooLarge says that a chunk is too large for one transaction: it refers to too many
// stored records, links too many prospects, or merges too many accounts. Nothing of it is stored.
// Import it in smaller parts, without the records that Unstored leaves out.
var ErrChunkTooLarge = errors.New("the chunk is too much for one transaction")

// How many bytes of stored records one chunk is compared with.
const (
	comparedBytes         = 16 << 20 // by Unstored, unless it is one record
	comparedInTransaction = 4 << 20  // with what other imports have stored since Unstored
)

// maxRegroupedAccounts is how many accounts the merges of one chunk may lock or change. A single
// merge has at most two groups of atrium.MaxMerged accounts.
const maxRegroupedAccounts = 1000

func refuse(index int, member, detail string) error {
	return &ImportError{Index: index, Member: member, Detail: detail}
}

func refuseTaken(index int, member, detail string) error {
	return &ImportError{Index: index, Member: member, Detail: detail, Existing: []int{index}, taken: true}
}

// refuseDifferent is the error for records whose identifiers are stored with other values. member differs in
// the first one.
func refuseDifferent(member string, indexes ...int) error {
	return &ImportError{Index: indexes[0], Member: member, Detail: "is not what is stored under the same identifier", Existing: indexes}
}

// An Imported is how many records of a chunk were new.
type Imported struct {
	Added int

	// How many of them are prospects with a link to an account, and without one.
	Linked, Unlinked int
}

// Import stores a chunk of records as one change and returns how many of them were new. If a
// record cannot be stored, nothing of the chunk is, and the error is an *ImportError. A record
// may refer to records before it. An entry that was erased is skipped. If any records were new, the
// audit log gets one row with how many there were of each kind. It returns ErrChunkTooLarge if the
// chunk is too large for one transaction.
func (s *Store) Import(ctx context.Context, c atrium.Change, chunk []Import) (Imported, error) {
	return s.importChunk(ctx, c, chunk, false)
}

// importChunk is Import. A copy from another store is not bounded, because that store has
// accepted it.
func (s *Store) importChunk(ctx context.Context, c atrium.Change, chunk []Import, copied bool) (imported Imported, err error) {
	for try := range importTries {
		imported, _, err = kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (Imported, error) {
			im := &importTx{
				tx: tx, tenant: c.TenantID, actor: c.Actor, now: tx.At, storedAt: tx.StoredAt(), kinds: map[string]any{},
				copy: copied, bounded: !copied && len(chunk) > 1, groups: map[atrium.AccountID]*accounts.Group{},
			}
			for _, run := range runs(chunk) {
				before := im.added
				if err := im.run(run); err != nil {
					return Imported{}, err
				}
				im.count(run, im.added-before)
			}
			if err := counts.Add(tx, c.TenantID, im.entriesAdded); err != nil {
				return Imported{}, err
			}
			if im.added > 0 {
				tx.RecordDetail("import", string(c.TenantID), im.kinds)
			}
			return Imported{im.added, im.linked, im.unlinked}, nil
		})
		// A record that was not found and then conflicted with a stored one may have been stored
		// by a concurrent import of the same chunk. The next attempt finds it.
		refused, ok := errors.AsType[*ImportError](err)
		if ok && refused.taken && try+1 < importTries {
			continue
		}
		if ok {
			return Imported{}, refused
		}
		break
	}
	return imported, err
}

// Rows estimates how many rows of tables and indexes a record occupies.
func Rows(r Record) int {
	switch r := r.(type) {
	case *atrium.Account:
		return 4 + accounts.CountAccountTerms(r)
	case *atrium.LinkedProspect:
		return 2 + accounts.CountProspectTerms(&r.Prospect) + 2*len(r.AccountIDs)
	default:
		return 4
	}
}

// Unstored returns the indexes of the records of a chunk that must be imported: those that are
// not stored, and those of kinds whose records are small. It returns an *ImportError for a record
// that differs from the stored one with the same identifier. The comparison blocks no writer. It
// returns ErrChunkTooLarge if the chunk has several records and there is too much to compare.
func (s *Store) Unstored(ctx context.Context, tenant atrium.TenantID, chunk []Import) (indexes []int, err error) {
	var lookups [3]lookup
	at := map[string][]int{} // indexes by identity
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
						return refuseDifferent(member, i)
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

// packedID returns the stored form of the identifier of a record of a large kind, to find it by.
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

// importTries is how often a chunk is tried that conflicts with concurrent imports.
const importTries = kernel.MaxTries

// An importRun is a part of a chunk that is stored by the same statements: records of one kind
// with distinct identifiers.
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

// An importTx is one transaction of Import.
type importTx struct {
	tx       *kernel.Mutation
	tenant   atrium.TenantID
	actor    string
	now      atrium.Time
	storedAt int64
	added    int
	linked   int            // prospects of added with a link to an account
	unlinked int            // prospects of added without one
	kinds    map[string]any // how many records of each kind were added, by its plural name
	compared int            // bytes of stored records that were read
	copied   int64          // links to prospects that were read or written

	entriesAdded []counts.Entry

	copy      bool                                 // the records are copied from another store
	bounded   bool                                 // the chunk has several records, so that it can be split
	groups    map[atrium.AccountID]*accounts.Group // locked groups, by each of their accounts
	regrouped int                                  // accounts that merges have locked or changed
}

// count counts the records of a run that were added.
func (im *importTx) count(run importRun, added int) {
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
	case *atrium.Tombstone:
		kind = "tombstones"
	case *atrium.Entry:
		kind = "entries"
	}
	before, _ := im.kinds[kind].(int)
	im.kinds[kind] = before + added
}

func (im *importTx) run(run importRun) error {
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
	case *atrium.Tombstone:
		return im.tombstones(run)
	case *atrium.Entry:
		return im.entries(run)
	default:
		return fmt.Errorf("import a %T", run.items[0].Record)
	}
}

// A pending is a record of a run that must be stored, with its index.
type pending[R any] struct {
	index  int
	item   Import
	record R
}

// notStored returns the records of a run that are not stored under their identifiers. It refuses
// a record that differs from the stored one.
func notStored[R any](run importRun, stored map[string]Record) (todo []pending[R], err error) {
	var different []int
	var first string // member that differs
	for i, item := range run.items {
		have, ok := stored[identity(item.Record)]
		if !ok {
			todo = append(todo, pending[R]{run.first + i, item, item.Record.(R)})
			continue
		}
		if member := item.Differs(have); member != "" {
			different = append(different, run.first+i)
			first = cmp.Or(first, member)
		}
	}
	if len(different) > 0 {
		return nil, refuseDifferent(first, different...)
	}
	return todo, nil
}

// identities returns the arguments that find the stored records of a run.
func identities[T atrium.Identifier](tenant atrium.TenantID, run importRun) (rows []engine.Args) {
	for _, item := range run.items {
		if id := identity(item.Record); id != "" {
			rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(T(id))})
		}
	}
	return rows
}

// find runs a batch that finds records, and returns what scan makes of the rows, by identity.
func (im *importTx) find(b *engine.Batch, rows []engine.Args, scan func(engine.Row) Record) (map[string]Record, error) {
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

// setID generates an identifier if it is empty.
func setID[T atrium.Identifier](id *T) {
	if *id == "" {
		*id = atrium.NewID[T]()
	}
}

// setInstants sets instants that were not given: an update is at the creation, and a creation is
// no later than the update.
func (im *importTx) setInstants(item Import, created, updated *atrium.Time) {
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
