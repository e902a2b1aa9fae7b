package accounts

import (
	"context"
	"errors"
	"math"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file reads accounts with any number of linked prospects, and with merged accounts that have
// long domains. It uses bounded memory. It does not run in write transactions, because they block
// other writers.

// Limits of one page of prospects. A page is buffered before its prospects are passed on, so that
// a slow client does not keep the statement open.
const (
	prospectPage      = 200
	prospectPageBytes = 64 << 10 // of texts; the last prospect may exceed it
)

// ReadAccount calls f with the account that id leads to and its merged accounts. Until f returns,
// EachProspect reads from the same snapshot, which the database must retain, so f should not take
// long. It returns NotFound if there is no such account.
func (s *Store) ReadAccount(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID, f func(atrium.AccountDetail) error) error {
	return s.db.Read(ctx, func(tx engine.Tx) error { return readAccount(ctx, tx, tenant, id, f) })
}

// readAccount is ReadAccount in a transaction.
func readAccount(ctx context.Context, tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID, f func(atrium.AccountDetail) error) error {
	d, err := findAccountDetail(tx, tenant, id, maxDetailProspects)
	if err != nil {
		return err
	}
	setStreams(ctx, tx, &d)
	return f(d)
}

// setStreams sets the streams of d to read in tx.
func setStreams(ctx context.Context, tx engine.Tx, d *atrium.AccountDetail) {
	d.Stream = untilDone(ctx, prospectStream(tx, d.TenantID, d.ID))
	d.StreamMerged = untilDone(ctx, mergedStream(tx, d.TenantID, d.ID))
}

// ReadChanged calls f, as ReadAccount does, with an account that a change has returned. Streams
// read the current state. Errors tell the client that the change was made.
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

// A stream reads prospects or merged accounts for an atrium.AccountDetail.
type stream[T any] = func(each func(*T) error) error

// untilDone returns a stream that fails with Unavailable after ctx is done. Some engines do not
// check ctx within a transaction.
func untilDone[T any](ctx context.Context, s stream[T]) stream[T] {
	return func(each func(*T) error) error {
		return s(func(v *T) error {
			if ctx.Err() != nil {
				return &engine.Error{Class: engine.Unavailable, Err: context.Cause(ctx)}
			}
			return each(v)
		})
	}
}

// prospectStream returns a stream of the prospects linked to an account, which reads them in
// pages.
func prospectStream(tx engine.Tx, tenant atrium.TenantID, id atrium.AccountID) stream[atrium.Prospect] {
	return func(each func(*atrium.Prospect) error) error {
		page := make([]atrium.Prospect, 0, prospectPage)
		after := engine.Args{int64(math.MinInt64), []byte{}} // before all prospects
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
				limit = len(page) // a database server sends all rows that the statement returns
			}
		}
	}
}

const selectLinked = "SELECT " + ProspectColumns + ` FROM account_prospects l
	JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
	WHERE l.tenant_id = $1 AND l.account_id = $2 AND (l.prospect_created_at, l.prospect_id) > ($3, $4)
	ORDER BY l.prospect_created_at, l.prospect_id LIMIT $5`

// A mergedRow is a merged account with a truncated domain if that is long.
type mergedRow struct {
	atrium.MergedAccount
	domainBytes int
}

var selectMerged = "SELECT a.account_id, a.domain, a.name, a.merged_into, " +
	domainSQL("$1", "octet_length(d.domain)", "octet_length(a.domain)") + membersOf

// mergedRows returns the accounts merged into an account, and the total size in bytes of their
// names and complete domains.
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

// whole returns the merged account with its complete domain.
func (m *mergedRow) whole(tx engine.Tx, tenant atrium.TenantID) (a atrium.MergedAccount, err error) {
	if a = m.MergedAccount; m.domainBytes > len(m.Domain) {
		err = engine.Find(tx.Query, "SELECT domain FROM long_domains WHERE tenant_id = $1 AND account_id = $2",
			engine.Args{kernel.IDArg(tenant), kernel.IDArg(m.ID)}, func(r engine.Row) { a.Domain = r.Text(0) })
	}
	return a, err
}

// mergedStream returns a stream of the accounts merged into an account. It buffers one long domain
// at a time.
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
