package accounts

import (
	"context"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A prospectList is one page of a list of prospects.
type prospectList struct {
	tx      engine.Tx
	tenant  atrium.TenantID
	words   []string
	account atrium.AccountID
}

// A foundProspect is a row of one; it has no identifier if there is none.
type foundProspect struct {
	atrium.Prospect
	hit hit // in the order of terms
}

// Prospects returns up to limit prospects that the filter lets pass and that come
// after the position, or from the first for nil, and the position from which the list
// goes on, nil at its end. They come newest first, or with Words alone in the order of
// the word that the longest of these begins. There may be fewer while the list goes
// on: the rows that one call reads are bounded. An account that does not exist has
// none; one that was merged has those of its survivor.
func (s *Store) Prospects(ctx context.Context, tenant atrium.TenantID, f atrium.ProspectFilter, after *atrium.Position, limit int,
) (found []atrium.Prospect, next *atrium.Position, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		l := &prospectList{tx: tx, tenant: tenant, words: f.Words}
		read, judge := l.newest, l.judge
		switch {
		case f.AccountID != "":
			if l.account, err = LeadsTo(tx, tenant, f.AccountID); err != nil && !errors.Is(err, engine.ErrNoRow) {
				return err
			}
			read = l.linked
		case len(f.Words) > 0:
			read = l.search
		}
		if len(f.Words) == 0 {
			judge = nil
		}
		page, position, err := kernel.ScanPage(after, limit, read, judge)
		found, next = make([]atrium.Prospect, len(page)), position
		for i := range page {
			found[i] = page[i].Prospect
		}
		return err
	})
	return found, next, err
}

func (l *prospectList) newest(after *atrium.Position, n int) ([]kernel.ScannedRow[foundProspect], error) {
	q := kernel.Select("SELECT "+ProspectColumns+" FROM prospects p WHERE tenant_id = ", kernel.IDArg(l.tenant))
	q.After("created_at", "prospect_id", after)
	q.Add(" ORDER BY created_at DESC, prospect_id DESC LIMIT ", int64(n))
	return l.inOrder(q)
}

func (l *prospectList) linked(after *atrium.Position, n int) ([]kernel.ScannedRow[foundProspect], error) {
	q := kernel.Select("SELECT "+ProspectColumns+` FROM account_prospects l
		JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id WHERE l.tenant_id = `, kernel.IDArg(l.tenant))
	q.Add(" AND l.account_id = ", kernel.IDArg(l.account))
	q.After("l.prospect_created_at", "l.prospect_id", after)
	q.Add(" ORDER BY l.prospect_created_at DESC, l.prospect_id DESC LIMIT ", int64(n))
	return l.inOrder(q)
}

// inOrder returns what a statement finds, the newest first, with kernel.ErrFull if that is
// more than kernel.ListBytes.
func (l *prospectList) inOrder(q *kernel.SelectBuilder) (rows []kernel.ScannedRow[foundProspect], err error) {
	bytes := 0
	err = l.tx.Query(q.SQL.String(), q.Args, func(r engine.Row) error {
		if bytes >= kernel.ListBytes {
			return kernel.ErrPageFull
		}
		w := &kernel.SizedRow{Row: r}
		p := ScanProspect(w, 0, l.tenant)
		rows = append(rows, kernel.ScannedRow[foundProspect]{Value: foundProspect{Prospect: p}, Position: *atrium.PositionAt(p.CreatedAt, p.ID), Bytes: w.Size})
		bytes += w.Size
		return nil
	})
	return rows, err
}

// search returns the prospects of terms.
func (l *prospectList) search(after *atrium.Position, n int) (rows []kernel.ScannedRow[foundProspect], err error) {
	prefix := sought(prospectWord, l.words)
	found, err := hits(l.tx, l.tenant, prefix, prefix, after, n)
	if err != nil {
		return nil, err
	}
	_, err = kernel.HalveUntilFits(found, func(found []hit) (err error) {
		rows, err = l.ofHits(found)
		return err
	})
	return rows, err
}

// ofHits returns the prospects of terms, or kernel.ErrFull if several have more than kernel.ListBytes.
func (l *prospectList) ofHits(found []hit) (rows []kernel.ScannedRow[foundProspect], err error) {
	ids := make([]engine.Args, len(found))
	for i, h := range found {
		ids[i] = engine.Args{kernel.IDArg(l.tenant), kernel.PackID(h.id)}
	}
	prospects, bytes := make(map[string]kernel.ScannedRow[foundProspect], len(found)), 0
	_, err = l.tx.Batch(ProspectsByID, ids, func(r engine.Row) error {
		if bytes > kernel.ListBytes && len(ids) > 1 {
			return kernel.ErrPageFull
		}
		w := &kernel.SizedRow{Row: r}
		p := ScanProspect(w, 0, l.tenant)
		prospects[suffix(p.ID)] = kernel.ScannedRow[foundProspect]{Value: foundProspect{Prospect: p}, Bytes: w.Size}
		bytes += w.Size
		return nil
	})
	for _, h := range found {
		p := prospects[h.id]
		p.Value.hit, p.Position = h, h.position()
		rows = append(rows, p)
	}
	return rows, err
}

// judge says which of the rows have all words. A search comes upon a prospect by each
// of its terms, and passes it at the first.
func (l *prospectList) judge(rows []kernel.ScannedRow[foundProspect]) ([]bool, int, error) {
	passes := make([]bool, len(rows))
	for i := range rows {
		p := &rows[i].Value
		terms := prospectTerms(&p.Prospect)
		first := terms.beginning(prospectWord, longest(l.words))
		passes[i] = terms.beginAll(prospectWord, l.words) && (p.hit.term == "" || p.hit.term == first)
	}
	return passes, 0, nil
}
