package accounts

import (
	"context"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// changeAccount is CheckedChange for changes that return an account. It stores only the identifier
// with the idempotency key, because names and domains must not outlive the account. It reads the
// account in the transaction of the change, so that a committed change does not fail afterwards. It
// leaves out the prospects if there are too many to buffer. Only a replay, which changes nothing,
// reads the account separately.
func (s *Store) changeAccount(ctx context.Context, c atrium.Change, checkedID atrium.AccountID, check func(atrium.AccountDetail) error,
	f func(*kernel.Mutation, Precondition) (atrium.AccountID, error),
) (d atrium.AccountDetail, replayed bool, err error) {
	id, replayed, err := CheckedChange(ctx, s, c, checkedID, check, func(tx *kernel.Mutation, p Precondition) (id atrium.AccountID, err error) {
		if id, err = f(tx, p); err == nil {
			d, err = findAccountDetail(tx, c.TenantID, id, maxDetailProspects)
		}
		return id, err
	})
	switch {
	case err != nil:
		return atrium.AccountDetail{}, false, err
	case replayed: // d may be from an earlier try that was not committed
		d, err = s.accountDetail(ctx, c.TenantID, id, maxDetailProspects)
	}
	return d, replayed, err
}

// errDomainTaken says which account has the domain, or had it before.
func errDomainTaken(owner atrium.AccountID) error {
	return atrium.Errorf(atrium.CodeConflict, "The account %s has the domain, or had it before.", owner)
}

// CreateAccount creates an account. The domain can be in any spelling; the name can be "". It
// returns Conflict if an account has or had the domain in any form, and for the unattributed
// domain.
func (s *Store) CreateAccount(ctx context.Context, c atrium.Change, domain, name string) (d atrium.AccountDetail, replayed bool, err error) {
	domain, legacy := canonical.DomainForms(domain)
	return s.changeAccount(ctx, c, "", nil, func(tx *kernel.Mutation, _ Precondition) (atrium.AccountID, error) {
		owners, err := findDomainOwners(tx, domain, legacy)
		switch {
		case err != nil:
			return "", err
		case len(owners) > 0:
			return "", errDomainTaken(owners[0].ID)
		}
		a := atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: domain, Name: name}
		tx.Record("account.create", string(a.ID), nil, accountFields(&a))
		return a.ID, insertAccount(tx, &a, "")
	})
}

// findDomainOwners returns the accounts that have the domain or its legacy form, which can be "".
// For the unattributed domain it returns Conflict, whether or not that account exists.
func findDomainOwners(tx *kernel.Mutation, domain, legacy string) (owners []atrium.Account, err error) {
	if domain == atrium.UnattributedDomain {
		return nil, atrium.Errorf(atrium.CodeConflict, "The domain is that of the unattributed account.")
	}
	if err := tx.CountBytes(len(domain) + len(legacy)); err != nil {
		return nil, err
	}
	tenant := tx.Change.TenantID
	_, err = tx.Batch(AccountsByDomain, DomainFormRows(tenant, domain, legacy), func(r engine.Row) error {
		owners = append(owners, ScanAccount(r, tenant))
		return nil
	})
	return owners, err
}

