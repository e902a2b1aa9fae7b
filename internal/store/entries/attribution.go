package entries

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file finds the account of each draft of a transaction. The order of drafts within a
// transaction does not matter. Drafts with only a name are resolved first, so that names match only
// accounts that are already stored. Then accounts are locked in accounts.LockOrder, and the missing
// ones created in the order of their domain hashes, so that transactions for the same accounts
// rarely deadlock. They still can if another transaction has created one of the missing accounts:
// it is locked last. The engine then retries one of them.
//
// New entries for a merged account are stored in that account, so that a split takes them along,
// but the survivor is locked and updated. Finding the survivor takes an extra query, which is
// skipped for tenants without known merged accounts. No merge or split can happen between the
// lock and the commit, because it would need a lock on the survivor.

// fillNames is a separate statement so that most appends do not write the index by name.
var fillNames = engine.NewBatch(`UPDATE accounts SET name = batch.name, name_hash = batch.name_hash,
		updated_at = CASE WHEN accounts.updated_at > batch.at THEN accounts.updated_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND accounts.name IS NULL AND accounts.domain <> '`+atrium.UnattributedDomain+`'
	RETURNING accounts.tenant_id, accounts.account_id, accounts.domain, accounts.name`,
	"tenant_id bytea", "account_id bytea", "name text", "name_hash bytea", "at bigint")

// A target is an account that drafts go to.
type target struct {
	id       atrium.AccountID // "" if it is not known yet or does not exist
	survivor atrium.AccountID // "" if it is not merged
	hash     string           // of its domain; "" if it is not known yet
	unnamed  bool             // the account, or its survivor if it is merged, has no name
	legacy   bool             // the domain is a legacy form, for which no account is created
	drafts   []int
}

// shownID returns the account that is shown for the target.
func (t *target) shownID() atrium.AccountID { return cmp.Or(t.survivor, t.id) }

// targets maps the identifiers, domains or names in drafts to accounts.
type targets map[kernel.TenantKey]*target

// add adds drafts to the target with the key.
func (all targets) add(tenant atrium.TenantID, key string, drafts ...int) {
	k := kernel.TenantKey{Tenant: tenant, Key: key}
	if all[k] == nil {
		all[k] = &target{}
	}
	all[k].drafts = append(all[k].drafts, drafts...)
}

// setHashes sets the domain hashes of targets with domains as keys.
func (all targets) setHashes() {
	for k, t := range all {
		if t.hash == "" {
			t.hash = string(kernel.Hash16(k.Key))
		}
	}
}

// resolve finds or creates the account of each draft. It returns the drafts that have an account; the
// outcome of the others is NotFound.
func (b *appendTx) resolve(drafts []int) (found []int, err error) {
	byID, byDomain, byName, byForms := b.targets(drafts)
	if err := b.matchNames(byName, byID, byDomain); err != nil {
		return nil, err
	}
	if err := b.matchForms(byForms, byDomain); err != nil {
		return nil, err
	}
	byDomain.setHashes()
	if len(byID)+len(b.toConfirm) > 0 || b.mayHaveMerged(byDomain) { // otherwise, all are locked or created by domain
		if err := b.lockExisting(byID, byDomain); err != nil {
			return nil, err
		}
	}
	if err := b.lockOrCreate(byID, byDomain); err != nil {
		return nil, err
	}
	if err := b.raiseActivity(byID, byDomain); err != nil {
		return nil, err
	}
	if err := b.fillNames(byID, byDomain); err != nil {
		return nil, err
	}
	for _, all := range []targets{byID, byDomain} {
		for _, t := range all {
			for _, i := range t.drafts {
				switch {
				case t.id == "" && b.drafts[i].Claim.AccountID == "":
					return nil, errErased
				case t.id == "":
					b.outcomes[i].Err = atrium.NotFound()
					continue
				}
				b.outcomes[i].AccountID, b.storedIn[i] = t.shownID(), t.id
				found = append(found, i)
			}
		}
	}
	return found, nil
}

