package entries

import (
	"cmp"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// An interleaving reads the entries of accounts as one list, newest first: an index scan for
// each, in chunks that grow, of which the newest entry is always the next one. So a
// reader that stops early has read little more than it was given. All chunks together
// hold about kernel.ListBytes, and a row of each account.
type interleaving[T any] struct {
	tx      engine.Tx
	tenant  atrium.TenantID
	columns string // of entries e; those of any length are inline
	scan    func(engine.Row) T
	since   *atrium.Time // how far back it goes; nil for all
	chunk   int          // how many rows of an account are read first
	lanes   []*lane[T]
}

// A lane is one account of an interleaving.
type lane[T any] struct {
	account atrium.AccountID
	after   *atrium.Position // the last one that was read
	rows    []placed[T]
	chunk   int
	ended   bool
}

// A placed is an entry with its place in the list.
type placed[T any] struct {
	at      atrium.Position
	account atrium.AccountID // that it is kept under
	value   T
}

// The bounds of a chunk, in rows.
const (
	leastChunk = 8
	mostChunk  = 1000
)

// interleave returns an interleaving of the entries behind a position, nil for the first, of
// which about so many are wanted.
func interleave[T any](tx engine.Tx, tenant atrium.TenantID, accounts []atrium.AccountID, f *atrium.TimelineFilter, after *atrium.Position,
	wanted int, columns string, scan func(engine.Row) T,
) *interleaving[T] {
	m := &interleaving[T]{tx: tx, tenant: tenant, columns: columns, scan: scan, since: f.Since}
	m.chunk = min(max(leastChunk, (wanted+len(accounts)-1)/len(accounts)), mostChunk)
	if after == nil && f.Until != nil {
		after = before(*f.Until)
	}
	for _, id := range accounts {
		m.lanes = append(m.lanes, &lane[T]{account: id, after: after, chunk: m.chunk})
	}
	return m
}

// before returns the position that comes ahead of all that was made before an instant,
// and behind the rest.
func before(t atrium.Time) *atrium.Position {
	return &atrium.Position{Key: int64(t), ID: "00000000000000000000000000"}
}

// next returns the next entry, nil at the end.
func (m *interleaving[T]) next() (*placed[T], error) {
	var first *lane[T]
	for _, l := range m.lanes {
		if len(l.rows) == 0 && !l.ended {
			if err := m.fill(l); err != nil {
				return nil, err
			}
		}
		if len(l.rows) > 0 && (first == nil || newer(l.rows[0].at, first.rows[0].at)) {
			first = l
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

func (m *interleaving[T]) fill(l *lane[T]) error {
	q := kernel.Select("SELECT e.created_at, e.entry_id, "+m.columns+" FROM entries e WHERE tenant_id = ", kernel.IDArg(m.tenant))
	q.Add(" AND account_id = ", kernel.IDArg(l.account))
	if m.since != nil {
		q.Add(" AND created_at >= ", int64(*m.since))
	}
	q.After("created_at", "entry_id", l.after)
	q.Add(" ORDER BY created_at DESC, entry_id DESC LIMIT ", int64(l.chunk))
	l.rows = make([]placed[T], 0, l.chunk)
	w := &kernel.SizedRow{}
	err := m.tx.Query(q.SQL.String(), q.Args, func(r engine.Row) error {
		if w.Size >= kernel.ListBytes/len(m.lanes) {
			return kernel.ErrPageFull
		}
		w.Row = r
		at := atrium.PositionAt(atrium.Time(r.Int(0)), kernel.IDAt[atrium.EntryID](r, 1))
		l.rows = append(l.rows, placed[T]{*at, l.account, m.scan(w)})
		return nil
	})
	full := errors.Is(err, kernel.ErrPageFull)
	if err != nil && !full {
		return err
	}
	if l.ended = len(l.rows) < l.chunk && !full; !l.ended {
		l.after = &l.rows[len(l.rows)-1].at
	}
	if !full {
		l.chunk = min(2*l.chunk, mostChunk)
	}
	return nil
}