// lockDomain makes other transactions that want a free domain wait until this transaction ends, so
// that this one can give it to an account that it has locked. It does nothing on an embedded
// engine, which runs one write transaction at a time.
func lockDomain(tx *kernel.Mutation, domain string) error {
	if !tx.DB.Engine.Traits().Remote || domain == atrium.UnattributedDomain {
		return nil
	}
	if owners, err := findDomainOwners(tx, domain, ""); err != nil || len(owners) > 0 {
		return err
	}
	tenant, id := kernel.IDArg(tx.Change.TenantID), kernel.IDArg(atrium.NewID[atrium.AccountID]())
	if _, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, created_at, updated_at, stored_at)
		VALUES ($1, $2, $3, $4, $5, $5, $5)`, tenant, id, DomainInRow(domain), kernel.Hash16(domain), int64(tx.At)); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM accounts WHERE tenant_id = $1 AND account_id = $2", tenant, id) // others still wait for the deleted row
	return err
}

// insertAccount inserts a new account. If into is not "", the account is merged into that one and
// must have no name.
func insertAccount(tx *kernel.Mutation, a *atrium.Account, into atrium.AccountID) error {
	_, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash,
			created_at, updated_at, stored_at, merged_into, survivor_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		kernel.IDArg(tx.Change.TenantID), kernel.IDArg(a.ID), DomainInRow(a.Domain), kernel.Hash16(a.Domain), kernel.Nullable(a.Name), NameHash(a.Domain, a.Name),
		int64(tx.At), int64(tx.At), tx.StoredAt(), kernel.IDArg(into), kernel.IDArg(into))
	if err != nil {
		return err
	}
	var index IndexUpdate
	a.TenantID = tx.Change.TenantID
	if err := ReplaceLongDomain(tx, nil, a); err != nil {
		return err
	}
	index.Account(nil, a)
	return index.Write(tx)
}

// UpdateAccount changes the name and domain of the account that id leads to. It first calls check,
// if not nil, with the current account, and returns its error. Fields that already have their
// value are not changed.
//
// The account gets the current form of the domain, unless it already has the legacy form. The
// previous domain keeps leading to the account, as the domain of an account merged into it. If a
// merged account of the group has the new domain, the two swap domains.
//
// It returns NotFound if there is no such account, and Conflict if an account outside of the group
// has or had the domain in any form, if too many accounts would be merged into this one, and for
// the unattributed account, which cannot be changed.
func (s *Store) UpdateAccount(ctx context.Context, c atrium.Change, id atrium.AccountID, u atrium.AccountUpdate, check func(atrium.AccountDetail) error) (atrium.AccountDetail, error) {
	var domainForm, legacy string
	if u.Domain != "" {
		domainForm, legacy = canonical.DomainForms(u.Domain)
	}
	d, _, err := s.changeAccount(ctx, c, id, check, func(tx *kernel.Mutation, p Precondition) (atrium.AccountID, error) {
		g, err := lockGroupAndDomain(tx, id, domainForm)
		if err != nil {
			return "", err
		}
		if err := g.count(tx); err != nil {
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
		if domainForm != "" && legacy != domain {
			domain = domainForm
		}
		switch {
		case domain != root.Domain:
			err = changeDomain(tx, g, &root, name, domain, legacy)
		case name != root.Name:
			err = updateAccount(tx, &root, name, domain)
		}
		return g.Root.ID, err
	})
	return d, err
}

var selectAccount = "SELECT " + AccountColumns("$1") + " FROM accounts a WHERE a.tenant_id = $1 AND a.account_id = $2"

// changeDomain sets the name and domain of the root of a group. legacy is the legacy form of the
// domain, "" if it has none.
func changeDomain(tx *kernel.Mutation, g *Group, root *atrium.Account, name, domain, legacy string) error {
	owners, err := findDomainOwners(tx, domain, legacy)
	if err != nil {
		return err
	}
	var other *atrium.Account // merged account that has the domain
	for i := range owners {
		if !g.has(owners[i].ID) {
			return errDomainTaken(owners[i].ID)
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
		if err := updateAccount(tx, root, name, domain); err != nil {
			return err
		}
		former.ID = atrium.NewID[atrium.AccountID]()
		return insertAccount(tx, &former, root.ID)
	}
	// The two swap domains. Domains are unique, so one gets a random hash first.
	const set = "UPDATE accounts SET domain = $1, domain_hash = $2 WHERE tenant_id = $3 AND account_id = $4"
	tenant := kernel.IDArg(tx.Change.TenantID)
	if _, err := tx.Exec(set, DomainInRow(other.Domain), RandomHash(), tenant, kernel.IDArg(other.ID)); err != nil {
		return err
	}
	if err := updateAccount(tx, root, name, domain); err != nil {
		return err
	}
	if _, err := tx.Exec(set, DomainInRow(former.Domain), kernel.Hash16(former.Domain), tenant, kernel.IDArg(other.ID)); err != nil {
		return err
	}
	var index IndexUpdate
	changed := *other
	changed.Domain = former.Domain
	if err := ReplaceLongDomain(tx, other, &changed); err != nil {
		return err
	}
	index.Account(other, &changed)
	return index.Write(tx)
}
