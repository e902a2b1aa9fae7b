package erasures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// An account may have millions of entries and links, more than a transaction should delete.
// So the transaction that erases it hides the account, by which alone they can be seen, and
// notes that they are to be deleted, which other transactions then do in parts. Nothing can be
// added to them: an append touches the account first, and has committed before the account
// can be hidden, or does not find it any more.
//
// An account with few links is deleted at once. One with more stays, as its links refer to it,
// until they are deleted: without domain and name, merged into itself, and not found by
// anything that has the condition accounts.NotErased.
//
// Deleted rows can stay in the files of an embedded database. So an erasure is done only
// after engine.DB.Purge: until then its row in erasures stays, and EraseEntries tries again,
// also after the process was killed.

// What one transaction deletes at most.
const (
	eraseAtOnce = 500     // entries, and as many rows about their moves
	eraseBytes  = 4 << 20 // bytes of entries or rules, and the one that reaches it
	redactParts = 100     // rows of the audit log, and rules of moves
)

// hideAccount hides an account that has links, which refer to it, until they are deleted.
const hideAccount = `UPDATE accounts SET domain = '', domain_hash = $1, name = NULL, name_hash = NULL, merged_into = NULL,
	survivor_id = account_id WHERE tenant_id = $2 AND account_id = $3`

// purgeInRequest is the size of an embedded database, in bytes, up to which the request
// that erases something also purges it. A purge reads the whole file.
const purgeInRequest = 32 << 20

// eraseInRequest is about how many rows at most are deleted before the request that
// erases an account is answered.
const eraseInRequest = 2_000

// EraseAccount erases the account that an identifier leads to for good, with all that
// was merged into it, and their entries. The account as it stands is first given to
// check, whose error ends the call; nil stands for no check. From then on nothing of it can be seen, and a
// later entry for one of its domains makes a new account. done reports that all entries
// are deleted, and that nothing of what was erased is left in the files of an embedded
// database; otherwise EraseEntries completes the erasure. It is NotFound if there is no
// such account.
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
	parts := make([]erasure, len(erased))
	for i, account := range erased { // what is said of them elsewhere is gone before the response, however much it is
		parts[i] = erasure{change: c, account: account}
		for parts[i].stage < eraseLinks {
			if _, err := s.erasePart(ctx, &parts[i]); err != nil {
				return false, nil //nolint:nilerr // the account is erased, and the rest will be
			}
		}
	}
	left := eraseInRequest
	for i := range parts {
		for parts[i].stage < eraseDone {
			if left <= 0 {
				return false, nil
			}
			n, err := s.erasePart(ctx, &parts[i])
			if err != nil {
				return false, nil //nolint:nilerr // as above
			}
			left -= n
		}
	}
	return s.completeErasures(ctx, c.TenantID, erased) == nil, nil
}

var (
	// InsertErasures notes that accounts are to be erased.
	InsertErasures = engine.NewBatch(`INSERT INTO erasures (tenant_id, account_id, requested_at)
		SELECT batch.tenant_id, account_id, at FROM batch WHERE true ON CONFLICT DO NOTHING`, "tenant_id bytea", "account_id bytea", "at bigint")
	deleteErasures = engine.NewBatch(`DELETE FROM erasures USING batch
		WHERE erasures.tenant_id = batch.tenant_id AND erasures.account_id = batch.account_id`, "tenant_id bytea", "account_id bytea")
)

// completeErasures purges the database if it has at most purgeInRequest bytes and no other
// purge has just ended, and then deletes the rows of erasures whose accounts have no entries
// left.
func (s *Store) completeErasures(ctx context.Context, tenant atrium.TenantID, accounts []atrium.AccountID) error {
	if err := s.purges.share(ctx, func() error { return s.db.Engine.Purge(ctx, purgeInRequest) }); err != nil {
		return kernel.Public(err)
	}
	return s.deleteErasures(ctx, tenant, accounts)
}

func (s *Store) deleteErasures(ctx context.Context, tenant atrium.TenantID, accounts []atrium.AccountID) error {
	rows := make([]engine.Args, len(accounts))
	for i, id := range accounts {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
	}
	return s.db.Write(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(deleteErasures, rows, nil)
		return err
	})
}

