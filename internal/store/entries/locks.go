package entries

import (
	"fmt"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file locks or creates the accounts that drafts name by domain.

var lockDomains = engine.NewBatch("SELECT "+accounts.LockedColumns+`, a.domain_hash FROM batch
	JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
	"tenant_id bytea", "domain_hash bytea").Share("a", accounts.LockOrder)

// Another transaction may create an account with the domain at the same time.
var createAccounts = engine.NewBatch(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
		created_at, updated_at, active_minute, stored_at)
	SELECT batch.tenant_id, account_id, domain, domain_hash, name, name_hash, at, at, at / 60000000, stored_at FROM batch WHERE true
	ON CONFLICT DO NOTHING RETURNING accounts.tenant_id, accounts.domain_hash`,
	"tenant_id bytea", "account_id bytea", "domain text", "domain_hash bytea", "name text", "name_hash bytea", "at bigint", "stored_at bigint")

// lockByDomain locks those accounts with the domain hashes that exist, and calls each for them. It
// returns accounts.ErrGroupChanged if one is merged: the next try looks for survivors.
func (b *appendTx) lockByDomain(hashes []kernel.TenantKey, each func(hash kernel.TenantKey, a accounts.Locked)) error {
	if _, err := b.tx.Batch(lockDomains, hashRows(hashes), func(r engine.Row) error {
		hash, a, err := b.scanLocked(r)
		if err == nil {
			each(hash, a)
		}
		return err
	}); err != nil {
		return fmt.Errorf("lock accounts: %w", err)
	}
	return nil
}

// hashRows returns rows of lockDomains.
func hashRows(hashes []kernel.TenantKey) []engine.Args {
	rows := make([]engine.Args, len(hashes))
	for i, h := range hashes {
		rows[i] = engine.Args{kernel.IDArg(h.Tenant), []byte(h.Key)}
	}
	return rows
}

// scanLocked reads a row of lockDomains. It returns accounts.ErrGroupChanged if the account is merged.
func (b *appendTx) scanLocked(r engine.Row) (hash kernel.TenantKey, a accounts.Locked, err error) {
	if a = accounts.ScanLocked(r); a.Survivor != "" {
		b.mergedTenants.Store(a.Tenant, true)
		err = accounts.ErrGroupChanged
	}
	return kernel.TenantKey{Tenant: a.Tenant, Key: string(r.Bytes(accounts.LockedColumnsLen))}, a, err
}

// lockOrCreate locks or creates the accounts with the domains, except those that are already
// resolved, and records their activity. It removes targets that must wait for another transaction.
func (b *appendTx) lockOrCreate(byID, byDomain targets) error {
	missing := map[kernel.TenantKey]kernel.TenantKey{} // keys of targets by domain hash
	for k, t := range byDomain {
		if t.id == "" {
			missing[kernel.TenantKey{Tenant: k.Tenant, Key: t.hash}] = k
		}
	}
	found := func(hash kernel.TenantKey, a accounts.Locked) {
		if k, ok := missing[hash]; ok {
			byDomain[k].id, byDomain[k].unnamed = atrium.AccountID(a.Key), a.Unnamed
			b.minutes.Add(a, b.at)
			delete(missing, hash)
		}
	}
	var unknown []kernel.TenantKey
	for _, h := range kernel.SortedKeys(missing) {
		if a, ok := b.locked[h]; ok {
			found(h, a)
		} else if !b.looked[h] {
			unknown = append(unknown, h)
		}
	}
	if err := b.lockByDomain(unknown, found); err != nil {
		return err
	}
	b.deferLarge(byID, byDomain, missing)
	if len(missing) > 0 {
		if err := b.create(byDomain, missing); err != nil {
			return err
		}
		if err := b.lockByDomain(kernel.SortedKeys(missing), found); err != nil { // created by other transactions
			return err
		}
		if len(missing) > 0 {
			return errErased
		}
	}
	return nil
}

// create creates accounts for targets, whose keys are given by domain hash, and removes these from
// missing. Those that other transactions have created in the meantime remain.
func (b *appendTx) create(byDomain targets, missing map[kernel.TenantKey]kernel.TenantKey) error {
	storedAt, err := b.storedAt(b.tx)
	if err != nil {
		return fmt.Errorf("find the latest export: %w", err)
	}
	rows := make([]engine.Args, 0, len(missing))
	created := make(map[kernel.TenantKey]atrium.Account, len(missing)) // by domain hash
	for _, h := range kernel.SortedKeys(missing) {
		k := missing[h]
		if byDomain[k].legacy {
			return errErased
		}
		name := b.claimedName(byDomain[k])
		if k.Key == atrium.UnattributedDomain {
			name = ""
		}
		a := atrium.Account{ID: atrium.NewID[atrium.AccountID](), TenantID: k.Tenant, Domain: k.Key, Name: name}
		created[h] = a
		rows = append(rows, engine.Args{
			kernel.IDArg(k.Tenant), kernel.IDArg(a.ID), accounts.DomainInRow(k.Key), []byte(h.Key), kernel.Nullable(name), accounts.NameHash(k.Key, name), int64(b.at), storedAt,
		})
	}
	var index accounts.IndexUpdate
	var long accounts.LongDomains
	if _, err := b.tx.Batch(createAccounts, rows, func(r engine.Row) error {
		h := kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(r.Bytes(1))}
		a := created[h]
		t := byDomain[missing[h]]
		t.id, t.unnamed = a.ID, a.Name == "" && a.Domain != atrium.UnattributedDomain
		b.createdBy(&a, t)
		delete(missing, h)
		index.Account(nil, &a)
		long.Add(&a)
		return nil
	}); err != nil {
		return fmt.Errorf("create accounts: %w", err)
	}
	if err := long.Write(b.tx); err != nil {
		return err
	}
	return index.Write(b.tx)
}
