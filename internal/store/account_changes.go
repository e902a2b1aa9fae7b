package store

import (
	"context"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
)

// changeAccount is checkedChange for what ends with an account that is to be shown. Only
// its identifier is kept with an idempotency key: what an account is called must not
// outlast it. It is read in the transaction of the change, apart from prospects that are
// too many to hold: what was changed must not be answered with a failure. That can only be
// after a replay, which changes nothing.
func (s *Store) changeAccount(ctx context.Context, c atrium.Change, checkedID atrium.AccountID, check func(atrium.AccountDetail) error,
	f func(*changing, precondition) (atrium.AccountID, error),
) (d atrium.AccountDetail, replayed bool, err error) {
	id, replayed, err := checkedChange(ctx, s, c, checkedID, check, func(tx *changing, p precondition) (id atrium.AccountID, err error) {
		if id, err = f(tx, p); err == nil {
			d, err = findAccountDetail(tx, c.TenantID, id)
		}
		return id, err
	})
	switch {
	case err != nil:
		return atrium.AccountDetail{}, false, err
	case replayed: // perhaps after a try that was not committed
		d, err = s.accountDetail(ctx, c.TenantID, id)
	}
	return d, replayed, err
}

var errDomainTaken = atrium.Errorf(atrium.CodeConflict, "Another account has the domain, or had it before.")

// CreateAccount makes an account with a domain, in any spelling, and a name, "" for
// none. It is Conflict if an account has the domain in any form, or had it before, and
// for that of the unattributed account.
func (s *Store) CreateAccount(ctx context.Context, c atrium.Change, domain, name string) (d atrium.AccountDetail, replayed bool, err error) {
	domain, legacy := canonical.DomainForms(domain)
	return s.changeAccount(ctx, c, "", nil, func(tx *changing, _ precondition) (atrium.AccountID, error) {
		owners, err := tx.withDomain(domain, legacy)
		switch {
		case err != nil:
			return "", err
		case len(owners) > 0:
			return "", errDomainTaken
		}
		a := atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: domain, Name: name}
		tx.record("account.create", string(a.ID), nil, accountFields(&a))
		return a.ID, tx.insertAccount(&a, "")
	})
}

// withDomain returns the accounts that have a domain or its legacy form, "" for none.
// It is Conflict for that of the unattributed account, whether there is one or not.
func (tx *changing) withDomain(domain, legacy string) (owners []atrium.Account, err error) {
	if domain == atrium.UnattributedDomain {
		return nil, atrium.Errorf(atrium.CodeConflict, "The domain is that of the unattributed account.")
	}
	tenant := tx.change.TenantID
	_, err = tx.Batch(accountsByDomain, formRows(tenant, domain, legacy), func(r engine.Row) error {
		owners = append(owners, scanAccount(r, tenant))
		return nil
	})
	return owners, err
}

