package store

import (
	"context"
	"errors"

	"atrium"
	"atrium/internal/store/engine"
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
	err = s.read(ctx, func(tx engine.Tx) error {
		l := &prospectList{tx: tx, tenant: tenant, words: f.Words}
		read, judge := l.newest, l.judge
		switch {
		case f.AccountID != "":
			if l.account, err = leadsTo(tx, tenant, f.AccountID); err != nil && !errors.Is(err, engine.ErrNoRow) {
				return err
			}
			read = l.linked
		case len(f.Words) > 0:
			read = l.search
		}
		if len(f.Words) == 0 {
			judge = nil
		}
		page, position, err := scan(after, limit, read, judge)
		found, next = make([]atrium.Prospect, len(page)), position
		for i := range page {
			found[i] = page[i].Prospect
		}
		return err
	})
	return found, next, err
}

func (l *prospectList) newest(after *atrium.Position, n int) ([]row[foundProspect], error) {
	q := selecting("SELECT "+prospectColumns+" FROM prospects p WHERE tenant_id = ", idArg(l.tenant))
	q.after("created_at", "prospect_id", after)
	q.add(" ORDER BY created_at DESC, prospect_id DESC LIMIT ", int64(n))
	return l.inOrder(q)
}

func (l *prospectList) linked(after *atrium.Position, n int) ([]row[foundProspect], error) {
	q := selecting("SELECT "+prospectColumns+` FROM account_prospects l
		JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id WHERE l.tenant_id = `, idArg(l.tenant))
	q.add(" AND l.account_id = ", idArg(l.account))
	q.after("l.prospect_created_at", "l.prospect_id", after)
	q.add(" ORDER BY l.prospect_created_at DESC, l.prospect_id DESC LIMIT ", int64(n))
	return l.inOrder(q)
}

// inOrder returns what a statement finds, the newest first, with errFull if that is
// more than listBytes.
func (l *prospectList) inOrder(q *selection) (rows []row[foundProspect], err error) {
	bytes := 0
	err = l.tx.Query(q.sql.String(), q.args, func(r engine.Row) error {
		if bytes >= listBytes {
			return errFull
		}
		w := &weighed{Row: r}
		p := scanProspect(w, 0, l.tenant)
		rows = append(rows, row[foundProspect]{foundProspect{Prospect: p}, *atrium.PositionAt(p.CreatedAt, p.ID), w.bytes})
		bytes += w.bytes
		return nil
	})
	return rows, err
}

// search returns the prospects of terms.
func (l *prospectList) search(after *atrium.Position, n int) (rows []row[foundProspect], err error) {
	prefix := sought(prospectWord, l.words)
	found, err := hits(l.tx, l.tenant, prefix, prefix, after, n)
	if err != nil {
		return nil, err
	}
	_, err = halve(found, func(found []hit) (err error) {
		rows, err = l.ofHits(found)
		return err
	})
	return rows, err
}

// ofHits returns the prospects of terms, or errFull if several have more than listBytes.
func (l *prospectList) ofHits(found []hit) (rows []row[foundProspect], err error) {
	ids := make([]engine.Args, len(found))
	for i, h := range found {
		ids[i] = engine.Args{idArg(l.tenant), packed(h.id)}
	}
	prospects, bytes := make(map[string]row[foundProspect], len(found)), 0
	_, err = l.tx.Batch(prospectsByID, ids, func(r engine.Row) error {
		if bytes > listBytes && len(ids) > 1 {
			return errFull
		}
		w := &weighed{Row: r}
		p := scanProspect(w, 0, l.tenant)
		prospects[suffix(p.ID)] = row[foundProspect]{thing: foundProspect{Prospect: p}, bytes: w.bytes}
		bytes += w.bytes
		return nil
	})
	for _, h := range found {
		p := prospects[h.id]
		p.thing.hit, p.at = h, h.position()
		rows = append(rows, p)
	}
	return rows, err
}

// judge says which of the rows have all words. A search comes upon a prospect by each
// of its terms, and passes it at the first.
func (l *prospectList) judge(rows []row[foundProspect]) ([]bool, int, error) {
	passes := make([]bool, len(rows))
	for i := range rows {
		p := &rows[i].thing
		terms := prospectTerms(&p.Prospect)
		first := terms.beginning(prospectWord, longest(l.words))
		passes[i] = terms.beginAll(prospectWord, l.words) && (p.hit.term == "" || p.hit.term == first)
	}
	return passes, 0, nil
}
