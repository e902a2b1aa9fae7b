package accounts

import (
	"context"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// changeAccount is CheckedChange for what ends with an account that is to be shown. Only
// its identifier is kept with an idempotency key: what an account is called must not
// outlast it. It is read in the transaction of the change, apart from prospects that are
// too many to hold: what was changed must not be answered with a failure. That can only be
// after a replay, which changes nothing.
func (s *Store) changeAccount(ctx context.Context, c atrium.Change, checkedID atrium.AccountID, check func(atrium.AccountDetail) error,
	f func(*kernel.Mutation, Precondition) (atrium.AccountID, error),
) (d atrium.AccountDetail, replayed bool, err error) {
	id, replayed, err := CheckedChange(ctx, s, c, checkedID, check, func(tx *kernel.Mutation, p Precondition) (id atrium.AccountID, err error) {
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
	return s.changeAccount(ctx, c, "", nil, func(tx *kernel.Mutation, _ Precondition) (atrium.AccountID, error) {
		owners, err := withDomain(tx, domain, legacy)
		switch {
		case err != nil:
			return "", err
		case len(owners) > 0:
			return "", errDomainTaken
		}
		a := atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: domain, Name: name}
		tx.Record("account.create", string(a.ID), nil, accountFields(&a))
		return a.ID, insertAccount(tx, &a, "")
	})
}

// withDomain returns the accounts that have a domain or its legacy form, "" for none.
// It is Conflict for that of the unattributed account, whether there is one or not.
func withDomain(tx *kernel.Mutation, domain, legacy string) (owners []atrium.Account, err error) {
	if domain == atrium.UnattributedDomain {
		return nil, atrium.Errorf(atrium.CodeConflict, "The domain is that of the unattributed account.")
	}
	tenant := tx.Change.TenantID
	_, err = tx.Batch(AccountsByDomain, FormRows(tenant, domain, legacy), func(r engine.Row) error {
		owners = append(owners, ScanAccount(r, tenant))
		return nil
	})
	return owners, err
}

// claimDomain has whoever else wants a domain that is free wait for this transaction,
// which may give it to an account that it holds. Where one writes at a time it does
// nothing.
func claimDomain(tx *kernel.Mutation, domain string) error {
	if !tx.DB.Engine.Traits().Remote || domain == atrium.UnattributedDomain {
		return nil
	}
	if owners, err := withDomain(tx, domain, ""); err != nil || len(owners) > 0 {
		return err
	}
	tenant, id := kernel.IDArg(tx.Change.TenantID), kernel.IDArg(atrium.NewID[atrium.AccountID]())
	if _, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, created_at, updated_at, stored_at)
		VALUES ($1, $2, $3, $4, $5, $5, $5)`, tenant, id, DomainInRow(domain), kernel.Hash16(domain), int64(tx.At)); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM accounts WHERE tenant_id = $1 AND account_id = $2", tenant, id) // they wait all the same
	return err
}

// insertAccount stores an account that is new now, merged into another one unless that is
// "". One that is merged has no name.
func insertAccount(tx *kernel.Mutation, a *atrium.Account, into atrium.AccountID) error {
	_, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
			created_at, updated_at, stored_at, merged_into, survivor_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		kernel.IDArg(tx.Change.TenantID), kernel.IDArg(a.ID), DomainInRow(a.Domain), kernel.Hash16(a.Domain), kernel.Nullable(a.Name), NameHash(a.Domain, a.Name),
		int64(tx.At), int64(tx.At), tx.StoredAt(), kernel.IDArg(into), kernel.IDArg(into))
	if err != nil {
		return err
	}
	var x Indexing
	a.TenantID = tx.Change.TenantID
	if err := ReplaceLongDomain(tx, nil, a); err != nil {
		return err
	}
	x.Account(nil, a)
	return x.Write(tx)
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
	d, _, err := s.changeAccount(ctx, c, id, check, func(tx *kernel.Mutation, p Precondition) (atrium.AccountID, error) {
		g, err := lockGroupAndDomain(tx, id, wanted)
		if err != nil {
			return "", err
		}
		if err := p.CheckGroup(tx, g); err != nil {
			return "", err
		}
		if g.Root.unattributed() {
			return "", atrium.Errorf(atrium.CodeConflict, "The unattributed account cannot be changed.")
		}
		var root atrium.Account
		if err := engine.Find(tx.Query, selectAccount, engine.Args{kernel.IDArg(c.TenantID), kernel.IDArg(g.Root.ID)},
			func(r engine.Row) { root = ScanAccount(r, c.TenantID) }); err != nil {
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
			err = changeDomain(tx, g, &root, name, domain, legacy)
		case name != root.Name:
			err = update(tx, &root, name, domain)
		}
		return g.Root.ID, err
	})
	return d, err
}

var selectAccount = "SELECT " + AccountColumns("$1") + " FROM accounts a WHERE a.tenant_id = $1 AND a.account_id = $2"

// changeDomain gives the account that stands for a group a name and another domain,
// which may have a legacy form.
func changeDomain(tx *kernel.Mutation, g *Group, root *atrium.Account, name, domain, legacy string) error {
	owners, err := withDomain(tx, domain, legacy)
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
		if len(g.Members) == atrium.MaxMerged {
			return atrium.Errorf(atrium.CodeConflict, "Too many accounts and domains would lead to this one.")
		}
		if err := update(tx, root, name, domain); err != nil {
			return err
		}
		former.ID = atrium.NewID[atrium.AccountID]()
		return insertAccount(tx, &former, root.ID)
	}
	// Both are there all the time: one of them has no domain for a moment.
	const set = "UPDATE accounts SET domain = $1, domain_hash = $2 WHERE tenant_id = $3 AND account_id = $4"
	tenant := kernel.IDArg(tx.Change.TenantID)
	if _, err := tx.Exec(set, DomainInRow(other.Domain), RandomHash(), tenant, kernel.IDArg(other.ID)); err != nil {
		return err
	}
	if err := update(tx, root, name, domain); err != nil {
		return err
	}
	if _, err := tx.Exec(set, DomainInRow(former.Domain), kernel.Hash16(former.Domain), tenant, kernel.IDArg(other.ID)); err != nil {
		return err
	}
	var x Indexing
	is := *other
	is.Domain = former.Domain
	if err := ReplaceLongDomain(tx, other, &is); err != nil {
		return err
	}
	x.Account(other, &is)
	return x.Write(tx)
}