// claimDomain has whoever else wants a domain that is free wait for this transaction,
// which may give it to an account that it holds. Where one writes at a time it does
// nothing.
func (tx *changing) claimDomain(domain string) error {
	if !tx.store.db.Traits().Remote || domain == atrium.UnattributedDomain {
		return nil
	}
	if owners, err := tx.withDomain(domain, ""); err != nil || len(owners) > 0 {
		return err
	}
	tenant, id := idArg(tx.change.TenantID), idArg(atrium.NewID[atrium.AccountID]())
	if _, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, created_at, updated_at, stored_at)
		VALUES ($1, $2, $3, $4, $5, $5, $5)`, tenant, id, domainInRow(domain), hash16(domain), int64(tx.at)); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM accounts WHERE tenant_id = $1 AND account_id = $2", tenant, id) // they wait all the same
	return err
}

// insertAccount stores an account that is new now, merged into another one unless that is
// "". One that is merged has no name.
func (tx *changing) insertAccount(a *atrium.Account, into atrium.AccountID) error {
	_, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
			created_at, updated_at, stored_at, merged_into, survivor_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		idArg(tx.change.TenantID), idArg(a.ID), domainInRow(a.Domain), hash16(a.Domain), nullable(a.Name), nameHash(a.Domain, a.Name),
		int64(tx.at), int64(tx.at), tx.storedAt(), idArg(into), idArg(into))
	if err != nil {
		return err
	}
	var x indexing
	a.TenantID = tx.change.TenantID
	if err := tx.replaceLongDomain(nil, a); err != nil {
		return err
	}
	x.account(nil, a)
	return x.write(tx)
}

// UpdateAccount changes the account that an identifier leads to. The account as it
// stands is first given to check, whose error ends the call; nil stands for no check. What
// is as it was changes nothing.
//
// The account gets the current form of the domain, unless it has the legacy form already.
// A domain that the account gives up goes on leading to it, as that of an account
// which is merged into it. It may take the domain of one that is: the two change
// theirs. It is Conflict if any other account has the domain in any form or had it
// before, if too much would be merged into this one, and for the unattributed account,
// of which nothing can be changed. It is NotFound if there is no such account.
func (s *Store) UpdateAccount(ctx context.Context, c atrium.Change, id atrium.AccountID, u atrium.AccountUpdate, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	var wanted, legacy string
	if u.Domain != "" {
		wanted, legacy = canonical.DomainForms(u.Domain)
	}
	d, _, err := s.changeAccount(ctx, c, id, check, func(tx *changing, p precondition) (atrium.AccountID, error) {
		g, err := tx.lockGroupAndDomain(id, wanted)
		if err != nil {
			return "", err
		}
		if err := p.testGroup(tx, g); err != nil {
			return "", err
		}
		if g.root.unattributed() {
			return "", atrium.Errorf(atrium.CodeConflict, "The unattributed account cannot be changed.")
		}
		var root atrium.Account
		if err := engine.Find(tx.Query, selectAccount, engine.Args{idArg(c.TenantID), idArg(g.root.ID)},
			func(r engine.Row) { root = scanAccount(r, c.TenantID) }); err != nil {
			return "", err
		}
		name, domain := root.Name, root.Domain
		if u.Name != nil {
			name = *u.Name
		}
		if wanted != "" && legacy != domain {
			domain = wanted
		}
		switch {
		case domain != root.Domain:
			err = tx.changeDomain(g, &root, name, domain, legacy)
		case name != root.Name:
			err = tx.update(&root, name, domain)
		}
		return g.root.ID, err
	})
	return d, err
}

var selectAccount = "SELECT " + accountColumns("$1") + " FROM accounts a WHERE a.tenant_id = $1 AND a.account_id = $2"

// changeDomain gives the account that stands for a group a name and another domain,
// which may have a legacy form.
func (tx *changing) changeDomain(g *group, root *atrium.Account, name, domain, legacy string) error {
	owners, err := tx.withDomain(domain, legacy)
	if err != nil {
		return err
	}
	var other *atrium.Account // that has the domain
	for i := range owners {
		if !g.has(owners[i].ID) {
			return errDomainTaken
		}
		if owners[i].Domain == domain {
			other = &owners[i]
		}
	}
	former := atrium.Account{Domain: root.Domain}
	if other == nil {
		if len(g.members) == atrium.MaxMerged {
			return atrium.Errorf(atrium.CodeConflict, "Too many accounts and domains would lead to this one.")
		}
		if err := tx.update(root, name, domain); err != nil {
			return err
		}
		former.ID = atrium.NewID[atrium.AccountID]()
		return tx.insertAccount(&former, root.ID)
	}
	// Both are there all the time: one of them has no domain for a moment.
	const set = "UPDATE accounts SET domain = $1, domain_hash = $2 WHERE tenant_id = $3 AND account_id = $4"
	tenant := idArg(tx.change.TenantID)
	if _, err := tx.Exec(set, domainInRow(other.Domain), randomHash(), tenant, idArg(other.ID)); err != nil {
		return err
	}
	if err := tx.update(root, name, domain); err != nil {
		return err
	}
	if _, err := tx.Exec(set, domainInRow(former.Domain), hash16(former.Domain), tenant, idArg(other.ID)); err != nil {
		return err
	}
	var x indexing
	is := *other
	is.Domain = former.Domain
	if err := tx.replaceLongDomain(other, &is); err != nil {
		return err
	}
	x.account(other, &is)
	return x.write(tx)
}
