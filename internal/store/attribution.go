package store

import (
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
)

// This file finds the account of each draft of a transaction. Within one transaction
// any order of the drafts is as good as another. Those that give only a name come
// first, so that only what is stored already is found by its name; then accounts are
// touched or made in the order of their domains' hashes, on every node, so that two
// which write for the same accounts hardly ever wait for each other. They still can
// where drafts name accounts by identifier and make others: the engine runs one of
// them again.

var touchAccounts = engine.NewBatch(`UPDATE accounts SET latest_activity_at =
		CASE WHEN accounts.latest_activity_at >= batch.at THEN accounts.latest_activity_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
	RETURNING accounts.tenant_id, accounts.account_id, CASE WHEN accounts.name IS NULL THEN 1 ELSE 0 END`,
	"tenant_id bytea", "account_id bytea", "at bigint")

// The two ways to know of an account what the other one tells.
var (
	findAccounts = engine.NewBatch(`SELECT a.tenant_id, a.account_id, a.domain_hash
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.account_id = batch.account_id`,
		"tenant_id bytea", "account_id bytea")
	findDomains = engine.NewBatch(`SELECT a.tenant_id, a.domain_hash, a.account_id
		FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
		"tenant_id bytea", "domain_hash bytea")
)

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
	hash    string           // of its domain; "" until it is known
	unnamed bool
	drafts  []int
	at      atrium.Time // of the newest activity, if it was before this
}

// targets are those that drafts name in one way, by the identifier or the domain
// that they give.
type targets map[tenantKey]*target

// add gives drafts to the target with the key.
func (all targets) add(tenant atrium.TenantID, key string, drafts ...int) {
	k := tenantKey{tenant, key}
	if all[k] == nil {
		all[k] = &target{}
	}
	all[k].drafts = append(all[k].drafts, drafts...)
}

// sorted returns the keys of a map in one order on every node.
func sorted[V any](all map[tenantKey]V) []tenantKey {
	return slices.SortedFunc(maps.Keys(all), compareKeys)
}

// resolve gives each of the drafts its account, made if need be, with its
// newest activity noted. It returns those that have one; the others' outcome
// is NotFound.
func (b *appending) resolve(drafts []int) (found []int, err error) {
	byID, byDomain, byName := targets{}, targets{}, targets{}
	for _, i := range drafts {
		switch d := b.drafts[i]; {
		case d.Claim.AccountID != "":
			byID.add(d.TenantID, string(d.Claim.AccountID), i)
		case d.Domain != "":
			byDomain.add(d.TenantID, d.Domain, i)
		case d.NameKey != "":
			byName.add(d.TenantID, d.NameKey, i)
		default:
			byDomain.add(d.TenantID, atrium.UnattributedDomain, i)
		}
	}
	if err := b.matchNames(byName, byID, byDomain); err != nil {
		return nil, err
	}
	for k, t := range byDomain {
		t.hash = string(hash16(k.key))
	}
	if len(byID)+len(b.confirmed) > 0 { // else all of them are touched or made by one statement
		if err := b.touchKnown(byID, byDomain); err != nil {
			return nil, err
		}
	}
	if err := b.upsert(byDomain); err != nil {
		return nil, err
	}
	if err := b.fillNames(byID, byDomain); err != nil {
		return nil, err
	}
	for _, all := range []targets{byID, byDomain} {
		for _, t := range all {
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

// matchNames gives the drafts of a name that exactly one account has to it, and
// those of the others to the unattributed account.
func (b *appending) matchNames(byName, byID, byDomain targets) error {
	rows := make([]engine.Args, 0, len(byName))
	for k := range byName {
		rows = append(rows, engine.Args{idArg(k.tenant), hash16(k.key)})
	}
	only := map[tenantKey]atrium.AccountID{} // by the hash of the name
	if _, err := b.tx.Batch(findNames, rows, func(r engine.Row) error {
		if first := idAt[atrium.AccountID](r, 2); first == idAt[atrium.AccountID](r, 3) {
			only[tenantKey{idAt[atrium.TenantID](r, 0), string(r.Bytes(1))}] = first
		}
		return nil
	}); err != nil {
		return fmt.Errorf("find names: %w", err)
	}
	for k, t := range byName {
		if id := only[tenantKey{k.tenant, string(hash16(k.key))}]; id != "" {
			byID.add(k.tenant, string(id), t.drafts...)
		} else {
			byDomain.add(k.tenant, atrium.UnattributedDomain, t.drafts...)
		}
	}
	return nil
}

// touchKnown notes the activity of the accounts that there are, and of those that
// have to be confirmed.
func (b *appending) touchKnown(byID, byDomain targets) error {
	accounts := map[tenantKey][]*target{} // by the hash of the domain; one can be named in several ways
	ids := map[tenantKey]atrium.AccountID{}
	know := func(t *target, tenant atrium.TenantID, hash string, id atrium.AccountID) {
		k := tenantKey{tenant, hash}
		accounts[k], ids[k] = append(accounts[k], t), id
	}
	named := map[tenantKey][]*target{}
	for _, all := range []targets{byID, b.confirmed} {
		for k, t := range all {
			named[k] = append(named[k], t)
		}
	}
	b.confirmed = nil
	hashes, err := domainHashes(b.tx, slices.Collect(maps.Keys(named)))
	if err != nil {
		return err
	}
	for k, hash := range hashes {
		for _, t := range named[k] {
			know(t, k.tenant, hash, atrium.AccountID(k.key))
		}
	}
	var rows []engine.Args
	byHash := map[tenantKey]*target{}
	for k, t := range byDomain {
		byHash[tenantKey{k.tenant, t.hash}] = t
		rows = append(rows, engine.Args{idArg(k.tenant), []byte(t.hash)})
	}
	if _, err := b.tx.Batch(findDomains, rows, func(r engine.Row) error {
		tenant, hash := idAt[atrium.TenantID](r, 0), string(r.Bytes(1))
		know(byHash[tenantKey{tenant, hash}], tenant, hash, idAt[atrium.AccountID](r, 2))
		return nil
	}); err != nil {
		return fmt.Errorf("find domains: %w", err)
	}
	rows = nil
	byAccount := map[tenantKey][]*target{}
	for _, k := range sorted(accounts) {
		byAccount[tenantKey{k.tenant, string(ids[k])}] = accounts[k]
		var at atrium.Time
		for _, t := range accounts[k] {
			if at = max(at, t.at); len(t.drafts) > 0 {
				at = b.at
			}
		}
		rows = append(rows, engine.Args{idArg(k.tenant), idArg(ids[k]), int64(at)})
	}
	if _, err := b.tx.Batch(touchAccounts, rows, func(r engine.Row) error {
		id := idAt[atrium.AccountID](r, 1)
		for _, t := range byAccount[tenantKey{idAt[atrium.TenantID](r, 0), string(id)}] {
			t.id, t.unnamed = id, r.Int(2) == 1
		}
		return nil
	}); err != nil {
		return fmt.Errorf("touch accounts: %w", err)
	}
	return nil
}

// domainHashes returns the hashes of the domains of accounts, which have identifiers
// as their keys; those that do not exist have none.
func domainHashes(tx engine.Tx, accounts []tenantKey) (hashes map[tenantKey]string, err error) {
	hashes = make(map[tenantKey]string, len(accounts))
	rows := make([]engine.Args, len(accounts))
	for i, k := range accounts {
		rows[i] = engine.Args{idArg(k.tenant), idArg(atrium.AccountID(k.key))}
	}
	if _, err := tx.Batch(findAccounts, rows, func(r engine.Row) error {
		hashes[tenantKey{idAt[atrium.TenantID](r, 0), string(idAt[atrium.AccountID](r, 1))}] = string(r.Bytes(2))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("find accounts: %w", err)
	}
	return hashes, nil
}

// upsert touches or makes the accounts with the domains, but for those that are
// known already.
func (b *appending) upsert(byDomain targets) error {
	byHash := map[tenantKey]tenantKey{}
	for k, t := range byDomain {
		if t.id == "" {
			byHash[tenantKey{k.tenant, t.hash}] = k
		}
	}
	rows := make([]engine.Args, 0, len(byHash))
	for _, h := range sorted(byHash) {
		k := byHash[h]
		name := b.claimedName(byDomain[k])
		if k.key == atrium.UnattributedDomain {
			name = ""
		}
		rows = append(rows, engine.Args{
			idArg(k.tenant), idArg(atrium.NewID[atrium.AccountID]()), k.key, []byte(h.key),
			nullable(name), nameHash(k.key, name), int64(b.at), b.storedAt,
		})
	}
	if _, err := b.tx.Batch(upsertAccounts, rows, func(r engine.Row) error {
		t := byDomain[byHash[tenantKey{idAt[atrium.TenantID](r, 0), string(r.Bytes(1))}]]
		t.id, t.unnamed = idAt[atrium.AccountID](r, 2), r.Int(3) == 1
		return nil
	}); err != nil {
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
func (b *appending) fillNames(byID, byDomain targets) error {
	names := map[tenantKey]string{} // by account: one can be named in both ways
	for _, all := range []targets{byDomain, byID} {
		for k, t := range all {
			if name := b.claimedName(t); t.unnamed && name != "" {
				names[tenantKey{k.tenant, string(t.id)}] = name
			}
		}
	}
	rows := make([]engine.Args, 0, len(names))
	for _, k := range sorted(names) {
		rows = append(rows, engine.Args{idArg(k.tenant), idArg(atrium.AccountID(k.key)), names[k], nameHash("", names[k]), int64(b.at)})
	}
	if _, err := b.tx.Batch(fillNames, rows, nil); err != nil {
		return fmt.Errorf("fill names: %w", err)
	}
	return nil
}
