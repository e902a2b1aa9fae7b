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

// This file finds the account of each draft of a transaction. Within one transaction
// any order of the drafts is as good as another. Those that give only a name come
// first, so that only what is stored already is found by its name; then accounts are
// touched or made in the order of their domains' hashes, on every node, so that two
// which write for the same accounts hardly ever wait for each other. They still can
// where drafts name accounts by identifier and make others: the engine runs one of
// them again.
//
// An account that was merged into another one takes entries as before, so that a
// split takes them along, and its survivor is touched in its place. For that the
// survivor must be known before. Whether a tenant has any is known from the
// first entry of it that has gone to one: until then nothing is asked. Nobody merges
// or splits between the touch and the commit, because whoever does has to lock what
// was touched.

var upsertAccounts = engine.NewBatch(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
		created_at, updated_at, latest_activity_at, active_minute, stored_at)
	SELECT batch.tenant_id, account_id, domain, domain_hash, name, name_hash, at, at, at, at / 60000000, stored_at FROM batch WHERE true
	ON CONFLICT (tenant_id, domain_hash) DO UPDATE SET latest_activity_at =
		CASE WHEN accounts.latest_activity_at >= excluded.latest_activity_at THEN accounts.latest_activity_at ELSE excluded.latest_activity_at END
	RETURNING accounts.tenant_id, accounts.account_id, CASE WHEN accounts.name IS NULL THEN 1 ELSE 0 END,
		accounts.survivor_id, `+accounts.StaleMinute+`, accounts.domain_hash`,
	"tenant_id bytea", "account_id bytea", "domain text", "domain_hash bytea", "name text", "name_hash bytea", "at bigint", "stored_at bigint")

// fillNames comes after the others so that they, which are most of the work,
// need not touch the index by name.
var fillNames = engine.NewBatch(`UPDATE accounts SET name = batch.name, name_hash = batch.name_hash,
		updated_at = CASE WHEN accounts.updated_at > batch.at THEN accounts.updated_at ELSE batch.at END
	FROM batch WHERE accounts.tenant_id = batch.tenant_id AND accounts.account_id = batch.account_id
		AND accounts.name IS NULL AND accounts.domain <> '`+atrium.UnattributedDomain+`'
	RETURNING accounts.tenant_id, accounts.account_id, accounts.domain, accounts.name`,
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
	id       atrium.AccountID // "" until it is known, or if there is none
	survivor atrium.AccountID // what it was merged into; "" if it stands for itself
	hash     string           // of its domain; "" until it is known
	unnamed  bool             // it has no name, or what it was merged into has none
	legacy   bool             // its domain is a legacy form, under which no account is made
	drafts   []int
}

// leads returns the account that is shown for the target.
func (t *target) leads() atrium.AccountID { return cmp.Or(t.survivor, t.id) }

// targets are those that drafts name in one way, by the identifier or the domain
// that they give.
type targets map[kernel.TenantKey]*target

// add gives drafts to the target with the key.
func (all targets) add(tenant atrium.TenantID, key string, drafts ...int) {
	k := kernel.TenantKey{Tenant: tenant, Key: key}
	if all[k] == nil {
		all[k] = &target{}
	}
	all[k].drafts = append(all[k].drafts, drafts...)
}

// hash sets the hashes of targets that are named by their domains.
func (all targets) hash() {
	for k, t := range all {
		if t.hash == "" {
			t.hash = string(kernel.Hash16(k.Key))
		}
	}
}

// resolve gives each of the drafts its account, made if need be, with its
// newest activity noted. It returns those that have one; the others' outcome
// is NotFound.
func (b *appending) resolve(drafts []int) (found []int, err error) {
	byID, byDomain, byName := targets{}, b.met, targets{}
	var byForms []int
	if b.met == nil {
		byID, byDomain, byName, byForms = b.targets(drafts)
	}
	b.met = nil // they are those of the drafts that lead at first
	if err := b.matchNames(byName, byID, byDomain); err != nil {
		return nil, err
	}
	if err := b.matchForms(byForms, byDomain); err != nil {
		return nil, err
	}
	byDomain.hash()
	if len(byID)+len(b.confirmed) > 0 || b.mayBeMerged(byDomain) { // else all of them are touched or made by one statement
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
				switch {
				case t.id == "" && b.drafts[i].Claim.AccountID == "":
					return nil, errErased
				case t.id == "":
					b.outcomes[i].Err = atrium.NotFound()
					continue
				}
				b.outcomes[i].AccountID, b.stored[i] = t.leads(), t.id
				found = append(found, i)
			}
		}
	}
	return found, nil
}

// targets returns what drafts name, by the way in which they do, and the drafts whose
// domains have legacy forms.
func (b *appending) targets(drafts []int) (byID, byDomain, byName targets, byForms []int) {
	byID, byDomain, byName = targets{}, targets{}, targets{}
	for _, i := range drafts {
		switch d := b.drafts[i]; {
		case d.Claim.AccountID != "":
			byID.add(d.TenantID, string(d.Claim.AccountID), i)
		case d.LegacyDomain != "":
			byForms = append(byForms, i)
		case d.Domain != "":
			byDomain.add(d.TenantID, d.Domain, i)
		case d.NameKey != "":
			byName.add(d.TenantID, d.NameKey, i)
		default:
			byDomain.add(d.TenantID, atrium.UnattributedDomain, i)
		}
	}
	return byID, byDomain, byName, byForms
}

// aheadOf returns what can be touched or made before it is known whether entries have the keys
// of the drafts, nil for nothing: domains alone, so that all is touched in one order.
func (b *appending) aheadOf() targets {
	if !b.ahead {
		return nil
	}
	all := make([]int, len(b.drafts))
	for i := range all {
		all[i] = i
	}
	leading, _ := b.lead(all)
	clear(b.leaders)
	byID, byDomain, byName, byForms := b.targets(leading)
	if len(byID)+len(byName)+len(byForms) > 0 || b.mayBeMerged(byDomain) {
		return nil
	}
	return byDomain
}

// errErased says that an account was erased after it was found by its name or by a
// legacy form of its domain. The next try does not find it.
var errErased error = &engine.Error{Class: engine.Conflict, Err: errors.New("an account was erased meanwhile")}

// matchNames gives the drafts of a name that exactly one account has to it, and
// those of the others to the unattributed account.
func (b *appending) matchNames(byName, byID, byDomain targets) error {
	rows := make([]engine.Args, 0, len(byName))
	for k := range byName {
		rows = append(rows, engine.Args{kernel.IDArg(k.Tenant), kernel.Hash16(k.Key)})
	}
	only := map[kernel.TenantKey]atrium.AccountID{} // by the hash of the name
	if _, err := b.tx.Batch(findNames, rows, func(r engine.Row) error {
		if first := kernel.IDAt[atrium.AccountID](r, 2); first == kernel.IDAt[atrium.AccountID](r, 3) {
			only[kernel.TenantKey{Tenant: kernel.IDAt[atrium.TenantID](r, 0), Key: string(r.Bytes(1))}] = first
		}
		return nil
	}); err != nil {
		return fmt.Errorf("find names: %w", err)
	}
	for k, t := range byName {
		if id := only[kernel.TenantKey{Tenant: k.Tenant, Key: string(kernel.Hash16(k.Key))}]; id != "" {
			byID.add(k.Tenant, string(id), t.drafts...)
		} else {
			byDomain.add(k.Tenant, atrium.UnattributedDomain, t.drafts...)
		}
	}
	return nil
}

// mayBeMerged reports whether one of the targets is of a tenant that is known to have
// merged accounts.
func (b *appending) mayBeMerged(all targets) bool {
	for k := range all {
		if _, ok := b.merging.Load(k.Tenant); ok {
			return true
		}
	}
	return false
}

// touchKnown notes the activity of the accounts that there are, and of those that
// have to be confirmed.
func (b *appending) touchKnown(byID, byDomain targets) error {
	named := map[kernel.TenantKey][]*target{} // by account; one can be named in several ways
	for _, all := range []targets{byID, b.confirmed} {
		for k, t := range all {
			named[k] = append(named[k], t)
		}
	}
	b.confirmed = nil
	known, err := accounts.FindAccountRefs(b.tx, slices.Collect(maps.Keys(named)))
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
		known[k] = a
		named[k] = append(named[k], byHash[kernel.TenantKey{Tenant: k.Tenant, Key: a.Hash}])
		return nil
	}); err != nil {
		return fmt.Errorf("find domains: %w", err)
	}
	newest := map[kernel.TenantKey]atrium.Time{}
	for k := range known {
		for _, t := range named[k] {
			if len(t.drafts) > 0 { // else it is to be confirmed alone: its entry may just have been moved
				newest[k] = b.at
			}
		}
	}
	unnamed, err := accounts.RecordActivity(b.tx, known, newest)
	if err != nil {
		return err
	}
	for k := range unnamed {
		for _, t := range named[k] {
			t.id, t.survivor = atrium.AccountID(k.Key), known[k].Survivor
			t.unnamed = unnamed[kernel.TenantKey{Tenant: k.Tenant, Key: string(t.leads())}]
		}
	}
	return nil
}

// upsert touches or makes the accounts with the domains, but for those that are
// known already.
func (b *appending) upsert(byDomain targets) error {
	byHash := map[kernel.TenantKey]kernel.TenantKey{}
	for k, t := range byDomain {
		if t.id == "" {
			byHash[kernel.TenantKey{Tenant: k.Tenant, Key: t.hash}] = k
		}
	}
	if len(byHash) == 0 {
		return nil
	}
	storedAt, err := b.storedAt(b.tx)
	if err != nil {
		return fmt.Errorf("find the latest export: %w", err)
	}
	rows := make([]engine.Args, 0, len(byHash))
	offered := make(map[kernel.TenantKey]atrium.Account, len(byHash)) // what is made if there is none
	for _, h := range kernel.SortedKeys(byHash) {
		k := byHash[h]
		name := b.claimedName(byDomain[k])
		if k.Key == atrium.UnattributedDomain {
			name = ""
		}
		a := atrium.Account{ID: atrium.NewID[atrium.AccountID](), TenantID: k.Tenant, Domain: k.Key, Name: name}
		offered[h] = a
		rows = append(rows, engine.Args{
			kernel.IDArg(k.Tenant), kernel.IDArg(a.ID), accounts.DomainInRow(k.Key), []byte(h.Key), kernel.Nullable(name), accounts.NameHash(k.Key, name), int64(b.at), storedAt,
		})
	}
	var x accounts.IndexUpdate
	var long accounts.LongDomains
	var touched accounts.MinuteUpdates
	if _, err := b.tx.Batch(upsertAccounts, rows, func(r engine.Row) error {
		k, survivor := touched.Add(r)
		if survivor != "" {
			b.merging.Store(k.Tenant, true)
			return accounts.ErrGroupChanged
		}
		h := kernel.TenantKey{Tenant: k.Tenant, Key: string(r.Bytes(5))}
		t := byDomain[byHash[h]]
		t.id, t.unnamed = atrium.AccountID(k.Key), r.Int(2) == 1
		a := offered[h]
		switch {
		case t.id != a.ID:
		case t.legacy:
			return errErased
		default:
			x.Account(nil, &a)
			long.Add(&a)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("upsert accounts: %w", err)
	}
	if err := touched.Write(b.tx); err != nil {
		return err
	}
	if err := long.Write(b.tx); err != nil {
		return err
	}
	return x.Write(b.tx)
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
	names := map[kernel.TenantKey]string{} // by account: one can be named in both ways
	for _, all := range []targets{byDomain, byID} {
		for k, t := range all {
			if name := b.claimedName(t); t.unnamed && name != "" {
				names[kernel.TenantKey{Tenant: k.Tenant, Key: string(t.leads())}] = name
			}
		}
	}
	rows := make([]engine.Args, 0, len(names))
	for _, k := range kernel.SortedKeys(names) {
		rows = append(rows, engine.Args{kernel.IDArg(k.Tenant), kernel.IDArg(atrium.AccountID(k.Key)), names[k], accounts.NameHash("", names[k]), int64(b.at)})
	}
	var x accounts.IndexUpdate
	if _, err := b.tx.Batch(fillNames, rows, func(r engine.Row) error {
		was := atrium.Account{TenantID: kernel.IDAt[atrium.TenantID](r, 0), ID: kernel.IDAt[atrium.AccountID](r, 1), Domain: r.Text(2)}
		is := was
		is.Name = r.Text(3)
		x.Account(&was, &is)
		return nil
	}); err != nil {
		return fmt.Errorf("fill names: %w", err)
	}
	return x.Write(b.tx)
}

var findForms = engine.NewBatch(`SELECT a.tenant_id, a.domain_hash, a.created_at, a.account_id
	FROM batch JOIN accounts a ON a.tenant_id = batch.tenant_id AND a.domain_hash = batch.domain_hash`,
	"tenant_id bytea", "domain_hash bytea")

// matchForms gives drafts whose domains have legacy forms to the form under which the
// oldest account is stored, and to the current one if there is none.
func (b *appending) matchForms(drafts []int, byDomain targets) error {
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
