package records

import (
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

var (
	importLinks = engine.NewBatch(`INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id)
		SELECT batch.tenant_id, account_id, prospect_created_at, prospect_id FROM batch`,
		"tenant_id bytea", "account_id bytea", "prospect_created_at bigint", "prospect_id bytea")
	existingAccounts = engine.NewBatch(`SELECT a.account_id FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id AND `+accounts.NotErased, "tenant_id bytea", "id bytea")
	// No condition on survivor_id: with one, a server may read all merged accounts.
	survivorsByID = engine.NewBatch(`SELECT a.account_id, a.survivor_id FROM batch JOIN accounts a
		ON a.tenant_id = batch.tenant_id AND a.account_id = batch.id AND `+accounts.NotErased, "tenant_id bytea", "id bytea")
	insertCopies = engine.NewBatch(`INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id, via)
		SELECT batch.tenant_id, account_id, prospect_created_at, prospect_id, via FROM batch WHERE true ON CONFLICT DO NOTHING`,
		"tenant_id bytea", "account_id bytea", "prospect_created_at bigint", "prospect_id bytea", "via bytea")
)

// prospects imports prospects with their links.
func (im *importTx) prospects(run importRun) error {
	named, err := im.accountsOfDomains(run)
	if err != nil {
		return err
	}
	run.items = compareNamed(run.items, named)
	stored, err := im.storedProspects(run)
	if err != nil {
		return err
	}
	todo, err := notStored[*atrium.LinkedProspect](run, stored)
	if err != nil {
		return err
	}
	var x accounts.IndexUpdate
	var rows []engine.Args
	for _, item := range todo {
		p := item.record
		if len(p.AccountIDs) > 0 || item.item.AccountDomain != "" {
			im.linked++
		} else {
			im.unlinked++
		}
		setID(&p.ID)
		p.TenantID = im.tenant
		x.Prospect(nil, &p.Prospect)
		im.setInstants(item.item, &p.CreatedAt, &p.UpdatedAt)
		rows = append(rows, accounts.ProspectRow(&p.Prospect))
	}
	links, err := im.linksOf(todo, named)
	if err != nil {
		return err
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

// storedProspects returns the prospects that are stored, with their links.
func (im *importTx) storedProspects(run importRun) (map[string]Record, error) {
	ids := identities[atrium.ProspectID](im.tenant, run)
	stored, err := im.find(accounts.ProspectsByID, ids, func(r engine.Row) Record {
		return &atrium.LinkedProspect{Prospect: accounts.ScanProspect(r, 0, im.tenant)}
	})
	if err != nil {
		return nil, err
	}
	_, err = im.tx.Batch(linksOfProspects, ids, func(r engine.Row) error {
		p := stored[string(kernel.IDAt[atrium.ProspectID](r, 0))].(*atrium.LinkedProspect)
		p.AccountIDs = append(p.AccountIDs, kernel.IDAt[atrium.AccountID](r, 1))
		return im.countLinks(1)
	})
	return stored, err
}

// linksOf returns the links of new prospects, as rows of importLinks. It refuses a prospect that names an account that
// does not exist.
func (im *importTx) linksOf(todo []pending[*atrium.LinkedProspect], named map[string]atrium.AccountID) (links []engine.Args, err error) {
	wanted := map[atrium.AccountID]engine.Args{}
	for _, item := range todo {
		for _, id := range item.record.AccountIDs {
			wanted[id] = engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(id)}
		}
		n := len(item.record.AccountIDs)
		if item.item.AccountDomain != "" {
			n++
		}
		if err := im.countLinks(n); err != nil {
			return nil, err
		}
	}
	exists := make(map[atrium.AccountID]bool, len(wanted))
	if _, err := im.tx.Batch(existingAccounts, slices.Collect(maps.Values(wanted)), func(r engine.Row) error {
		exists[kernel.IDAt[atrium.AccountID](r, 0)] = true
		return nil
	}); err != nil {
		return nil, err
	}
	for _, item := range todo {
		p := item.record
		link := func(id atrium.AccountID) {
			links = append(links, engine.Args{kernel.IDArg(im.tenant), kernel.IDArg(id), int64(p.CreatedAt), kernel.IDArg(p.ID)})
		}
		for _, id := range p.AccountIDs {
			if !exists[id] {
				return nil, refuse(item.index, "accountIds", "names an account that does not exist")
			}
			link(id)
		}
		domain := item.item.AccountDomain
		if domain == "" {
			continue
		}
		id := named[domain]
		if id == "" {
			return nil, refuse(item.index, "accountDomain", "matches no account: import the account first")
		}
		if slices.Contains(p.AccountIDs, id) {
			continue
		}
		if len(p.AccountIDs) >= atrium.MaxLinks {
			return nil, refuse(item.index, "accountDomain", fmt.Sprintf("adds a link to %d accounts, the maximum", atrium.MaxLinks))
		}
		link(id)
	}
	return links, nil
}

// accountsOfDomains returns the accounts that prospects name by domain, by its canonical form. Of two accounts with the
// two forms, it is the oldest, as for entries. It never returns the unattributed account.
func (im *importTx) accountsOfDomains(run importRun) (map[string]atrium.AccountID, error) {
	var rows []engine.Args
	named := map[string]string{} // the canonical form, by both
	for _, item := range run.items {
		for _, form := range []string{item.AccountDomain, item.LegacyAccountDomain} {
			if form != "" && form != atrium.UnattributedDomain && named[form] == "" {
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
