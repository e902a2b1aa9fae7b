package erasures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// An account may have millions of entries and links, too many for one transaction to delete. The
// first transaction therefore only removes the account from view, with its entries and links, and
// inserts a row into erasures. Later transactions delete the data in batches. No new entries can
// appear: an append locks the account first, so it either commits before the account is hidden or
// no longer finds it.
//
// If the account has few links, that transaction deletes its row. Otherwise links still reference
// the row, so it is hidden until they are deleted. Until then it has no domain and no name, is its
// own survivor, and is excluded by the condition accounts.NotErased.
//
// Deleted rows can remain in the files of an embedded database. An erasure is therefore complete
// only after engine.DB.Purge. Until then its row in erasures stays, and ContinueErasures retries, even
// after a crash.

// Limits of one transaction.
const (
	eraseBatchRows    = 500     // links, or rows of the move history of entries
	eraseBatchEntries = 250     // each also stores a tombstone
	eraseBatchBytes   = 2 << 20 // bytes of entries or rules, unless one has more
	redactBatchRows   = 100     // audit rows, and rules of moves
)

// hideAccount hides an account until the links that reference it are deleted.
const hideAccount = `UPDATE accounts SET domain = '', domain_hash = $1, name = NULL, name_hash = NULL, merged_into = NULL,
	survivor_id = account_id WHERE tenant_id = $2 AND account_id = $3`

// maxPurgeInRequest is the maximum size in bytes of an embedded database that is purged within a
// request. Larger ones are left to the background job. A purge reads the whole file.
const maxPurgeInRequest = 32 << 20

// Limits of what an erasing request deletes itself. The background job deletes the rest.
const (
	maxRowsInRequest = 2_000 // approximately
	maxTimeInRequest = 10 * time.Second
)

// EraseAccount permanently erases the account that id resolves to, all accounts merged into it, and
// their entries. It first calls check, if not nil, with the current account, and returns its
// error. When EraseAccount returns, the data is no longer visible, and a new entry for one of the
// domains creates a new account. done reports whether all entries are deleted and nothing remains
// in the files of an embedded database; if not, ContinueErasures completes the erasure. It returns
// NotFound if there is no such account.
//
// Each transaction after the first is admitted as a large change, and nothing is held between two
// of them.
func (s *Store) EraseAccount(ctx context.Context, c atrium.Change, id atrium.AccountID, check func(atrium.AccountDetail) error) (done bool, err error) {
	erased, _, err := accounts.CheckedChange(ctx, s.accounts, c, id, check, func(tx *kernel.Mutation, p accounts.Precondition) ([]atrium.AccountID, error) {
		g, err := accounts.LockGroup(tx, id)
		if err != nil {
			return nil, err
		}
		if err := p.CheckGroup(tx, g); err != nil {
			return nil, err
		}
		return g.IDs(), erase(tx, g)
	})
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTimeInRequest)
	defer cancel()
	progress := make([]erasure, len(erased))
	// The row limit does not apply to audit details and rules: they are redacted before the response
	// unless a step fails.
	for i, account := range erased {
		progress[i] = erasure{change: c, account: account}
		for progress[i].stage < eraseLinks {
			if _, err := s.eraseStep(ctx, &progress[i]); err != nil {
				return false, nil // the account is hidden; the background job deletes the rest
			}
		}
	}
	left := maxRowsInRequest
	for i := range progress {
		for progress[i].stage < eraseDone {
			if left <= 0 {
				return false, nil
			}
			n, err := s.eraseStep(ctx, &progress[i])
			if err != nil {
				return false, nil // as above
			}
			left -= n
		}
	}
	return s.completeErasures(ctx, c, erased) == nil, nil
}

var (
	// InsertErasures marks accounts for erasure.
	InsertErasures = engine.NewBatch(`INSERT INTO erasures (tenant_id, account_id, requested_at)
		SELECT batch.tenant_id, account_id, at FROM batch WHERE true ON CONFLICT DO NOTHING`, "tenant_id bytea", "account_id bytea", "at bigint")
	deleteErasures = engine.NewBatch(`DELETE FROM erasures USING batch
		WHERE erasures.tenant_id = batch.tenant_id AND erasures.account_id = batch.account_id`, "tenant_id bytea", "account_id bytea")
)

// completeErasures purges the database and then deletes the rows in erasures. The accounts must
// have no entries left. It returns an error, and leaves the rows to the background job, if the
// database is larger than maxPurgeInRequest or no purge can start soon.
func (s *Store) completeErasures(ctx context.Context, c atrium.Change, accounts []atrium.AccountID) error {
	if err := s.purges.run(ctx, &s.purges.ofRequests, purgeWait, func() error { return s.db.Engine.Purge(ctx, maxPurgeInRequest) }); err != nil {
		return kernel.Public(err)
	}
	return s.deleteErasures(ctx, c, accounts)
}

