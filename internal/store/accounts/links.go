package accounts

import (
	"context"
	"maps"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file links prospects to accounts. Changes of a merged account's links apply to its
// survivor. A survivor shows the prospects of all accounts merged into it: it has copies of their
// links, which name the original account in the column via.
//
// Lock order: accounts first, then the prospect. A merge locks accounts first too, and its copied
// links reference the prospect.

// LinkProspect links a prospect to an account and returns the prospect. If it is already linked,
// nothing changes. It first calls check with the current prospect, and returns its error. It
// returns NotFound if the account or the prospect does not exist, and Conflict if the prospect
// would have more than atrium.MaxLinks links.
func (s *Store) LinkProspect(ctx context.Context, c atrium.Change, account atrium.AccountID, id atrium.ProspectID, check func(atrium.LinkedProspect) error) (atrium.LinkedProspect, error) {
	p, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.LinkedProspect, error) {
		p, g, err := lockLink(tx, account, id)
		if err != nil {
			return p, err
		}
		if err := check(p); err != nil {
			return p, err
		}
		linked, err := tx.Batch(linkProspect, []engine.Args{{kernel.IDArg(c.TenantID), kernel.IDArg(g.Root.ID), int64(p.CreatedAt), kernel.IDArg(id)}}, nil)
		if err != nil || linked == 0 {
			return p, err
		}
		if err := checkLinkLimit(tx, id); err != nil {
			return p, err
		}
		if err := recordLinkChange(tx, "prospect.link", g.Root.ID, id); err != nil {
			return p, err
		}
		return linkedProspect(tx.Query, tx, c.TenantID, id)
	})
	return p, err
}

// checkLinkLimit returns Conflict if a prospect has more than atrium.MaxLinks links, including a
// new one.
func checkLinkLimit(tx *kernel.Mutation, id atrium.ProspectID) error {
	links := 0
	err := tx.Query("SELECT account_id FROM account_prospects WHERE tenant_id = $1 AND prospect_id = $2 AND via IS NULL LIMIT $3",
		engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), int64(atrium.MaxLinks) + 1}, func(engine.Row) error {
			links++
			return nil
		})
	if err == nil && links > atrium.MaxLinks {
		err = atrium.Errorf(atrium.CodeConflict, "The prospect is linked to as many accounts as it can be: %d.", atrium.MaxLinks)
	}
	return err
}

// Turns a copied link into a direct one, which remains when the original is removed.
var linkProspect = engine.NewBatch(`INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id)
	SELECT batch.tenant_id, account_id, prospect_created_at, prospect_id FROM batch WHERE true
	ON CONFLICT (tenant_id, account_id, prospect_created_at, prospect_id) DO UPDATE SET via = NULL WHERE account_prospects.via IS NOT NULL`,
	"tenant_id bytea", "account_id bytea", "prospect_created_at bigint", "prospect_id bytea")

// UnlinkProspect removes the links of a prospect to an account and to all accounts merged into it.
// If there are none, nothing changes. It first calls check with the current prospect, and returns
// its error. It returns NotFound if the account or the prospect does not exist.
func (s *Store) UnlinkProspect(ctx context.Context, c atrium.Change, account atrium.AccountID, id atrium.ProspectID, check func(atrium.LinkedProspect) error) error {
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		p, g, err := lockLink(tx, account, id)
		if err != nil {
			return none, err
		}
		if err := check(p); err != nil {
			return none, err
		}
		if ended, err := Unlink(tx, &p.Prospect, g.IDs()); err != nil || ended == 0 {
			return none, err
		}
		return none, recordLinkChange(tx, "prospect.unlink", g.Root.ID, id)
	})
	return err
}

// recordLinkChange writes an audit record for a link and updates updated_at of the account.
func recordLinkChange(tx *kernel.Mutation, action string, account atrium.AccountID, id atrium.ProspectID) error {
	tx.RecordDetail(action, string(id), map[string]any{"accountId": account})
	return raiseUpdatedAt(tx, []atrium.AccountID{account})
}

// DeleteLinks deletes links by key.
var DeleteLinks = engine.NewBatch(`DELETE FROM account_prospects USING batch
	WHERE account_prospects.tenant_id = batch.tenant_id AND account_prospects.account_id = batch.account_id
		AND account_prospects.prospect_created_at = batch.prospect_created_at AND account_prospects.prospect_id = batch.prospect_id`,
	"tenant_id bytea", "account_id bytea", "prospect_created_at bigint", "prospect_id bytea")

// Unlink removes the links of a prospect to accounts and returns how many there were.
func Unlink(tx *kernel.Mutation, p *atrium.Prospect, accountIDs []atrium.AccountID) (int64, error) {
	rows := make([]engine.Args, len(accountIDs))
	for i, id := range accountIDs {
		rows[i] = engine.Args{kernel.IDArg(p.TenantID), kernel.IDArg(id), int64(p.CreatedAt), kernel.IDArg(p.ID)}
	}
	return tx.Batch(DeleteLinks, rows, nil)
}

