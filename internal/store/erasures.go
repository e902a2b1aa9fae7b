package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
)

// An account may have millions of entries, more than a transaction should delete. So
// the transaction that erases it takes out the account, by which alone its entries can
// be seen, and notes that they are to be deleted, which others then do bit by bit.
// Nothing can be added to them: whoever appends to an account touches it first, and
// has committed before it can be taken out, or does not find it any more.
//
// Deleted rows can stay in the files of an embedded database. So an erasure is done only
// after engine.DB.Purge: until then its row in erasures stays, and EraseEntries tries again,
// also after the process was killed.

// What one transaction deletes at most.
const (
	eraseAtOnce = 500     // entries, and as many rows about their moves
	eraseBytes  = 4 << 20 // bytes of entries, and the entry that reaches it
)

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
	erased, _, err := checkedChange(ctx, s, c, id, check, func(tx *changing) ([]atrium.AccountID, error) {
		g, err := tx.lockGroup(id)
		if err != nil {
			return nil, err
		}
		if err := tx.checkGroup(g, check); err != nil {
			return nil, err
		}
		return g.ids(), tx.erase(g)
	})
	if err != nil {
		return false, err
	}
	left := eraseInRequest
	for _, account := range erased {
		for more := true; more; {
			if left <= 0 {
				return false, nil
			}
			var n int
			if n, more, err = s.eraseEntriesOf(ctx, c.TenantID, account); err != nil {
				return false, nil //nolint:nilerr // the account is erased, and its entries will be
			}
			left -= n
		}
	}
	return s.completeErasures(ctx, c.TenantID, erased) == nil, nil
}

var (
	insertErasures = engine.NewBatch(`INSERT INTO erasures (tenant_id, account_id, requested_at)
		SELECT batch.tenant_id, account_id, at FROM batch`, "tenant_id bytea", "account_id bytea", "at bigint")
	deleteErasures = engine.NewBatch(`DELETE FROM erasures USING batch
		WHERE erasures.tenant_id = batch.tenant_id AND erasures.account_id = batch.account_id`, "tenant_id bytea", "account_id bytea")
)

// completeErasures purges the database if it has at most purgeInRequest bytes and no other
// purge has just ended, and then deletes the rows of erasures whose accounts have no entries
// left.
func (s *Store) completeErasures(ctx context.Context, tenant atrium.TenantID, accounts []atrium.AccountID) error {
	if err := s.purges.share(ctx, func() error { return s.db.Purge(ctx, purgeInRequest) }); err != nil {
		return public(err)
	}
	return s.deleteErasures(ctx, tenant, accounts)
}

func (s *Store) deleteErasures(ctx context.Context, tenant atrium.TenantID, accounts []atrium.AccountID) error {
	rows := make([]engine.Args, len(accounts))
	for i, id := range accounts {
		rows[i] = engine.Args{idArg(tenant), idArg(id)}
	}
	return s.write(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(deleteErasures, rows, nil)
		return err
	})
}

// erase takes out the accounts of a group.
func (tx *changing) erase(g *group) error {
	tenant, ids := idArg(tx.change.TenantID), g.ids()
	rows := make([]engine.Args, len(ids))
	names := make([]string, len(ids))
	var x indexing
	for i, id := range ids {
		rows[i], names[i] = engine.Args{tenant, idArg(id), int64(tx.at)}, string(id)
		a, err := account(tx, tx.change.TenantID, id) // one at a time: domains may be long
		if err != nil {
			return err
		}
		x.account(&a, nil)
		for _, sql := range []string{
			"DELETE FROM account_prospects WHERE tenant_id = $1 AND account_id = $2",
			"DELETE FROM accounts WHERE tenant_id = $1 AND account_id = $2",
		} {
			if _, err := tx.Exec(sql, tenant, idArg(id)); err != nil {
				return err
			}
		}
		if err := tx.redact(string(id)); err != nil {
			return err
		}
	}
	for _, id := range ids {
		rules, err := tx.forgetRules(id)
		if err != nil {
			return err
		}
		names = append(names, rules...)
	}
	if err := x.write(tx); err != nil {
		return err
	}
	tx.recordDetail(atrium.ActionEraseAccount, string(g.root.ID), map[string]any{"members": len(g.members), "redacted": names})
	_, err := tx.Batch(insertErasures, rows, nil)
	return err
}

