package entries

import (
	"cmp"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// An entryIterator reads the entries of several accounts as one list, newest first, or those of all
// accounts, by identifier. It merges one index scan per account. Scans read chunks that start small
// and grow, so that a caller that stops early has read few extra rows. All buffered chunks together
// have about kernel.ListBytes, plus one row per account.
type entryIterator[T any] struct {
	tx      engine.Tx
	tenant  atrium.TenantID
	columns string // of entries e; values of any length must be inline
	scan    func(engine.Row) T
	since   *atrium.Time // only entries from then on; nil for all
	key     []byte       // only the entry with this key_match; nil for all
	chunk   int          // rows in the first chunk of an account
	cursors []*accountCursor[T]
}

// An accountCursor is the index scan of one account, or of all.
type accountCursor[T any] struct {
	account atrium.AccountID // "" for all
	after   *atrium.Position // the last row read
	rows    []entryRow[T]
	chunk   int
	done    bool
}

// An entryRow is an entry with its position in the list.
type entryRow[T any] struct {
	position atrium.Position
	account  atrium.AccountID // the account that stores it
	value    T
}

// Limits of the rows in a chunk.
const (
	minChunk = 8
	maxChunk = 1000
)

// newEntryIterator returns an iterator of the entries after a position, nil for the newest. wanted
// estimates how many entries the caller will read.
func newEntryIterator[T any](tx engine.Tx, tenant atrium.TenantID, accounts []atrium.AccountID, f *atrium.TimelineFilter, after *atrium.Position,
	wanted int, columns string, scan func(engine.Row) T,
) *entryIterator[T] {
	it := &entryIterator[T]{tx: tx, tenant: tenant, columns: columns, scan: scan, since: f.Since}
	it.chunk = min(max(minChunk, (wanted+len(accounts)-1)/len(accounts)), maxChunk)
	if after == nil && f.Until != nil {
		after = positionBefore(*f.Until)
	}
	for _, id := range accounts {
		it.cursors = append(it.cursors, &accountCursor[T]{account: id, after: after, chunk: it.chunk})
	}
	return it
}

// newTenantIterator returns an iterator of all entries of a tenant, by identifier, highest first,
// after a position, nil for the first entry. chunk is the number of rows in the first read.
func newTenantIterator[T any](tx engine.Tx, tenant atrium.TenantID, after *atrium.Position, chunk int, columns string, scan func(engine.Row) T) *entryIterator[T] {
	return &entryIterator[T]{
		tx: tx, tenant: tenant, columns: columns, scan: scan,
		cursors: []*accountCursor[T]{{after: after, chunk: min(max(minChunk, chunk), maxChunk)}},
	}
}

// newKeyIterator returns an iterator of the entry with an idempotency key.
func newKeyIterator[T any](tx engine.Tx, tenant atrium.TenantID, key string, columns string, scan func(engine.Row) T) *entryIterator[T] {
	return &entryIterator[T]{
		tx: tx, tenant: tenant, columns: columns, scan: scan, key: kernel.KeyMatch(key),
		cursors: []*accountCursor[T]{{chunk: minChunk}},
	}
}

// positionBefore returns a position after which the list continues with the newest entry created
// before t.
func positionBefore(t atrium.Time) *atrium.Position {
	return &atrium.Position{Key: int64(t), ID: "00000000000000000000000000"}
}

// next returns the next entry, nil at the end.
func (it *entryIterator[T]) next() (*entryRow[T], error) {
	var first *accountCursor[T]
	for _, c := range it.cursors {
		if len(c.rows) == 0 && !c.done {
			if err := it.fill(c); err != nil {
				return nil, err
			}
		}
		if len(c.rows) > 0 && (first == nil || newer(c.rows[0].position, first.rows[0].position)) {
			first = c
		}
	}
	if first == nil {
		return nil, nil
	}
	p := &first.rows[0]
	first.rows = first.rows[1:]
	return p, nil
}

func newer(a, b atrium.Position) bool {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID)) > 0
}

func (it *entryIterator[T]) fill(c *accountCursor[T]) error {
	q := kernel.Select("SELECT e.created_at, e.entry_id, e.account_id, "+it.columns+" FROM entries e WHERE tenant_id = ", kernel.IDArg(it.tenant))
	switch {
	case it.key != nil:
		q.Add(" AND key_match = ", it.key)
		q.Add(" LIMIT ", int64(c.chunk)) // there is one at most
	case c.account == "":
		if c.after != nil {
			q.Add(" AND entry_id < ", kernel.PackID(c.after.ID))
		}
		q.Add(" ORDER BY entry_id DESC LIMIT ", int64(c.chunk))
	default:
		q.Add(" AND account_id = ", kernel.IDArg(c.account))
		if it.since != nil {
			q.Add(" AND created_at >= ", int64(*it.since))
		}
		q.After("created_at", "entry_id", c.after)
		q.Add(" ORDER BY created_at DESC, entry_id DESC LIMIT ", int64(c.chunk))
	}
	c.rows = make([]entryRow[T], 0, c.chunk)
	w := &kernel.SizedRow{}
	err := it.tx.Query(q.SQL.String(), q.Args, func(r engine.Row) error {
		if w.Size >= kernel.ListBytes/len(it.cursors) {
			return kernel.ErrPageFull
		}
		w.Row = r
		at := atrium.PositionAt(atrium.Time(r.Int(0)), kernel.IDAt[atrium.EntryID](r, 1))
		c.rows = append(c.rows, entryRow[T]{*at, kernel.IDAt[atrium.AccountID](r, 2), it.scan(w)})
		return nil
	})
	full := errors.Is(err, kernel.ErrPageFull)
	if err != nil && !full {
		return err
	}
	if c.done = len(c.rows) < c.chunk && !full; !c.done {
		c.after = &c.rows[len(c.rows)-1].position
	}
	if !full {
		c.chunk = min(2*c.chunk, maxChunk)
	}
	return nil
}
