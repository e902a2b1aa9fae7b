package records

import (
	"errors"
	"fmt"
	"maps"
	"slices"

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

var (
	importLinks = engine.NewBatch(`INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id)
		SELECT batch.tenant_id, account_id, prospect_created_at, prospect_id FROM batch`,
		"tenant_id bytea", "account_id bytea", "prospect_created_at bigint", "prospect_id bytea")
)

func (im *importTx) prospects(run importRun) error {
	named, err := im.accountsOfDomains(run)
	if err != nil {
		return err
	}
	run.items = compareNamed(run.items, named)
	ids := identities[atrium.ProspectID](im.tenant, run)
	stored, err := im.find(accounts.ProspectsByID, ids, func(r engine.Row) Record {
		return &atrium.LinkedProspect{Prospect: accounts.ScanProspect(r, 0, im.tenant)}
	})
	if err != nil {
		return err
	}
	if _, err := im.tx.Batch(linksOfProspects, ids, func(r engine.Row) error {
		p := stored[string(kernel.IDAt[atrium.ProspectID](r, 0))].(*atrium.LinkedProspect)
		p.AccountIDs = append(p.AccountIDs, kernel.IDAt[atrium.AccountID](r, 1))
		return im.countLinks(1)
	}); err != nil {
		return err
	}
	todo, err := notStored[*atrium.LinkedProspect](run, stored)
	if err != nil {
		return err
	}
	wanted := map[atrium.AccountID]engine.Args{}
	for _, p := range todo {
		for _, id := range p.record.AccountIDs {
			wanted[id] = engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(id)}
		}
		n := len(p.record.AccountIDs)
		if p.item.AccountDomain != "" {
			n++
		}
		if err := im.countLinks(n); err != nil {
			return err
		}
	}
	exists := make(map[atrium.AccountID]bool, len(wanted))
	if _, err := im.tx.Batch(existingAccounts, slices.Collect(maps.Values(wanted)), func(r engine.Row) error {
		exists[kernel.IDAt[atrium.AccountID](r, 0)] = true
		return nil
	}); err != nil {
		return err
	}
	var x accounts.IndexUpdate
	var rows, links []engine.Args
	for _, item := range todo {
		p := item.record
		setID(&p.ID)
		p.TenantID = im.tenant
		x.Prospect(nil, &p.Prospect)
		im.setInstants(item.item, &p.CreatedAt, &p.UpdatedAt)
		rows = append(rows, accounts.ProspectRow(&p.Prospect))
		for _, id := range p.AccountIDs {
			if !exists[id] {
				return refuse(item.index, "accountIds", "names an account that does not exist")
			}
			links = append(links, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(id), int64(p.CreatedAt), kernel.IDArg(p.ID)})
		}
		if domain := item.item.AccountDomain; domain != "" {
			id := named[domain]
			if id == "" {
				return refuse(item.index, "accountDomain", "matches no account: import the account first")
			}
			if !slices.Contains(p.AccountIDs, id) {
				if len(p.AccountIDs) >= atrium.MaxLinks {
					return refuse(item.index, "accountDomain", fmt.Sprintf("adds a link to %d accounts, the maximum", atrium.MaxLinks))
				}
				links = append(links, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(id), int64(p.CreatedAt), kernel.IDArg(p.ID)})
			}
		}
	}
	if _, err := im.tx.Batch(accounts.InsertProspects, rows, nil); err != nil {
		return err
	}
	im.added += len(rows)
	if _, err = im.tx.Batch(importLinks, links, nil); err != nil {
		return err
	}
	if err := im.copyLinks(links); err != nil {
		return err
	}
	return x.Write(im.tx)
}

// accountsOfDomains returns the accounts that prospects name by domain, by its canonical form. Of two accounts with the
// two forms, it is the oldest, as for entries.
func (im *importTx) accountsOfDomains(run importRun) (map[string]atrium.AccountID, error) {
	var rows []engine.Args
	named := map[string]string{} // the canonical form, by both
	for _, item := range run.items {
		for _, form := range []string{item.AccountDomain, item.LegacyAccountDomain} {
			if form != "" && named[form] == "" {
				named[form] = item.AccountDomain
				rows = append(rows, engine.Args{kernel.IDArg(im.tenant), kernel.Hash16(form)})
			}
		}
	}
	oldest := make(map[string]*atrium.Account, len(rows))
	if _, err := im.tx.Batch(accounts.AccountsByDomain, rows, func(r engine.Row) error {
		a := accounts.ScanAccount(r, im.tenant)
		domain := named[a.Domain]
		if have := oldest[domain]; have == nil || accounts.CompareAge(&a, have) < 0 {
			oldest[domain] = &a
		}
		return nil
	}); err != nil {
		return nil, err
	}
	ids := make(map[string]atrium.AccountID, len(oldest))
	for domain, a := range oldest {
		ids[domain] = a.ID
	}
	return ids, nil
}

// compareNamed returns items that compare stored prospects also with the accounts that they name by domain.
func compareNamed(items []Import, named map[string]atrium.AccountID) []Import {
	if !slices.ContainsFunc(items, func(i Import) bool { return i.AccountDomain != "" }) {
		return items
	}
	items = slices.Clone(items)
	for i := range items {
		item := items[i]
		if item.AccountDomain == "" {
			continue
		}
		id, own := named[item.AccountDomain], item.Record.(*atrium.LinkedProspect).AccountIDs
		items[i].Differs = func(stored Record) string {
			p := *stored.(*atrium.LinkedProspect)
			at := slices.Index(p.AccountIDs, id)
			if at < 0 {
				return "accountDomain"
			}
			if !slices.Contains(own, id) {
				p.AccountIDs = slices.Delete(slices.Clone(p.AccountIDs), at, at+1)
			}
			return item.Differs(&p)
		}
	}
	return items
}

