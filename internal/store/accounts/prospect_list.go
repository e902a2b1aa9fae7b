package accounts

import (
	"context"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A prospectList reads one page of a list of prospects.
type prospectList struct {
	tx      engine.Tx
	tenant  atrium.TenantID
	words   []string
	account atrium.AccountID
}

// A foundProspect is a row of a prospectList. It has no identifier if the prospect does not exist.
type foundProspect struct {
	atrium.Prospect
	hit hit // set in lists ordered by search term
}

// Prospects returns a page of up to limit prospects that pass the filter, after a position, nil
// for the first page. next is the position to continue after, nil at the end. The order is newest
// first. With only Words in the filter, it is the order of the terms that match the longest word.
// A page may be short before the end, because one call reads a limited number of rows. An account
// that does not exist has no prospects; a merged account has those of its survivor.
func (s *Store) Prospects(ctx context.Context, tenant atrium.TenantID, f atrium.ProspectFilter, after *atrium.Position, limit int,
) (found []atrium.Prospect, next *atrium.Position, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		l := &prospectList{tx: tx, tenant: tenant, words: f.Words}
		read, filter := l.newest, l.filterRows
		switch {
		case f.AccountID != "":
			if l.account, err = FindSurvivor(tx, tenant, f.AccountID); err != nil && !errors.Is(err, engine.ErrNoRow) {
				return err
			}
			read = l.linked
		case len(f.Words) > 0:
			read = l.search
		}
		if len(f.Words) == 0 {
			filter = nil
		}
		page, position, err := kernel.ScanPage(after, limit, read, filter)
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
	return l.queryRows(q)
}

func (l *prospectList) linked(after *atrium.Position, n int) ([]kernel.ScannedRow[foundProspect], error) {
	q := kernel.Select("SELECT "+ProspectColumns+` FROM account_prospects l
		JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id WHERE l.tenant_id = `, kernel.IDArg(l.tenant))
	q.Add(" AND l.account_id = ", kernel.IDArg(l.account))
	q.After("l.prospect_created_at", "l.prospect_id", after)
	q.Add(" ORDER BY l.prospect_created_at DESC, l.prospect_id DESC LIMIT ", int64(n))
	return l.queryRows(q)
}

// queryRows returns the rows of a query, with kernel.ErrPageFull if they exceed kernel.ListBytes.
func (l *prospectList) queryRows(q *kernel.SelectBuilder) (rows []kernel.ScannedRow[foundProspect], err error) {
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

// search returns the prospects whose terms match.
func (l *prospectList) search(after *atrium.Position, n int) (rows []kernel.ScannedRow[foundProspect], err error) {
	prefix := searchPrefix(prospectWord, l.words)
	found, err := findHits(l.tx, l.tenant, prefix, prefix, after, n)
	if err != nil {
		return nil, err
	}
	_, err = kernel.HalveUntilFits(found, func(found []hit) (err error) {
		rows, err = l.prospectsOfHits(found)
		return err
	})
	return rows, err
}

// prospectsOfHits returns the prospects of search hits. It returns kernel.ErrPageFull if several
// prospects have more than kernel.ListBytes.
func (l *prospectList) prospectsOfHits(found []hit) (rows []kernel.ScannedRow[foundProspect], err error) {
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

// filterRows is the filter for kernel.ScanPage. A search finds a prospect once for each of its
// matching terms; only the first of these hits is kept.
func (l *prospectList) filterRows(rows []kernel.ScannedRow[foundProspect]) ([]bool, int, error) {
	keep := make([]bool, len(rows))
	for i := range rows {
		p := &rows[i].Value
		terms := prospectTerms(&p.Prospect)
		first := terms.firstWithPrefix(prospectWord, longest(l.words))
		keep[i] = terms.matchAll(prospectWord, l.words) && (p.hit.term == "" || p.hit.term == first)
	}
	return keep, 0, nil
}