// linkedAccounts returns all accounts that a prospect is linked to, including merged ones.
func linkedAccounts(tx *kernel.Mutation, id atrium.ProspectID) (linked []atrium.AccountID, err error) {
	err = tx.Query("SELECT account_id FROM account_prospects WHERE tenant_id = $1 AND prospect_id = $2", engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)},
		func(r engine.Row) error {
			linked = append(linked, kernel.IDAt[atrium.AccountID](r, 0))
			return nil
		})
	return linked, err
}

var raiseUpdated = engine.NewBatch(`UPDATE accounts SET
		updated_at = CASE WHEN accounts.updated_at > batch.at THEN accounts.updated_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND `+strings.ReplaceAll(NotErased, "a.", "accounts."),
	"tenant_id bytea", "account_id bytea", "at bigint")

// raiseUpdatedAt sets updated_at of accounts to the time of the change, unless it is later. It
// locks the accounts in LockOrder.
func raiseUpdatedAt(tx *kernel.Mutation, accounts []atrium.AccountID) error {
	rows := make([]engine.Args, 0, len(accounts))
	for _, id := range slices.Sorted(slices.Values(accounts)) {
		rows = append(rows, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id), int64(tx.At)})
	}
	_, err := tx.Batch(raiseUpdated, rows, nil)
	return err
}

// lockLink locks the group of an account and a prospect, and returns both.
func lockLink(tx *kernel.Mutation, account atrium.AccountID, id atrium.ProspectID) (p atrium.LinkedProspect, g *Group, err error) {
	if g, err = LockGroup(tx, account); err != nil {
		return p, nil, err
	}
	p, err = LockProspect(tx, id)
	return p, g, err
}

// LockLinked locks a prospect and the accounts that it is linked to, returns them, and updates
// updated_at of the accounts. The caller passes the same seen map in every retry: LockLinked adds
// linked accounts to it and locks all of them, in case links come back.
func LockLinked(tx *kernel.Mutation, id atrium.ProspectID, seen map[atrium.AccountID]bool) (p atrium.LinkedProspect, linked []atrium.AccountID, err error) {
	if linked, err = linkedAccounts(tx, id); err != nil {
		return p, nil, err
	}
	for _, account := range linked {
		seen[account] = true
	}
	if err := raiseUpdatedAt(tx, slices.Collect(maps.Keys(seen))); err != nil { // locks them
		return p, nil, err
	}
	if p, err = LockProspect(tx, id); err != nil {
		return p, nil, err
	}
	if linked, err = linkedAccounts(tx, id); err != nil {
		return p, nil, err
	}
	for _, account := range linked {
		if !seen[account] { // not locked either
			return p, nil, kernel.ErrRace
		}
	}
	return p, linked, nil
}

var copyLinks = engine.NewBatch(`INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id, via)
	SELECT l.tenant_id, batch.account_id, l.prospect_created_at, l.prospect_id, l.account_id
	FROM batch JOIN account_prospects l ON l.tenant_id = batch.tenant_id AND l.account_id = batch.member_id
	WHERE l.via IS NULL ON CONFLICT DO NOTHING`, "tenant_id bytea", "account_id bytea", "member_id bytea")

// copyLinksOf copies the links of merged accounts to account. Existing links stay as they are.
func copyLinksOf(tx engine.Tx, tenant atrium.TenantID, account atrium.AccountID, merged []atrium.AccountID) error {
	rows := make([]engine.Args, len(merged))
	for i, id := range merged {
		rows[i] = engine.Args{kernel.IDArg(tenant), kernel.IDArg(account), kernel.IDArg(id)}
	}
	_, err := tx.Batch(copyLinks, rows, nil)
	return err
}

// deleteCopies deletes an account's copies of links.
func deleteCopies(tx engine.Tx, tenant atrium.TenantID, account atrium.AccountID) error {
	_, err := tx.Exec("DELETE FROM account_prospects WHERE tenant_id = $1 AND account_id = $2 AND via IS NOT NULL", kernel.IDArg(tenant), kernel.IDArg(account))
	return err
}

// replaceCopies deletes the copies of links that accounts have, and copies the links of the
// accounts that are now merged into them.
func replaceCopies(tx engine.Tx, tenant atrium.TenantID, accounts ...atrium.AccountID) error {
	for _, id := range accounts {
		if err := deleteCopies(tx, tenant, id); err != nil {
			return err
		}
		group, err := GroupIDs(tx.Query, tenant, id)
		if err != nil {
			return err
		}
		if err := copyLinksOf(tx, tenant, id, group[1:]); err != nil {
			return err
		}
	}
	return nil
}