// targets groups drafts by identifier, domain or name. It returns the drafts whose domains have
// legacy forms separately.
func (b *appendTx) targets(drafts []int) (byID, byDomain, byName targets, byForms []int) {
	byID, byDomain, byName = targets{}, targets{}, targets{}
	for _, i := range drafts {
		switch d := b.drafts[i]; {
		case d.Claim.AccountID != "":
			b.rules[i] = atrium.RuleAccountID
			byID.add(d.TenantID, string(d.Claim.AccountID), i)
		case d.LegacyDomain != "":
			b.rules[i] = atrium.RuleDomain
			byForms = append(byForms, i)
		case d.Domain != "":
			b.rules[i] = atrium.RuleDomain
			byDomain.add(d.TenantID, d.Domain, i)
		case d.NameKey != "":
			byName.add(d.TenantID, d.NameKey, i) // matchNames sets the rule
		default:
			b.rules[i] = atrium.RuleUnattributed
			byDomain.add(d.TenantID, atrium.UnattributedDomain, i)
		}
	}
	return byID, byDomain, byName, byForms
}

// errErased reports that an account was erased after it was found. The append is retried and does
// not find it again.
var errErased error = &engine.Error{Class: engine.Conflict, Err: errors.New("an account was erased concurrently")}

// matchNames attributes drafts with a name to the account with that name if exactly one has it,
// and to the unattributed account otherwise.
func (b *appendTx) matchNames(byName, byID, byDomain targets) error {
	unique, err := accounts.FindUniqueNames(b.tx, slices.Collect(maps.Keys(byName)))
	if err != nil {
		return err
	}
	for k, t := range byName {
		if id := unique[k]; id != "" {
			byID.add(k.Tenant, string(id), t.drafts...)
			b.setRule(t.drafts, atrium.RuleName)
		} else {
			byDomain.add(k.Tenant, atrium.UnattributedDomain, t.drafts...)
			b.setRule(t.drafts, atrium.RuleUnattributed)
		}
	}
	return nil
}

func (b *appendTx) setRule(drafts []int, rule atrium.Rule) {
	for _, i := range drafts {
		b.rules[i] = rule
	}
}

// mayHaveMerged reports whether a tenant of the targets is known to have merged accounts.
func (b *appendTx) mayHaveMerged(all targets) bool {
	for k := range all {
		if _, ok := b.mergedTenants.Load(k.Tenant); ok {
			return true
		}
	}
	return false
}

// lockExisting locks the accounts that exist, and rewrites those in toConfirm.
func (b *appendTx) lockExisting(byID, byDomain targets) error {
	byAccount := map[kernel.TenantKey][]*target{} // drafts can name an account in several ways
	for _, all := range []targets{byID, b.toConfirm} {
		for k, t := range all {
			byAccount[k] = append(byAccount[k], t)
		}
	}
	b.toConfirm = nil
	refs, err := accounts.FindAccountRefs(b.tx, slices.Collect(maps.Keys(byAccount)))
	if err != nil {
		return err
	}
	var rows []engine.Args
	byHash := map[kernel.TenantKey]*target{}
	for k, t := range byDomain {
		byHash[kernel.TenantKey{Tenant: k.Tenant, Key: t.hash}] = t
		rows = append(rows, engine.Args{kernel.IDArg(k.Tenant), []byte(t.hash)})
	}
	if _, err := b.tx.Batch(accounts.AccountRefsByDomain, rows, func(r engine.Row) error {
		k, a := accounts.ScanAccountRef(r)
		refs[k] = a
		byAccount[k] = append(byAccount[k], byHash[kernel.TenantKey{Tenant: k.Tenant, Key: a.Hash}])
		return nil
	}); err != nil {
		return fmt.Errorf("find domains: %w", err)
	}
	newest := map[kernel.TenantKey]atrium.Time{}
	for k := range refs {
		for _, t := range byAccount[k] {
			if len(t.drafts) > 0 { // accounts that are only confirmed get no activity: the entry may have been moved since
				newest[k] = b.at
			}
		}
	}
	unnamed, minutes, err := accounts.LockActive(b.tx, refs, newest)
	if err != nil {
		return err
	}
	b.minutes = append(b.minutes, minutes...)
	for k := range unnamed {
		for _, t := range byAccount[k] {
			t.id, t.survivor = atrium.AccountID(k.Key), refs[k].Survivor
			t.unnamed = unnamed[kernel.TenantKey{Tenant: k.Tenant, Key: string(t.shownID())}]
		}
	}
	return nil
}

