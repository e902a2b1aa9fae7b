package store

import (
	"context"
	"errors"
	"math"

	"atrium"
	"atrium/internal/store/engine"
)

// This file reads accounts that may have any number of linked prospects, in bounded
// memory and never in a write transaction: that would hold up all other writers for as
// long as it takes.

// The prospects that one statement reads. Whoever reads them may write each to a slow
// client, which the statement must not wait for: a page is read before it is handed out.
const (
	prospectPage      = 200
	prospectPageBytes = 64 << 10 // of their texts; the last one may exceed it
)

// ReadAccount calls f with the account that an identifier leads to and with what was
// merged into it. All that EachProspect reads until f returns is of the same state. f
// should not take long: the state is kept in the database for as long. It is NotFound if
// there is no such account.
func (s *Store) ReadAccount(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID, f func(atrium.AccountDetail) error) error {
	return s.read(ctx, func(tx engine.Tx) error { return readAccount(ctx, tx, tenant, id, f) })
}

// readAccount is ReadAccount in a transaction.
func readAccount(ctx context.Context, tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID, f func(atrium.AccountDetail) error) error {
	d, err := findAccountDetail(tx, tenant, id)
	if err != nil {
		return err
	}
	d.Stream = until(ctx, prospectStream(tx, tenant, d.ID))
	return f(d)
}

// ReadProspects calls f with an account as a change has returned it, and the prospects
// that are linked to it now, as ReadAccount does. Its error says that the change was made.
func (s *Store) ReadProspects(ctx context.Context, d atrium.AccountDetail, f func(atrium.AccountDetail) error) error {
	err := s.read(ctx, func(tx engine.Tx) error {
		d.Stream = until(ctx, prospectStream(tx, d.TenantID, d.ID))
		return f(d)
	})
	if atrium.CodeOf(err) == atrium.CodeUnavailable {
		err = atrium.Errorf(atrium.CodeUnavailable, "The change was made, but the account cannot be read right now.").Because(err)
	}
	return err
}

// A stream reads prospects, as atrium.AccountDetail has it.
type stream = func(each func(*atrium.Prospect) error) error

// until returns a stream that is Unavailable when ctx has ended, which not every engine
// notices in the middle of a transaction.
func until(ctx context.Context, s stream) stream {
	return func(each func(*atrium.Prospect) error) error {
		return s(func(p *atrium.Prospect) error {
			if ctx.Err() != nil {
				return &engine.Error{Class: engine.Unavailable, Err: context.Cause(ctx)}
			}
			return each(p)
		})
	}
}

// prospectStream returns what reads the prospects that are linked to an account, in pages.
func prospectStream(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) stream {
	return func(each func(*atrium.Prospect) error) error {
		page := make([]atrium.Prospect, 0, prospectPage)
		after := engine.Args{int64(math.MinInt64), []byte{}} // before all
		for limit := prospectPage; ; {
			bytes := 0
			page = page[:0]
			err := tx.Query(selectLinked, engine.Args{idArg(tenant), idArg(id), after[0], after[1], int64(limit)}, func(r engine.Row) error {
				if bytes >= prospectPageBytes {
					return errFull
				}
				p := scanProspect(r, 0, tenant)
				bytes += textBytes(&p)
				page = append(page, p)
				return nil
			})
			full := errors.Is(err, errFull)
			if err != nil && !full {
				return err
			}
			for i := range page {
				if err := each(&page[i]); err != nil {
					return err
				}
			}
			if !full && len(page) < limit {
				return nil
			}
			last := &page[len(page)-1]
			after = engine.Args{int64(last.CreatedAt), idArg(last.ID)}
			if limit = min(2*limit, prospectPage); full {
				limit = len(page) // a server sends all rows that the statement finds
			}
		}
	}
}

const selectLinked = "SELECT " + prospectColumns + ` FROM account_prospects l
	JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
	WHERE l.tenant_id = $1 AND l.account_id = $2 AND (l.prospect_created_at, l.prospect_id) > ($3, $4)
	ORDER BY l.prospect_created_at, l.prospect_id LIMIT $5`
