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
//
// Accounts that are there are touched in the order of their identifiers, and then
// those that are not are made in the order of their domains, so that two nodes
// which write for the same accounts do not wait for each other.

var touchAccounts = engine.NewBatch(`UPDATE accounts SET latest_activity_at =
		CASE WHEN accounts.latest_activity_at >= batch.at THEN accounts.latest_activity_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
	RETURNING accounts.tenant_id, accounts.account_id, CASE WHEN accounts.name IS NULL THEN 1 ELSE 0 END`,
	"tenant_id bytea", "account_id bytea", "at bigint")

var findDomains = engine.NewBatch(`SELECT a.tenant_id, a.domain_hash, a.account_id
	FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
	"tenant_id bytea", "domain_hash bytea")

var upsertAccounts = engine.NewBatch(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
		created_at, updated_at, latest_activity_at, stored_at)
	SELECT batch.tenant_id, account_id, domain, domain_hash, name, name_hash, at, at, at, stored_at FROM batch WHERE true
	ON CONFLICT (tenant_id, domain_hash) DO UPDATE SET latest_activity_at =
		CASE WHEN accounts.latest_activity_at >= excluded.latest_activity_at THEN accounts.latest_activity_at ELSE excluded.latest_activity_at END
	RETURNING accounts.tenant_id, accounts.domain_hash, accounts.account_id, CASE WHEN accounts.name IS NULL THEN 1 ELSE 0 END`,
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
	id      atrium.AccountID // "" until it is known, or if there is none
	unnamed bool
	drafts  []int
}

// resolve gives each of the drafts its account, made if need be, with its
// newest activity noted. It returns those that have one; the others' outcome
// is NotFound.
func (b *appending) resolve(drafts []int) (found []int, err error) {
	byID, byDomain, byName := map[tenantKey]*target{}, map[tenantKey]*target{}, map[tenantKey]*target{}
	add := func(targets map[tenantKey]*target, i int, key string) *target {
		k := tenantKey{b.drafts[i].TenantID, key}
		if targets[k] == nil {
			targets[k] = &target{}
		}
		targets[k].drafts = append(targets[k].drafts, i)
		return targets[k]
	}
	for _, i := range drafts {
		switch d := b.drafts[i]; {
		case d.Claim.AccountID != "":
			add(byID, i, string(d.Claim.AccountID)).id = d.Claim.AccountID
		case d.Domain != "":
			add(byDomain, i, d.Domain)
		case d.NameKey != "":
			add(byName, i, d.NameKey)
		default:
			add(byDomain, i, atrium.UnattributedDomain)
		}
	}
	// Domains before names: an account that is made or named here can be found
	// by its name, and what no account is found for is unattributed.
	if err := b.findDomains(byDomain); err != nil {
		return nil, err
	}
	if err := b.touch(byID, byDomain); err != nil {
		return nil, err
	}
	if err := b.makeMissing(byDomain); err != nil {
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

// sorted returns the keys of a map in one order on every node.
func sorted[V any](all map[tenantKey]V) []tenantKey {
	return slices.SortedFunc(maps.Keys(all), compareKeys)
}

// findDomains finds the accounts that have the domains.
func (b *appending) findDomains(targets map[tenantKey]*target) error {
	rows := make([]engine.Args, 0, len(targets))
	byHash := make(map[tenantKey]*target, len(targets))
	for k, t := range targets {
		hash := hash16(k.key)
		byHash[tenantKey{k.tenant, string(hash)}] = t
		rows = append(rows, engine.Args{idArg(k.tenant), hash})
	}
	_, err := b.tx.Batch(findDomains, rows, func(r engine.Row) error {
		byHash[tenantKey{idAt[atrium.TenantID](r, 0), string(r.Bytes(1))}].id = idAt[atrium.AccountID](r, 2)
		return nil
	})
	if err != nil {
		return fmt.Errorf("find domains: %w", err)
	}
	return nil
}

// touch notes new activity of the accounts that the targets have identifiers of.
// Those that do not exist lose them.
func (b *appending) touch(all ...map[tenantKey]*target) error {
	accounts := map[tenantKey][]*target{} // one can be named in several ways
	for _, targets := range all {
		for k, t := range targets {
			if t.id != "" {
				account := tenantKey{k.tenant, string(t.id)}
				accounts[account] = append(accounts[account], t)
				t.id = ""
			}
		}
	}
	rows := make([]engine.Args, 0, len(accounts))
	for _, k := range sorted(accounts) {
		rows = append(rows, engine.Args{idArg(k.tenant), idArg(atrium.AccountID(k.key)), int64(b.at)})
	}
	_, err := b.tx.Batch(touchAccounts, rows, func(r engine.Row) error {
		id := idAt[atrium.AccountID](r, 1)
		for _, t := range accounts[tenantKey{idAt[atrium.TenantID](r, 0), string(id)}] {
			t.id, t.unnamed = id, r.Int(2) == 1
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("touch accounts: %w", err)
	}
	return nil
}

// makeMissing makes the accounts with the domains that no account was found for.
// One that another node has made meanwhile is touched.
func (b *appending) makeMissing(targets map[tenantKey]*target) error {
	var rows []engine.Args
	byHash := map[tenantKey]*target{}
	for _, k := range sorted(targets) {
		if targets[k].id != "" {
			continue
		}
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
		t.id, t.unnamed = idAt[atrium.AccountID](r, 2), r.Int(3) == 1
		return nil
	})
	if err != nil {
		return fmt.Errorf("make accounts: %w", err)
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
			t.id = id
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
	if err := b.findDomains(unattributed); err != nil {
		return nil, err
	}
	if err := b.touch(matched, unattributed); err != nil {
		return nil, err
	}
	return unattributed, b.makeMissing(unattributed)
}