// forgetRules takes the rules out of the moves to an account, which tell what its
// entries claim and hold, and the details out of what the audit log has of these
// moves. It returns the identifiers of the moves.
func (tx *changing) forgetRules(to atrium.AccountID) (moves []string, err error) {
	tenant := idArg(tx.change.TenantID)
	// By the index alone: with another column, SQLite would rather read all moves.
	if err := tx.Query(`SELECT m.move_id FROM moves i JOIN moves m ON m.tenant_id = i.tenant_id AND m.move_id = i.move_id
		WHERE i.tenant_id = $1 AND i.to_account_id = $2 AND m.rule IS NOT NULL`,
		engine.Args{tenant, idArg(to)}, func(r engine.Row) error {
			moves = append(moves, string(idAt[atrium.MoveID](r, 0)))
			return nil
		}); err != nil || len(moves) == 0 {
		return nil, err
	}
	for _, id := range moves {
		if err := tx.redact(id); err != nil {
			return nil, err
		}
		if _, err := tx.Exec("UPDATE moves SET rule = NULL WHERE tenant_id = $1 AND move_id = $2", tenant, idArg(atrium.MoveID(id))); err != nil {
			return nil, err
		}
	}
	return moves, nil
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
			p := &pending[i]
			account := p.accounts[0]
			n, rest, failure := s.eraseEntriesOf(ctx, p.tenant, account)
			if failure != nil && err == nil {
				err = fmt.Errorf("erase %s of %s: %w", account, p.tenant, failure)
			}
			if failure == nil && !rest {
				empty[p.tenant] = append(empty[p.tenant], account)
			}
			if failure != nil || !rest {
				p.accounts = p.accounts[1:]
			}
			left -= max(n, 1)
		}
		pending = slices.DeleteFunc(pending, func(p erasuresOf) bool { return len(p.accounts) == 0 })
	}
	if len(empty) > 0 {
		wait := purgeWait
		if len(pending) > 0 {
			wait = 0 // there is other work
		}
		failure := s.purges.alone(ctx, wait, func() error { return s.db.Purge(ctx, 0) })
		if errors.Is(failure, errPurgeLater) {
			return err == nil, cmp.Or(err, ctx.Err())
		}
		if failure != nil {
			return false, cmp.Or(err, fmt.Errorf("purge erased data: %w", public(failure)))
		}
	}
	for tenant, accounts := range empty {
		if failure := s.deleteErasures(ctx, tenant, accounts); failure != nil {
			err = cmp.Or(err, fmt.Errorf("complete erasures of %s: %w", tenant, failure))
		}
	}
	return err == nil, cmp.Or(err, ctx.Err())
}

// erasuresOf are accounts of a tenant whose erasures are not complete.
type erasuresOf struct {
	tenant   atrium.TenantID
	accounts []atrium.AccountID
}

// pendingErasures returns some of each tenant's erasures that are not complete.
func (s *Store) pendingErasures(ctx context.Context) (all []erasuresOf, err error) {
	for last := []byte{}; ; {
		var of erasuresOf
		if err := s.query(ctx, `SELECT tenant_id, account_id FROM erasures WHERE tenant_id =
				(SELECT tenant_id FROM erasures WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1)
			ORDER BY account_id LIMIT $2`, engine.Args{last, int64(eraseAccounts)}, func(r engine.Row) error {
			last, of.tenant = r.Bytes(0), idAt[atrium.TenantID](r, 0)
			of.accounts = append(of.accounts, idAt[atrium.AccountID](r, 1))
			return nil
		}); err != nil || len(of.accounts) == 0 {
			return all, err
		}
		all = append(all, of)
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
	err = s.write(ctx, func(tx engine.Tx) error {
		var found []moved
		bytes := 0
		args := engine.Args{idArg(tenant), idArg(account), int64(eraseAtOnce)}
		if err := tx.Lock("SELECT entry_id, move_id, octet_length(payload), "+bytesOf("claimed_domain")+" "+some, args, func(r engine.Row) error {
			found = append(found, moved{idAt[atrium.EntryID](r, 0), idAt[atrium.MoveID](r, 1)})
			if bytes += int(r.Int(2) + r.Int(3)); bytes >= eraseBytes {
				return errChunkFull
			}
			return nil
		}); err != nil && !errors.Is(err, errChunkFull) {
			return fmt.Errorf("find erased entries: %w", err)
		}
		entries, left := 0, eraseAtOnce
		for _, m := range found {
			rest, err := forgetMoves(tx, tenant, m.entry, m.last, &left)
			if err != nil {
				return err
			}
			if rest != "" { // the next transaction goes on with it
				if _, err := tx.Exec("UPDATE entries SET move_id = $1 WHERE tenant_id = $2 AND entry_id = $3", idArg(rest), idArg(tenant), idArg(m.entry)); err != nil {
					return err
				}
				break
			}
			entries++
		}
		// Those that are locked: another node has at most deleted some before them.
		if _, err := tx.Exec("DELETE FROM entries WHERE tenant_id = $1 AND entry_id IN (SELECT entry_id FROM entries WHERE tenant_id = $1 AND account_id = $2 ORDER BY created_at, entry_id LIMIT $3)",
			idArg(tenant), idArg(account), int64(entries)); err != nil {
			return fmt.Errorf("delete erased entries: %w", err)
		}
		deleted, more = entries+eraseAtOnce-left, false
		return tx.Query("SELECT entry_id "+some, engine.Args{idArg(tenant), idArg(account), int64(1)}, func(engine.Row) error {
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
		args := engine.Args{idArg(tenant), idArg(last), idArg(entry)}
		last = ""
		if err := tx.Query("DELETE FROM moved_entries WHERE tenant_id = $1 AND move_id = $2 AND entry_id = $3 RETURNING previous_move_id", args,
			func(r engine.Row) error {
				last = idAt[atrium.MoveID](r, 0)
				return nil
			}); err != nil {
			return "", fmt.Errorf("delete moves of an erased entry: %w", err)
		}
	}
	return last, nil
}

// freeKeys frees the idempotency keys of entries of erased accounts, which are deleted later.
var freeKeys = engine.NewBatch(`UPDATE entries SET key_match = NULL FROM batch
	WHERE entries.tenant_id = batch.tenant_id AND entries.entry_id = batch.entry_id`, "tenant_id bytea", "entry_id bytea")
