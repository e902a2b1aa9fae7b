package accounts

import (
	"context"
	"errors"
	"math"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file reads accounts with any number of linked prospects, and with merged accounts that
// have long domains. It uses bounded memory, and never a write transaction, which would block
// all other writers.

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
	return s.db.Read(ctx, func(tx engine.Tx) error { return readAccount(ctx, tx, tenant, id, f) })
}

// readAccount is ReadAccount in a transaction.
func readAccount(ctx context.Context, tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID, f func(atrium.AccountDetail) error) error {
	d, err := findAccountDetail(tx, tenant, id)
	if err != nil {
		return err
	}
	setStreams(ctx, tx, &d)
	return f(d)
}

// setStreams sets the streams of an account to read in a transaction.
func setStreams(ctx context.Context, tx engine.Tx, d *atrium.AccountDetail) {
	d.Stream = until(ctx, prospectStream(tx, d.TenantID, d.ID))
	d.StreamMerged = until(ctx, mergedStream(tx, d.TenantID, d.ID))
}

// ReadChanged calls f, as ReadAccount does, with an account that a change has returned: what the
// Account does not hold is read from the current state. Its error says that the change was made.
func (s *Store) ReadChanged(ctx context.Context, d atrium.AccountDetail, f func(atrium.AccountDetail) error) error {
	err := s.db.Read(ctx, func(tx engine.Tx) error {
		setStreams(ctx, tx, &d)
		return f(d)
	})
	if atrium.CodeOf(err) == atrium.CodeUnavailable {
		err = atrium.Errorf(atrium.CodeUnavailable, "The change was made, but the account cannot be read right now.").Because(err)
	}
	return err
}

// A stream reads prospects or merged accounts, as atrium.AccountDetail has it.
type stream[T any] = func(each func(*T) error) error

// until returns a stream that is Unavailable when ctx has ended, which not every engine
// notices in the middle of a transaction.
func until[T any](ctx context.Context, s stream[T]) stream[T] {
	return func(each func(*T) error) error {
		return s(func(v *T) error {
			if ctx.Err() != nil {
				return &engine.Error{Class: engine.Unavailable, Err: context.Cause(ctx)}
			}
			return each(v)
		})
	}
}

// prospectStream returns what reads the prospects that are linked to an account, in pages.
func prospectStream(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) stream[atrium.Prospect] {
	return func(each func(*atrium.Prospect) error) error {
		page := make([]atrium.Prospect, 0, prospectPage)
		after := engine.Args{int64(math.MinInt64), []byte{}} // before all
		for limit := prospectPage; ; {
			bytes := 0
			page = page[:0]
			err := tx.Query(selectLinked, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id), after[0], after[1], int64(limit)}, func(r engine.Row) error {
				if bytes >= prospectPageBytes {
					return kernel.ErrPageFull
				}
				p := ScanProspect(r, 0, tenant)
				bytes += textBytes(&p)
				page = append(page, p)
				return nil
			})
			full := errors.Is(err, kernel.ErrPageFull)
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
			after = engine.Args{int64(last.CreatedAt), kernel.IDArg(last.ID)}
			if limit = min(2*limit, prospectPage); full {
				limit = len(page) // a server sends all rows that the statement finds
			}
		}
	}
}

const selectLinked = "SELECT " + ProspectColumns + ` FROM account_prospects l
	JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
	WHERE l.tenant_id = $1 AND l.account_id = $2 AND (l.prospect_created_at, l.prospect_id) > ($3, $4)
	ORDER BY l.prospect_created_at, l.prospect_id LIMIT $5`

// A mergedRow is the row of a merged account, which has only the beginning of a long domain.
type mergedRow struct {
	atrium.MergedAccount
	domainBytes int
}

var selectMerged = "SELECT a.account_id, a.domain, a.name, a.merged_into, " +
	wholeDomain("$1", "octet_length(d.domain)", "octet_length(a.domain)") + membersOf

// mergedRows returns the rows of the accounts merged into one, and the size in bytes of their
// names and whole domains.
func mergedRows(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) (rows []mergedRow, bytes int, err error) {
	err = tx.Query(selectMerged, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) error {
		m := mergedRow{atrium.MergedAccount{
			ID: kernel.IDAt[atrium.AccountID](r, 0), Domain: r.Text(1), Name: r.Text(2), MergedInto: kernel.IDAt[atrium.AccountID](r, 3),
		}, int(r.Int(4))}
		rows = append(rows, m)
		bytes += m.domainBytes + len(m.Name)
		return nil
	})
	return rows, bytes, err
}

// whole returns the account with its whole domain.
func (m *mergedRow) whole(tx engine.Tx, tenant atrium.TenantID) (a atrium.MergedAccount, err error) {
	if a = m.MergedAccount; m.domainBytes > len(m.Domain) {
		err = engine.Find(tx.Query, "SELECT domain FROM long_domains WHERE tenant_id = $1 AND account_id = $2",
			engine.Args{kernel.IDArg(tenant), kernel.IDArg(m.ID)}, func(r engine.Row) { a.Domain = r.Text(0) })
	}
	return a, err
}

// mergedStream returns a stream of the accounts merged into one. It holds one long domain at a
// time.
func mergedStream(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) stream[atrium.MergedAccount] {
	return func(each func(*atrium.MergedAccount) error) error {
		rows, _, err := mergedRows(tx, tenant, id)
		for i := range rows {
			var a atrium.MergedAccount
			if a, err = rows[i].whole(tx, tenant); err == nil {
				err = each(&a)
			}
			if err != nil {
				break
			}
		}
		return err
	}
}