// erase hides the accounts of a group, and deletes those with few links.
func erase(tx *kernel.Mutation, g *accounts.Group) error {
	tenant, ids := kernel.IDArg(tx.Change.TenantID), g.IDs()
	rows := make([]engine.Args, len(ids))
	names := make([]string, len(ids))
	var x accounts.IndexUpdate
	left := eraseAtOnce
	for i, id := range ids {
		rows[i], names[i] = engine.Args{tenant, kernel.IDArg(id), int64(tx.At)}, string(id)
		a, err := accounts.FindAccountRow(tx, tx.Change.TenantID, id)
		if err != nil {
			return err
		}
		x.Account(&a, nil)
		if err := accounts.ReplaceLongDomain(tx, &a, nil); err != nil {
			return err
		}
		n, err := eraseSomeLinks(tx, tx.Change.TenantID, id, left)
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
	if err := x.Write(tx); err != nil {
		return err
	}
	tx.RecordDetail(atrium.ActionEraseAccount, string(g.Root.ID), map[string]any{"members": len(g.Members), "redacted": names})
	_, err := tx.Batch(InsertErasures, rows, nil)
	return err
}

// eraseSomeLinks deletes up to so many links of an account, and returns how many.
func eraseSomeLinks(tx engine.Tx, tenant atrium.TenantID, account atrium.AccountID, most int) (int, error) {
	var rows []engine.Args
	if err := tx.Query("SELECT prospect_created_at, prospect_id FROM account_prospects WHERE tenant_id = $1 AND account_id = $2 LIMIT $3",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), int64(most)}, func(r engine.Row) error {
			rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), r.Int(0), r.Bytes(1)})
			return nil
		}); err != nil || len(rows) == 0 {
		return 0, err
	}
	_, err := tx.Batch(accounts.DeleteLinks, rows, nil)
	return len(rows), err
}

// What is left of an erased account is deleted in this order.
const (
	eraseDetails = iota // what the audit log says of it
	eraseRules          // the rules of moves to it, which tell what its entries claim and hold
	eraseLinks          // and the account
	eraseEntries
	eraseDone
)

// An erasure is what is done to complete that of one account.
type erasure struct {
	change  atrium.Change
	account atrium.AccountID
	stage   int
	number  int64  // of the last row of the audit log that was redacted
	move    []byte // the last move whose rule was deleted
}

// erasePart runs one transaction of an erasure or begins its next stage, and returns about how
// many rows the transaction has changed.
func (s *Store) erasePart(ctx context.Context, e *erasure) (n int, err error) {
	more := false
	switch e.stage {
	case eraseDetails:
		n, err = s.redactSome(ctx, e)
		more = n > 0
	case eraseRules:
		n, err = s.forgetRules(ctx, e)
		more = n > 0
	case eraseLinks:
		n, more, err = s.eraseLinksOf(ctx, e.change.TenantID, e.account)
	case eraseEntries:
		n, more, err = s.eraseEntriesOf(ctx, e.change.TenantID, e.account)
	}
	if err == nil && !more {
		e.stage++
	}
	return n, err
}

var redactRows = engine.NewBatch(`UPDATE audit SET detail = NULL, salt = NULL FROM batch
	WHERE audit.tenant_id = batch.tenant_id AND audit.number = batch.number`, "tenant_id bytea", "number bigint")

// detailed returns rows of redactRows for some rows about a subject behind a number that have
// details.
func (s *Store) detailed(ctx context.Context, tenant atrium.TenantID, subject string, after int64) (rows []engine.Args, err error) {
	err = s.db.Query(ctx, `SELECT number FROM audit WHERE tenant_id = $1 AND subject = $2 AND number > $3
			AND action NOT IN ($4, $5) AND detail IS NOT NULL ORDER BY number LIMIT $6`,
		engine.Args{kernel.IDArg(tenant), subject, after, atrium.ActionEraseAccount, atrium.ActionDeleteProspect, int64(redactParts)}, func(r engine.Row) error {
			rows = append(rows, engine.Args{kernel.IDArg(tenant), r.Int(0)})
			return nil
		})
	return rows, err
}

// redactSome takes the details out of some rows about the account, and returns how many. That
// they are redacted was recorded before.
func (s *Store) redactSome(ctx context.Context, e *erasure) (int, error) {
	rows, err := s.detailed(ctx, e.change.TenantID, string(e.account), e.number)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if err := s.db.Write(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(redactRows, rows, nil)
		return err
	}); err != nil {
		return 0, err
	}
	e.number = rows[len(rows)-1][1].(int64)
	return len(rows), nil
}

