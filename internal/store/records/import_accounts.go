package records

import (
	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

var importAccounts = engine.NewBatch(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
		created_at, updated_at, stored_at)
	SELECT batch.tenant_id, account_id, domain, domain_hash, name, name_hash, created_at, updated_at, stored_at
	FROM batch WHERE true ON CONFLICT DO NOTHING RETURNING account_id`,
	"tenant_id bytea", "account_id bytea", "domain text", "domain_hash bytea", "name text", "name_hash bytea",
	"created_at bigint", "updated_at bigint", "stored_at bigint")

func (im *importTx) accounts(run importRun) error {
	stored, err := im.find(accounts.AccountsByID, identities[atrium.AccountID](im.tenant, run), func(r engine.Row) Record {
		a := accounts.ScanAccount(r, im.tenant)
		return &a
	})
	if err != nil {
		return err
	}
	for _, item := range run.items { // an account stored under the legacy form of its domain is the same
		if a, ok := stored[identity(item.Record)].(*atrium.Account); ok && a.Domain == item.LegacyDomain {
			a.Domain = item.Record.(*atrium.Account).Domain
		}
	}
	todo, err := notStored[*atrium.Account](run, stored)
	if err != nil {
		return err
	}
	if err := im.refuseErased(todo); err != nil {
		return err
	}
	taken, err := im.legacyDomains(todo)
	if err != nil {
		return err
	}
	var x accounts.IndexUpdate
	var long accounts.LongDomains
	rows := make([]engine.Args, len(todo))
	for n, p := range todo {
		a := p.record
		if taken[p.item.LegacyDomain] {
			return refuseTaken(p.index, "domain", "another account has it")
		}
		taken[a.Domain] = true
		setID(&a.ID)
		a.TenantID = im.tenant
		x.Account(nil, a)
		long.Add(a)
		im.setInstants(p.item, &a.CreatedAt, &a.UpdatedAt)
		rows[n] = engine.Args{
			kernel.IDArg(im.tenant), kernel.IDArg(a.ID), accounts.DomainInRow(a.Domain), kernel.Hash16(a.Domain), kernel.Nullable(a.Name), accounts.NameHash(a.Domain, a.Name),
			int64(a.CreatedAt), int64(a.UpdatedAt), im.storedAt,
		}
	}
	return im.insert(importAccounts, rows, func(r engine.Row) string { return string(kernel.IDAt[atrium.AccountID](r, 0)) },
		func(added map[string]bool) error {
			var existing []int
			for _, p := range todo {
				if !added[string(p.record.ID)] {
					existing = append(existing, p.index)
				}
			}
			if len(existing) > 0 {
				return &ImportError{Index: existing[0], Member: "domain", Detail: "another account has it", Existing: existing, taken: true}
			}
			if err := long.Write(im.tx); err != nil {
				return err
			}
			return x.Write(im.tx)
		})
}

var findErasures = engine.NewBatch(`SELECT x.account_id, x.requested_at FROM batch
	JOIN erasures x ON x.tenant_id = batch.tenant_id AND x.account_id = batch.account_id`, "tenant_id bytea", "account_id bytea")

// refuseErased refuses accounts with the identifier of an account that is being erased: the
// erasure would delete their entries and links too.
func (im *importTx) refuseErased(todo []pending[*atrium.Account]) error {
	var rows []engine.Args
	for _, p := range todo {
		if p.record.ID != "" {
			rows = append(rows, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(p.record.ID)})
		}
	}
	erased := map[atrium.AccountID]bool{}
	if _, err := im.tx.Batch(findErasures, rows, func(r engine.Row) error {
		erased[kernel.IDAt[atrium.AccountID](r, 0)] = true
		return nil
	}); err != nil {
		return err
	}
	for _, p := range todo {
		if erased[p.record.ID] {
			return refuse(p.index, "accountId", "is of an account that is being erased: import it later")
		}
	}
	return nil
}

// legacyDomains returns those legacy forms of the accounts' domains that stored accounts have.
func (im *importTx) legacyDomains(todo []pending[*atrium.Account]) (taken map[string]bool, err error) {
	var rows []engine.Args
	for _, p := range todo {
		if legacy := p.item.LegacyDomain; legacy != "" {
			rows = append(rows, engine.Args{kernel.IDArg(im.tenant), kernel.Hash16(legacy)})
		}
	}
	taken = make(map[string]bool, len(todo))
	_, err = im.tx.Batch(accounts.AccountsByDomain, rows, func(r engine.Row) error {
		taken[accounts.ScanAccount(r, im.tenant).Domain] = true
		return nil
	})
	return taken, err
}

// insert stores rows and calls check with the identities of those that were new, as the statement
// returns them.
func (im *importTx) insert(b *engine.Batch, rows []engine.Args, id func(engine.Row) string, check func(map[string]bool) error) error {
	added := make(map[string]bool, len(rows))
	_, err := im.tx.Batch(b, rows, func(r engine.Row) error {
		added[id(r)] = true
		return nil
	})
	if err != nil {
		return err
	}
	im.added += len(added)
	return check(added)
}