// raiseActivity records the activity of merged accounts. It comes after deferLarge: a deferred entry
// is no activity.
func (b *appendTx) raiseActivity(byID, byDomain targets) error {
	newest := map[kernel.TenantKey]atrium.Time{}
	for _, all := range []targets{byID, byDomain} {
		for k, t := range all {
			if t.survivor != "" {
				newest[kernel.TenantKey{Tenant: k.Tenant, Key: string(t.survivor)}] = b.at
			}
		}
	}
	return accounts.RaiseActivity(b.tx, newest)
}

// claimedName returns the first name that a draft of the target claims.
func (b *appendTx) claimedName(t *target) string {
	for _, i := range t.drafts {
		if name := b.drafts[i].Claim.Name; name != "" {
			return name
		}
	}
	return ""
}

// fillNames sets the names of accounts that have none.
func (b *appendTx) fillNames(byID, byDomain targets) error {
	names := map[kernel.TenantKey]string{} // drafts can name an account in both ways
	for _, all := range []targets{byDomain, byID} {
		for k, t := range all {
			if name := b.claimedName(t); t.unnamed && name != "" {
				names[kernel.TenantKey{Tenant: k.Tenant, Key: string(t.shownID())}] = name
			}
		}
	}
	rows := make([]engine.Args, 0, len(names))
	for _, k := range kernel.SortedKeys(names) {
		rows = append(rows, engine.Args{kernel.IDArg(k.Tenant), kernel.IDArg(atrium.AccountID(k.Key)), names[k], accounts.NameHash("", names[k]), int64(b.at)})
	}
	var index accounts.IndexUpdate
	if _, err := b.tx.Batch(fillNames, rows, func(r engine.Row) error {
		was := atrium.Account{TenantID: kernel.IDAt[atrium.TenantID](r, 0), ID: kernel.IDAt[atrium.AccountID](r, 1), Domain: r.Text(2)}
		named := was
		named.Name = r.Text(3)
		index.Account(&was, &named)
		return nil
	}); err != nil {
		return fmt.Errorf("fill names: %w", err)
	}
	return index.Write(b.tx)
}

var findForms = engine.NewBatch(`SELECT a.tenant_id, a.domain_hash, a.created_at, a.account_id
	FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
	"tenant_id bytea", "domain_hash bytea")

// matchForms attributes drafts whose domains have legacy forms: to the oldest account of either
// form, or to the current form if there is none.
func (b *appendTx) matchForms(drafts []int, byDomain targets) error {
	if len(drafts) == 0 {
		return nil
	}
	rows := make(map[kernel.TenantKey]engine.Args, 2*len(drafts))
	for _, i := range drafts {
		d := b.drafts[i]
		for _, row := range accounts.DomainFormRows(d.TenantID, d.Domain, d.LegacyDomain) {
			rows[kernel.TenantKey{Tenant: d.TenantID, Key: string(row[1].([]byte))}] = row
		}
	}
	stored := make(map[kernel.TenantKey]*atrium.Account, len(rows)) // by the hash of the form
	if _, err := b.tx.Batch(findForms, slices.Collect(maps.Values(rows)), func(r engine.Row) error {
		stored[kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(r.Bytes(1))}] = &atrium.Account{
			CreatedAt: atrium.Time(r.Int(2)), ID: kernel.IDAt[atrium.AccountID](r, 3),
		}
		return nil
	}); err != nil {
		return fmt.Errorf("find forms of domains: %w", err)
	}
	for _, i := range drafts {
		d := b.drafts[i]
		current := stored[kernel.TenantKey{Tenant: d.TenantID, Key: string(kernel.Hash16(d.Domain))}]
		legacy := stored[kernel.TenantKey{Tenant: d.TenantID, Key: string(kernel.Hash16(d.LegacyDomain))}]
		if legacy == nil || current != nil && accounts.CompareAge(current, legacy) < 0 {
			byDomain.add(d.TenantID, d.Domain, i)
			continue
		}
		byDomain.add(d.TenantID, d.LegacyDomain, i)
		byDomain[kernel.TenantKey{Tenant: d.TenantID, Key: d.LegacyDomain}].legacy = true
	}
	return nil
}