// forgetRules deletes the rules of some moves to the account, redacts the rows about these
// moves, and records that. It returns how many moves there were.
func (s *Store) forgetRules(ctx context.Context, e *erasure) (n int, err error) {
	tenant := kernel.IDArg(e.change.TenantID)
	after := e.move
	if after == nil {
		after = []byte{}
	}
	var moves []engine.Args
	var names []string
	bytes := 0
	// By the index alone: with another column, SQLite would rather read all moves.
	err = s.db.Query(ctx, `SELECT m.move_id, octet_length(m.rule) FROM moves i JOIN moves m ON m.tenant_id = i.tenant_id AND m.move_id = i.move_id
		WHERE i.tenant_id = $1 AND i.to_account_id = $2 AND i.move_id > $3 AND m.rule IS NOT NULL ORDER BY i.move_id LIMIT $4`,
		engine.Args{tenant, kernel.IDArg(e.account), after, int64(redactParts)}, func(r engine.Row) error {
			if bytes += int(r.Int(1)); bytes > eraseBytes && len(moves) > 0 {
				return nil // the next ones are for the next transaction
			}
			moves = append(moves, engine.Args{tenant, r.Bytes(0)})
			names = append(names, string(kernel.IDAt[atrium.MoveID](r, 0)))
			return nil
		})
	if err != nil || len(moves) == 0 {
		return 0, err
	}
	c := e.change
	c.IdempotencyKey = ""
	_, _, err = kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		for _, id := range names { // each has at most two rows: that it was made, and undone
			if err := tx.Redact(id); err != nil {
				return none, err
			}
		}
		tx.RecordDetail(atrium.ActionEraseAccount, string(e.account), map[string]any{"redacted": names})
		_, err = tx.Batch(deleteRules, moves, nil)
		return none, err
	})
	if err == nil {
		e.move = moves[len(moves)-1][1].([]byte)
	}
	return len(moves), err
}

var deleteRules = engine.NewBatch(`UPDATE moves SET rule = NULL FROM batch
	WHERE moves.tenant_id = batch.tenant_id AND moves.move_id = batch.move_id`, "tenant_id bytea", "move_id bytea")

// eraseLinksOf deletes some links of an account that was hidden, and the account with the last
// of them.
func (s *Store) eraseLinksOf(ctx context.Context, tenant atrium.TenantID, account atrium.AccountID) (n int, more bool, err error) {
	hidden := false
	args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(account)}
	if err := s.db.Query(ctx, "SELECT 1 FROM accounts a WHERE tenant_id = $1 AND account_id = $2 AND survivor_id = account_id", args, func(engine.Row) error {
		hidden = true
		return nil
	}); err != nil || !hidden {
		return 0, false, err
	}
	err = s.db.Write(ctx, func(tx engine.Tx) error {
		if n, err = eraseSomeLinks(tx, tenant, account, eraseAtOnce); err != nil {
			return err
		}
		if more = n == eraseAtOnce; more {
			return nil
		}
		_, err := tx.Exec("DELETE FROM accounts WHERE tenant_id = $1 AND account_id = $2 AND survivor_id = account_id", args...)
		return err
	})
	return n, more, err
}

// The accounts of one tenant, and the rows, that one call of EraseEntries works on at most.
const (
	eraseAccounts = 200
	eraseInRun    = 10_000
)

// EraseEntries deletes some entries of accounts that are erased, completes the erasures
// that have no entries left, and returns whether more are left. Tenants take turns: one
// transaction of each, then a second of any. What fails stays, and does not keep others from
// being deleted; the first error is returned.
func (s *Store) EraseEntries(ctx context.Context) (more bool, err error) {
	pending, err := s.pendingErasures(ctx)
	if err != nil || len(pending) == 0 {
		return false, err
	}
	empty := map[atrium.TenantID][]atrium.AccountID{}
	for left, first := eraseInRun, true; len(pending) > 0 && (left > 0 || first) && ctx.Err() == nil; first = false {
		for i := range pending {
			e := &pending[i][0]
			n, failure := s.eraseNext(ctx, e)
			if failure != nil && err == nil {
				err = fmt.Errorf("erase %s of %s: %w", e.account, e.change.TenantID, failure)
			}
			if failure == nil && e.stage == eraseDone {
				empty[e.change.TenantID] = append(empty[e.change.TenantID], e.account)
			}
			if failure != nil || e.stage == eraseDone {
				pending[i] = pending[i][1:]
			}
			left -= max(n, 1)
		}
		pending = slices.DeleteFunc(pending, func(ofTenant []erasure) bool { return len(ofTenant) == 0 })
	}
	if len(empty) > 0 {
		wait := purgeWait
		if len(pending) > 0 {
			wait = 0 // there is other work
		}
		failure := s.purges.alone(ctx, wait, func() error { return s.db.Engine.Purge(ctx, 0) })
		if errors.Is(failure, errPurgeLater) {
			return err == nil, cmp.Or(err, ctx.Err())
		}
		if failure != nil {
			return false, cmp.Or(err, fmt.Errorf("purge erased data: %w", kernel.Public(failure)))
		}
	}
	for tenant, accounts := range empty {
		if failure := s.deleteErasures(ctx, tenant, accounts); failure != nil {
			err = cmp.Or(err, fmt.Errorf("complete erasures of %s: %w", tenant, failure))
		}
	}
	return err == nil, cmp.Or(err, ctx.Err())
}