func (s *Store) deleteErasures(ctx context.Context, c atrium.Change, accounts []atrium.AccountID) error {
	rows := make([]engine.Args, len(accounts))
	for i, id := range accounts {
		rows[i] = engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}
	}
	return kernel.WriteLarge(ctx, s.db, c, func(tx engine.Tx) error {
		_, err := tx.Batch(deleteErasures, rows, nil)
		return err
	})
}

// erase hides the accounts of a group, and deletes those with few links.
func erase(tx *kernel.Mutation, g *accounts.Group) error {
	tenant, ids := kernel.IDArg(tx.Change.TenantID), g.IDs()
	rows := make([]engine.Args, len(ids))
	names := make([]string, len(ids))
	var index accounts.IndexUpdate
	left := eraseBatchRows
	for i, id := range ids {
		rows[i], names[i] = engine.Args{tenant, kernel.IDArg(id), int64(tx.At)}, string(id)
		a, err := accounts.FindAccountRow(tx, tx.Change.TenantID, id)
		if err != nil {
			return err
		}
		index.Account(&a, nil)
		if err := accounts.ReplaceLongDomain(tx, &a, nil); err != nil {
			return err
		}
		n, err := deleteLinkBatch(tx, tx.Change.TenantID, id, left)
		if err != nil {
			return err
		}
		if left -= n; left > 0 {
			_, err = tx.Exec("DELETE FROM accounts WHERE tenant_id = $1 AND account_id = $2", tenant, kernel.IDArg(id))
		} else {
			_, err = tx.Exec(hideAccount, accounts.RandomHash(), tenant, kernel.IDArg(id))
		}
		if err != nil {
			return err
		}
	}
	if err := index.Write(tx); err != nil {
		return err
	}
	tx.RecordDetail(atrium.ActionEraseAccount, string(g.Root.ID), map[string]any{"members": len(g.Members), "redacted": names})
	_, err := tx.Batch(InsertErasures, rows, nil)
	return err
}

// deleteLinkBatch deletes up to limit links of an account and returns how many it deleted.
func deleteLinkBatch(tx engine.Tx, tenant atrium.TenantID, account atrium.AccountID, limit int) (int, error) {
	var rows []engine.Args
	if err := tx.Query("SELECT prospect_created_at, prospect_id FROM account_prospects WHERE tenant_id = $1 AND account_id = $2 LIMIT $3",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), int64(limit)}, func(r engine.Row) error {
			rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), r.Int(0), r.Bytes(1)})
			return nil
		}); err != nil || len(rows) == 0 {
		return 0, err
	}
	_, err := tx.Batch(accounts.DeleteLinks, rows, nil)
	return len(rows), err
}

// The stages of erasing a hidden account.
const (
	eraseDetails = iota // details of audit rows about the account
	eraseRules          // rules of moves to the account, which contain claims and payload values of entries
	eraseLinks          // links, then the account itself
	eraseEntries
	eraseDone
)

// An erasure is the progress of erasing one account.
type erasure struct {
	change  atrium.Change
	account atrium.AccountID
	stage   int
	number  int64  // the last redacted audit row
	move    []byte // the last move whose rule was deleted
}

// eraseStep runs one transaction of the current stage, or advances to the next stage if nothing is
// left. It returns about how many rows the transaction changed.
func (s *Store) eraseStep(ctx context.Context, e *erasure) (n int, err error) {
	more := false
	switch e.stage {
	case eraseDetails:
		n, err = s.redactAccountBatch(ctx, e)
		more = n > 0
	case eraseRules:
		n, err = s.deleteRuleBatch(ctx, e)
		more = n > 0
	case eraseLinks:
		n, more, err = s.eraseLinkBatch(ctx, e.change, e.account)
	case eraseEntries:
		n, more, err = s.eraseEntryBatch(ctx, e.change, e.account)
	}
	if err == nil && !more {
		e.stage++
	}
	return n, err
}

// eraseLinkBatch deletes a batch of links of a hidden account. With the last links it deletes the
// account.
func (s *Store) eraseLinkBatch(ctx context.Context, c atrium.Change, account atrium.AccountID) (n int, more bool, err error) {
	hidden := false
	args := engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(account)}
	if err := s.db.Query(ctx, "SELECT 1 FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND survivor_id = account_id", args, func(engine.Row) error {
		hidden = true
		return nil
	}); err != nil || !hidden {
		return 0, false, err
	}
	err = kernel.WriteLarge(ctx, s.db, c, func(tx engine.Tx) error {
		if n, err = deleteLinkBatch(tx, c.TenantID, account, eraseBatchRows); err != nil {
			return err
		}
		if more = n == eraseBatchRows; more {
			return nil
		}
		_, err := tx.Exec("DELETE FROM accounts WHERE tenant_id = $1 AND account_id = $2 AND survivor_id = account_id", args...)
		return err
	})
	return n, more, err
}

