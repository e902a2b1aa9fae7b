package store

import (
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
)

// This file finds the account of each draft of a transaction. All drafts that
// name an account by identifier or domain are settled before those that give
// only a name: within one transaction any order is as good as another, and this
// one asks the database once for each way of naming.

var touchAccounts = engine.NewBatch(`UPDATE accounts SET latest_activity_at =
		CASE WHEN accounts.latest_activity_at >= batch.at THEN accounts.latest_activity_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
	RETURNING accounts.tenant_id, accounts.account_id, accounts.name`,
	"tenant_id bytea", "account_id bytea", "at bigint")

var upsertAccounts = engine.NewBatch(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
		created_at, updated_at, latest_activity_at, stored_at)
	SELECT tenant_id, account_id, domain, domain_hash, name, name_hash, at, at, at, stored_at FROM batch WHERE true
	ON CONFLICT (tenant_id, domain_hash) DO UPDATE SET latest_activity_at =
		CASE WHEN accounts.latest_activity_at >= excluded.latest_activity_at THEN accounts.latest_activity_at ELSE excluded.latest_activity_at END
	RETURNING tenant_id, domain_hash, account_id, name`,
	"tenant_id bytea", "account_id bytea", "domain text", "domain_hash bytea", "name text", "name_hash bytea", "at bigint", "stored_at bigint")

// fillNames comes after the others so that they, which are most of the work,
// need not touch the index by name.
var fillNames = engine.NewBatch(`UPDATE accounts SET name = batch.name, name_hash = batch.name_hash,
		updated_at = CASE WHEN accounts.updated_at > batch.at THEN accounts.updated_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND accounts.name IS NULL AND accounts.domain <> '`+atrium.UnattributedDomain+`'`,
	"tenant_id bytea", "account_id bytea", "name text", "name_hash bytea", "at bigint")

// The first and the last account of a name are the same one if it is one
// account's alone, however many have it.
var findNames = engine.NewBatch(`SELECT batch.tenant_id, batch.name_hash,
		(SELECT a.account_id FROM accounts a WHERE a.tenant_id = batch.tenant_id AND a.name_hash = batch.name_hash
			ORDER BY a.account_id LIMIT 1),
		(SELECT a.account_id FROM accounts a WHERE a.tenant_id = batch.tenant_id AND a.name_hash = batch.name_hash
			ORDER BY a.account_id DESC LIMIT 1)
	FROM batch`, "tenant_id bytea", "name_hash bytea")

// A target is an account that drafts of the transaction go to.
type target struct {
	id      atrium.AccountID
	unnamed bool
	drafts  []int
}

// resolve gives each of the drafts its account, made if need be, with its
// newest activity noted. It returns those that have one; the others' outcome
// is NotFound.
func (b *appending) resolve(drafts []int) (found []int, err error) {
	byID, byDomain, byName := map[tenantKey]*target{}, map[tenantKey]*target{}, map[tenantKey]*target{}
	add := func(targets map[tenantKey]*target, i int, key string) {
		k := tenantKey{b.drafts[i].TenantID, key}
		if targets[k] == nil {
			targets[k] = &target{}
		}
		targets[k].drafts = append(targets[k].drafts, i)
	}
	for _, i := range drafts {
		switch d := b.drafts[i]; {
		case d.Claim.AccountID != "":
			add(byID, i, string(d.Claim.AccountID))
		case d.Domain != "":
			add(byDomain, i, d.Domain)
		case d.NameKey != "":
			add(byName, i, d.NameKey)
		default:
			add(byDomain, i, atrium.UnattributedDomain)
		}
	}
	if err := b.touch(byID); err != nil {
		return nil, err
	}
	// Domains before names: an account that is made or named here can be found
	// by its name, and what no account is found for is unattributed.
	if err := b.upsert(byDomain); err != nil {
		return nil, err
	}
	if err := b.fillNames(byID, byDomain); err != nil {
		return nil, err
	}
	rest, err := b.matchNames(byName)
	if err != nil {
		return nil, err
	}
	for _, targets := range []map[tenantKey]*target{byID, byDomain, byName, rest} {
		for _, t := range targets {
			for _, i := range t.drafts {
				if t.id == "" {
					b.outcomes[i].Err = atrium.NotFound()
					continue
				}
				b.outcomes[i].AccountID = t.id
				found = append(found, i)
			}
		}
	}
	return found, nil
}

// sorted returns the keys of targets in one order on every node, so that two
// transactions do not wait for each other.
func sorted(targets map[tenantKey]*target) []tenantKey {
	return slices.SortedFunc(maps.Keys(targets), compareKeys)
}

// touch notes new activity of the accounts with the identifiers that exist.
func (b *appending) touch(targets map[tenantKey]*target) error {
	rows := make([]engine.Args, 0, len(targets))
	for _, k := range sorted(targets) {
		rows = append(rows, engine.Args{idArg(k.tenant), idArg(atrium.AccountID(k.key)), int64(b.at)})
	}
	_, err := b.tx.Batch(touchAccounts, rows, func(r engine.Row) error {
		id := idAt[atrium.AccountID](r, 1)
		t := targets[tenantKey{idAt[atrium.TenantID](r, 0), string(id)}]
		t.id, t.unnamed = id, r.Null(2)
		return nil
	})
	if err != nil {
		return fmt.Errorf("touch accounts: %w", err)
	}
	return nil
}

// upsert gets or makes the accounts with the domains, and notes the activity.
func (b *appending) upsert(targets map[tenantKey]*target) error {
	rows := make([]engine.Args, 0, len(targets))
	byHash := make(map[tenantKey]*target, len(targets))
	for _, k := range sorted(targets) {
		name := b.claimedName(targets[k])
		if k.key == atrium.UnattributedDomain {
			name = ""
		}
		hash := hash16(k.key)
		byHash[tenantKey{k.tenant, string(hash)}] = targets[k]
		rows = append(rows, engine.Args{
			idArg(k.tenant), idArg(atrium.NewID[atrium.AccountID]()), k.key, hash,
			nullable(name), nameHash(k.key, name), int64(b.at), b.storedAt,
		})
	}
	_, err := b.tx.Batch(upsertAccounts, rows, func(r engine.Row) error {
		t := byHash[tenantKey{idAt[atrium.TenantID](r, 0), string(r.Bytes(1))}]
		t.id, t.unnamed = idAt[atrium.AccountID](r, 2), r.Null(3)
		return nil
	})
	if err != nil {
		return fmt.Errorf("upsert accounts: %w", err)
	}
	return nil
}

// claimedName returns the first name that one of the target's drafts claims.
func (b *appending) claimedName(t *target) string {
	for _, i := range t.drafts {
		if name := b.drafts[i].Claim.Name; name != "" {
			return name
		}
	}
	return ""
}

// fillNames names the accounts that have no name yet.
func (b *appending) fillNames(all ...map[tenantKey]*target) error {
	var rows []engine.Args
	for _, targets := range all {
		for _, k := range sorted(targets) {
			t := targets[k]
			if name := b.claimedName(t); t.unnamed && name != "" {
				rows = append(rows, engine.Args{idArg(k.tenant), idArg(t.id), name, nameHash("", name), int64(b.at)})
			}
		}
	}
	if _, err := b.tx.Batch(fillNames, rows, nil); err != nil {
		return fmt.Errorf("fill names: %w", err)
	}
	return nil
}

// matchNames settles the targets whose name is exactly one account's, and moves
// the drafts of the others to the unattributed account, which it returns.
func (b *appending) matchNames(targets map[tenantKey]*target) (unattributed map[tenantKey]*target, err error) {
	rows := make([]engine.Args, 0, len(targets))
	keys := sorted(targets)
	only := map[tenantKey]atrium.AccountID{} // by the hash of the name
	for _, k := range keys {
		rows = append(rows, engine.Args{idArg(k.tenant), hash16(k.key)})
	}
	_, err = b.tx.Batch(findNames, rows, func(r engine.Row) error {
		if first := idAt[atrium.AccountID](r, 2); first == idAt[atrium.AccountID](r, 3) {
			only[tenantKey{idAt[atrium.TenantID](r, 0), string(r.Bytes(1))}] = first
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find names: %w", err)
	}
	matched := map[tenantKey]*target{}
	unattributed = map[tenantKey]*target{}
	for _, k := range keys {
		t := targets[k]
		if id := only[tenantKey{k.tenant, string(hash16(k.key))}]; id != "" {
			matched[tenantKey{k.tenant, string(id)}] = t
			continue
		}
		u := tenantKey{k.tenant, atrium.UnattributedDomain}
		if unattributed[u] == nil {
			unattributed[u] = &target{}
		}
		unattributed[u].drafts = append(unattributed[u].drafts, t.drafts...)
		delete(targets, k)
	}
	if err := b.touch(matched); err != nil {
		return nil, err
	}
	return unattributed, b.upsert(unattributed)
}
