package accounts

import (
	"context"
	"slices"
	"strconv"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file renames accounts. On a database server, concurrent renames of a tenant share a
// transaction. Otherwise each would hold the head of the tenant's audit log for two round trips
// while the others wait.

// RenameAccount sets the name of the account that id leads to. It returns the account with its
// linked prospects, without merged accounts. It first calls check, if not nil, with the current
// account, and returns its error. Setting the same name changes nothing. It returns NotFound if
// there is no such account.
func (s *Store) RenameAccount(ctx context.Context, c atrium.Change, id atrium.AccountID, name string, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	if s.db.Engine.Traits().Remote && c.IdempotencyKey == "" {
		r := &rename{change: c, id: id, name: name, check: check}
		if err := s.renames.Do(ctx, c.TenantID, r, func(group []*rename) { s.renameGroup(ctx, group) }); err != nil {
			return atrium.AccountDetail{}, atrium.Unavailable(err)
		}
		if r.done {
			return r.detail, r.err
		}
	}
	d, _, err := CheckedChange(ctx, s, c, id, check, func(tx *kernel.Mutation, p Precondition) (d atrium.AccountDetail, err error) {
		id, err := lockAccount(tx, id)
		if err != nil {
			return d, err
		}
		if err := tx.CountSize(tx.Query, countRoot, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(id)}); err != nil {
			return d, err
		}
		if d, err = findAccount(tx.Query, c.TenantID, id, maxDetailProspects); err != nil {
			return d, err
		}
		if err := p.test(tx, d); err != nil || d.Name == name {
			return d, err
		}
		tx.Invalidate(string(d.ID))
		return d, updateAccount(tx, &d.Account, name, d.Domain)
	})
	return d, err
}

// A rename is a call of RenameAccount that waits for its group.
type rename struct {
	change atrium.Change
	id     atrium.AccountID
	name   string
	check  func(atrium.AccountDetail) error

	done   bool // detail and err are the result; if not, the caller runs the rename by itself
	detail atrium.AccountDetail
	err    error
}

// Accounts with more are not renamed in a group, which others wait for.
const (
	maxGroupedBytes     = 4 << 10 // of the name and domain
	maxGroupedProspects = 32
)

var lockForRename = engine.NewBatch("SELECT a.account_id, "+kernel.OctetLength("a.name")+" + "+
	domainSQL("batch.tenant_id", "octet_length(d.domain)", "octet_length(a.domain)")+`,
	(SELECT count(*) FROM (SELECT 1 FROM account_prospects l
		WHERE l.tenant_id = batch.tenant_id AND l.account_id = a.account_id LIMIT `+strconv.Itoa(maxGroupedProspects+1)+`) x), a.survivor_id
	FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id`,
	"tenant_id bytea", "account_id bytea").Lock("a", LockOrder)

var linkedToAccounts = engine.NewBatch("SELECT l.account_id, "+ProspectColumns+` FROM batch
	JOIN account_prospects l ON l.tenant_id = batch.tenant_id AND l.account_id = batch.account_id
	JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id`, "tenant_id bytea", "account_id bytea")

// An outcome is the result of a rename in a group.
type outcome struct {
	detail  atrium.AccountDetail
	err     error // of the check
	changed bool
}

// renameGroup makes the renames of a group in one transaction, except those of merged, unknown and
// large accounts, and the second of two of one account. ctx is that of the first rename, which is
// admitted for all. If the transaction fails, all are left to their callers.
func (s *Store) renameGroup(ctx context.Context, group []*rename) {
	first := group[0]
	if first.change.Admit != nil {
		release, err := first.change.Admit(ctx, false)
		if err != nil {
			first.done, first.err = true, err
			return
		}
		defer release()
	}
	changes := make([]atrium.Change, len(group))
	for i, r := range group {
		changes[i] = r.change
	}
	var outcomes map[*rename]*outcome
	err := kernel.MutateGroup(context.WithoutCancel(ctx), s.db, changes, func(tx engine.Tx, mutations []*kernel.Mutation) (err error) {
		outcomes, err = renameInTx(tx, group, mutations)
		return err
	})
	uncertain := engine.ClassOf(err) == engine.Uncertain
	if err != nil && !uncertain {
		return
	}
	for r, o := range outcomes {
		switch {
		case !uncertain:
			r.done, r.detail, r.err = true, o.detail, kernel.Public(o.err)
		case o.changed:
			r.done, r.err = true, kernel.Public(err)
		}
	}
}

// renameInTx makes the renames of a group that need no transaction of their own.
func renameInTx(tx engine.Tx, group []*rename, mutations []*kernel.Mutation) (map[*rename]*outcome, error) {
	found, err := findForRename(tx, group)
	if err != nil {
		return nil, err
	}
	outcomes := map[*rename]*outcome{}
	var rows []engine.Args
	var index IndexUpdate
	for i, r := range group {
		o := found[r.id]
		if o == nil {
			continue
		}
		delete(found, r.id) // a second rename must see the first
		outcomes[r] = o
		if r.check != nil {
			o.err = r.check(o.detail)
		}
		a := &o.detail.Account
		if o.changed = o.err == nil && a.Name != r.name; o.changed {
			setFields(mutations[i], &index, a, r.name, a.Domain)
			rows = append(rows, renameRow(a))
			tx.Invalidate(string(a.ID))
		}
	}
	if len(rows) == 0 {
		return outcomes, nil
	}
	if err := tx.PipelineExec(renameAccounts, rows); err != nil {
		return nil, err
	}
	return outcomes, index.Write(tx)
}

// findForRename locks the accounts of a group and returns those that can be renamed in it.
func findForRename(tx engine.Tx, group []*rename) (map[atrium.AccountID]*outcome, error) {
	tenant := group[0].change.TenantID
	var rows, linked []engine.Args
	wanted := map[atrium.AccountID]bool{}
	for _, r := range group {
		if !wanted[r.id] {
			wanted[r.id] = true
			rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(r.id)})
		}
	}
	found := map[atrium.AccountID]*outcome{}
	var locked []engine.Args
	_, err := tx.Batch(lockForRename, rows, func(r engine.Row) error {
		id := kernel.IDAt[atrium.AccountID](r, 0)
		prospects := r.Int(2)
		if r.Int(1) > maxGroupedBytes || prospects > maxGroupedProspects || !r.Null(3) {
			return nil
		}
		row := engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
		locked, found[id] = append(locked, row), &outcome{}
		if prospects > 0 {
			linked = append(linked, row)
		}
		return nil
	})
	if err != nil || len(locked) == 0 {
		return found, err
	}
	if err := tx.PipelineQuery(linkedToAccounts, linked, func(r engine.Row) {
		d := &found[kernel.IDAt[atrium.AccountID](r, 0)].detail
		d.Prospects = append(d.Prospects, ScanProspect(r, 1, tenant))
	}); err != nil {
		return nil, err
	}
	_, err = tx.Batch(AccountsByID, locked, func(r engine.Row) error {
		a := ScanAccount(r, tenant)
		d := &found[a.ID].detail
		d.Account = a
		slices.SortFunc(d.Prospects, compareLinked)
		return nil
	})
	return found, err
}