// countLinks counts links that are read or written. It returns ErrChunkTooLarge if there are too
// many.
func (im *importTx) countLinks(n int) error {
	if im.copied += int64(n); im.bounded && im.copied > accounts.MaxCopiedLinks {
		return ErrChunkTooLarge
	}
	return nil
}

// copyLinks copies new links of merged accounts to their survivors. It must run after the links
// are stored, because an account may be merged before that.
func (im *importTx) copyLinks(links []engine.Args) error {
	linked := map[string]engine.Args{} // rows of survivorsByID
	for _, l := range links {
		linked[string(l[1].([]byte))] = l[:2]
	}
	survivors := map[string][]byte{}
	if _, err := im.tx.Batch(survivorsByID, slices.Collect(maps.Values(linked)), func(r engine.Row) error {
		if !r.Null(1) {
			survivors[string(r.Bytes(0))] = r.Bytes(1)
		}
		return nil
	}); err != nil {
		return err
	}
	var rows []engine.Args
	for _, l := range links {
		if survivor := survivors[string(l[1].([]byte))]; survivor != nil {
			rows = append(rows, engine.Args{l[0], survivor, l[2], l[3], l[1]})
		}
	}
	if err := im.countLinks(len(rows)); err != nil {
		return err
	}
	_, err := im.tx.Batch(insertCopies, rows, nil)
	return err
}

var (
	existingAccounts = engine.NewBatch(`SELECT a.account_id FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id AND `+accounts.NotErased, "tenant_id bytea", "id bytea")
	// No condition on survivor_id: with one, a server may read all merged accounts.
	survivorsByID = engine.NewBatch(`SELECT a.account_id, a.survivor_id FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id AND `+accounts.NotErased, "tenant_id bytea", "id bytea")
	insertCopies = engine.NewBatch(`INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id, via)
		SELECT batch.tenant_id, account_id, prospect_created_at, prospect_id, via FROM batch WHERE true ON CONFLICT DO NOTHING`,
		"tenant_id bytea", "account_id bytea", "prospect_created_at bigint", "prospect_id bytea", "via bytea")
)

// merges makes merges one after the other, because one may need the result of another. It does
// not change the names of accounts: they are imported.
func (im *importTx) merges(run importRun) error {
	for i, item := range run.items {
		m, index := item.Record.(*atrium.Merge), run.first+i
		if err := im.lockGroups(index, m); err != nil {
			return err
		}
		from, to := im.groups[m.AccountID], im.groups[m.Into]
		if from.Root.ID != m.AccountID {
			is, err := accounts.FindMember(im.tx, im.tenant, m.AccountID)
			if err != nil {
				return err
			}
			if member := item.Differs(&atrium.Merge{AccountID: m.AccountID, Into: is.MergedInto}); member != "" {
				return refuseDifferent(member, index)
			}
			continue
		}
		if refusal := accounts.MergeRefusal(from, to); refusal != "" {
			return refuse(index, "into", refusal)
		}
		if err := im.countMerge(index, from); err != nil {
			return err
		}
		if err := accounts.MergeGroups(im.tx, im.tenant, from, to, m.Into); err != nil {
			return err
		}
		for _, id := range from.IDs() {
			im.groups[id] = to
		}
		im.added++
	}
	return nil
}

// lockGroups locks the groups of the two accounts of a merge, unless they are locked already:
// accounts.MergeGroups keeps locked groups up to date.
func (im *importTx) lockGroups(index int, m *atrium.Merge) error {
	var ids []atrium.AccountID
	for _, id := range []atrium.AccountID{m.AccountID, m.Into} {
		if im.groups[id] == nil {
			ids = append(ids, id)
		}
	}
	groups, err := accounts.LockGroups(im.tx, ids...)
	if errors.Is(err, engine.ErrNoRow) {
		member := "into"
		if _, err := accounts.FindSurvivor(im.tx, im.tenant, m.AccountID); errors.Is(err, engine.ErrNoRow) {
			member = "accountId"
		}
		return refuse(index, member, "names an account that does not exist")
	}
	if err != nil {
		return err
	}
	for _, g := range groups {
		for _, id := range g.IDs() {
			im.groups[id] = g
		}
		if err := im.countRegrouped(len(g.Members) + 1); err != nil {
			return err
		}
	}
	return nil
}

// countMerge counts the accounts and links that a merge changes. It refuses a merge that alone
// changes too many.
func (im *importTx) countMerge(index int, from *accounts.Group) error {
	if im.copy {
		return nil
	}
	if err := im.countRegrouped(len(from.Members) + 1); err != nil {
		return err
	}
	left, err := accounts.RemainingLinks(im.tx, im.tenant, from.IDs(), accounts.MaxCopiedLinks-im.copied)
	switch {
	case err != nil:
		return err
	case left < 0 && im.copied > 0:
		return ErrChunkTooLarge
	case left < 0:
		return refuse(index, "accountId", accounts.TooManyLinks)
	}
	im.copied = accounts.MaxCopiedLinks - left
	return nil
}

// countRegrouped counts accounts that merges lock or change. It returns ErrChunkTooLarge if there
// are too many.
func (im *importTx) countRegrouped(accounts int) error {
	im.regrouped += accounts
	if im.bounded && im.regrouped > maxRegroupedAccounts {
		return ErrChunkTooLarge
	}
	return nil
}