// Limits of one call of ContinueErasures.
const (
	maxAccountsPerTenant = 200
	maxRowsPerRun        = 10_000
	maxTimePerRun        = 5 * time.Second // then the next call finds new erasures of other tenants
)

// ContinueErasures deletes a batch of erased data and completes erasures that have no entries left.
// It reports whether to call it again at once: not if there was nothing to do or a step failed. It runs
// one transaction per tenant, round-robin, with pauses (kernel.DB.InTurn), so that a large tenant
// does not delay the others. After an error it continues with other accounts, and returns the first
// error.
func (s *Store) ContinueErasures(ctx context.Context) (more bool, err error) {
	pending, err := s.pendingErasures(ctx)
	if err != nil || len(pending) == 0 {
		return false, err
	}
	worked, empty := false, map[atrium.TenantID][]atrium.AccountID{}
	deadline, left := s.db.Now().Add(maxTimePerRun), maxRowsPerRun
	_ = s.db.InTurn(ctx, slices.Sorted(maps.Keys(pending)), func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		e := &pending[tenant][0]
		n, stepErr := s.eraseNext(ctx, e)
		if errors.Is(stepErr, atrium.ErrNoTenant) { // another job deletes all of it
			delete(pending, tenant)
			return false, nil
		}
		worked = true
		if stepErr != nil && err == nil {
			err = fmt.Errorf("erase %s of %s: %w", e.account, tenant, stepErr)
		}
		if stepErr == nil && e.stage == eraseDone {
			empty[tenant] = append(empty[tenant], e.account)
		}
		if stepErr != nil || e.stage == eraseDone {
			if pending[tenant] = pending[tenant][1:]; len(pending[tenant]) == 0 {
				delete(pending, tenant)
				return false, nil
			}
		}
		left -= max(n, 1)
		return left > 0 && s.db.Now().Before(deadline), nil
	})
	if len(empty) > 0 {
		purgeErr := s.purgeInJob(ctx, len(pending) > 0)
		if errors.Is(purgeErr, errPurgeBusy) {
			return err == nil, cmp.Or(err, ctx.Err())
		}
		if purgeErr != nil {
			return false, cmp.Or(err, purgeErr)
		}
	}
	for tenant, accounts := range empty {
		if stepErr := s.deleteErasures(ctx, atrium.Change{TenantID: tenant}, accounts); stepErr != nil {
			err = cmp.Or(err, fmt.Errorf("complete erasures of %s: %w", tenant, stepErr))
		}
	}
	return worked && err == nil, cmp.Or(err, ctx.Err())
}

// purgeInJob purges the database, once for all jobs that wait for it. It returns errPurgeBusy if no
// purge can start soon. If the job has other work, it does not wait for a purge to start, so that the
// erasures of other tenants continue in the meantime.
func (s *Store) purgeInJob(ctx context.Context, otherWork bool) error {
	wait := purgeWait
	if otherWork {
		wait = 0
	}
	err := s.purges.run(ctx, &s.purges.ofJobs, wait, func() error { return s.db.Engine.Purge(ctx, 0) })
	if err == nil || errors.Is(err, errPurgeBusy) {
		return err
	}
	return fmt.Errorf("purge erased data: %w", kernel.Public(err))
}

// eraseNext runs transactions of an erasure until one of them changes rows. It returns about how
// many rows changed, 0 if the erasure is done.
func (s *Store) eraseNext(ctx context.Context, e *erasure) (n int, err error) {
	for n == 0 && e.stage < eraseDone && err == nil {
		n, err = s.eraseStep(ctx, e)
	}
	return n, err
}

// pendingErasures returns incomplete erasures by tenant, at most maxAccountsPerTenant of each.
func (s *Store) pendingErasures(ctx context.Context) (all map[atrium.TenantID][]erasure, err error) {
	all = map[atrium.TenantID][]erasure{}
	for last := []byte{}; ; {
		var ofTenant []erasure
		if err := s.db.Query(ctx, `SELECT tenant_id, account_id FROM erasures WHERE tenant_id =
				(SELECT tenant_id FROM erasures WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1)
			ORDER BY account_id LIMIT $2`, engine.Args{last, int64(maxAccountsPerTenant)}, func(r engine.Row) error {
			last = r.Bytes(0)
			c := atrium.Change{TenantID: kernel.IDAt[atrium.TenantID](r, 0), Actor: atrium.ActorSchedule}
			ofTenant = append(ofTenant, erasure{change: c, account: kernel.IDAt[atrium.AccountID](r, 1)})
			return nil
		}); err != nil || len(ofTenant) == 0 {
			return all, err
		}
		all[ofTenant[0].change.TenantID] = ofTenant
	}
}