// eraseNext runs the next transaction of an erasure that changes something, and returns about
// how many rows that has changed; 0 if the erasure is done.
func (s *Store) eraseNext(ctx context.Context, e *erasure) (n int, err error) {
	for n == 0 && e.stage < eraseDone && err == nil {
		n, err = s.erasePart(ctx, e)
	}
	return n, err
}

// pendingErasures returns some of each tenant's erasures that are not complete.
func (s *Store) pendingErasures(ctx context.Context) (all [][]erasure, err error) {
	for last := []byte{}; ; {
		var ofTenant []erasure
		if err := s.db.Query(ctx, `SELECT tenant_id, account_id FROM erasures WHERE tenant_id =
				(SELECT tenant_id FROM erasures WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1)
			ORDER BY account_id LIMIT $2`, engine.Args{last, int64(eraseAccounts)}, func(r engine.Row) error {
			last = r.Bytes(0)
			c := atrium.Change{TenantID: kernel.IDAt[atrium.TenantID](r, 0), Actor: atrium.ActorSchedule}
			ofTenant = append(ofTenant, erasure{change: c, account: kernel.IDAt[atrium.AccountID](r, 1)})
			return nil
		}); err != nil || len(ofTenant) == 0 {
			return all, err
		}
		all = append(all, ofTenant)
	}
}

// eraseEntriesOf deletes entries of an erased account and what is noted of their moves, as
// much as one transaction may, and returns how many rows these were, and whether the
// account has more entries.
func (s *Store) eraseEntriesOf(ctx context.Context, tenant atrium.TenantID, account atrium.AccountID) (deleted int, more bool, err error) {
	const some = "FROM entries WHERE tenant_id = $1 AND account_id = $2 ORDER BY created_at, entry_id LIMIT $3"
	type moved struct {
		entry atrium.EntryID
		last  atrium.MoveID
	}
	err = s.db.Write(ctx, func(tx engine.Tx) error {
		var found []moved
		bytes := 0
		args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), int64(eraseAtOnce)}
		if err := tx.Lock("SELECT entry_id, move_id, octet_length(payload), "+kernel.OctetLength("claimed_domain")+" "+some, args, func(r engine.Row) error {
			found = append(found, moved{kernel.IDAt[atrium.EntryID](r, 0), kernel.IDAt[atrium.MoveID](r, 1)})
			if bytes += int(r.Int(2) + r.Int(3)); bytes >= eraseBytes {
				return kernel.ErrPageFull
			}
			return nil
		}); err != nil && !errors.Is(err, kernel.ErrPageFull) {
			return fmt.Errorf("find erased entries: %w", err)
		}
		entries, left := 0, eraseAtOnce
		for _, m := range found {
			rest, err := forgetMoves(tx, tenant, m.entry, m.last, &left)
			if err != nil {
				return err
			}
			if rest != "" { // the next transaction goes on with it
				if _, err := tx.Exec("UPDATE entries SET move_id = $1 WHERE tenant_id = $2 AND entry_id = $3", kernel.IDArg(rest), kernel.IDArg(tenant), kernel.IDArg(m.entry)); err != nil {
					return err
				}
				break
			}
			entries++
		}
		// Those that are locked: another node has at most deleted some before them.
		if _, err := tx.Exec("DELETE FROM entries WHERE tenant_id = $1 AND entry_id IN (SELECT entry_id FROM entries WHERE tenant_id = $1 AND account_id = $2 ORDER BY created_at, entry_id LIMIT $3)",
			kernel.IDArg(tenant), kernel.IDArg(account), int64(entries)); err != nil {
			return fmt.Errorf("delete erased entries: %w", err)
		}
		deleted, more = entries+eraseAtOnce-left, false
		return tx.Query("SELECT entry_id "+some, engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), int64(1)}, func(engine.Row) error {
			more = true
			return nil
		})
	})
	return deleted, more, err
}

// forgetMoves deletes what is noted of the moves of an entry, from its last one back, while
// any rows are left, and returns the last one that is not deleted; "" for none.
func forgetMoves(tx engine.Tx, tenant atrium.TenantID, entry atrium.EntryID, last atrium.MoveID, left *int) (atrium.MoveID, error) {
	for ; last != "" && *left > 0; *left-- {
		args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(last), kernel.IDArg(entry)}
		last = ""
		if err := tx.Query("DELETE FROM moved_entries WHERE tenant_id = $1 AND move_id = $2 AND entry_id = $3 RETURNING previous_move_id", args,
			func(r engine.Row) error {
				last = kernel.IDAt[atrium.MoveID](r, 0)
				return nil
			}); err != nil {
			return "", fmt.Errorf("delete moves of an erased entry: %w", err)
		}
	}
	return last, nil
}
