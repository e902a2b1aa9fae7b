package store

import (
	"context"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
)

const (
	accountColumns  = "a.account_id, a.domain, a.name, a.created_at, a.updated_at, a.latest_activity_at"
	afterAccount    = 6 // how many these are
	prospectColumns = `p.prospect_id, p.name, p.email, p.domain, p.slug, p.phone_number, p.linkedin_profile_url,
		p.created_at, p.updated_at`
)

// scanAccount reads accountColumns, which start at column 0.
func scanAccount(r engine.Row, tenant atrium.TenantID) atrium.Account {
	return atrium.Account{
		ID: idAt[atrium.AccountID](r, 0), TenantID: tenant, Domain: r.Text(1), Name: r.Text(2),
		CreatedAt: atrium.Time(r.Int(3)), UpdatedAt: atrium.Time(r.Int(4)), LatestActivityAt: timeAt(r, 5),
	}
}

// scanProspect reads prospectColumns, which start at the given column.
func scanProspect(r engine.Row, first int, tenant atrium.TenantID) atrium.Prospect {
	return atrium.Prospect{
		ID: idAt[atrium.ProspectID](r, first), TenantID: tenant,
		Name: textAt(r, first+1), Email: textAt(r, first+2), Domain: textAt(r, first+3), Slug: textAt(r, first+4),
		PhoneNumber: textAt(r, first+5), LinkedinProfileURL: textAt(r, first+6),
		CreatedAt: atrium.Time(r.Int(first + 7)), UpdatedAt: atrium.Time(r.Int(first + 8)),
	}
}

// Account returns an account and the prospects linked to it, ordered by their
// creation and then their identifier. It is NotFound if there is none.
func (s *Store) Account(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID) (a atrium.Account, linked []atrium.Prospect, err error) {
	err = s.find(ctx, accountWithProspects, engine.Args{idArg(tenant), idArg(id)}, scanAccountWithProspects(&a, &linked, tenant))
	return a, linked, err
}

// One statement is one round trip to a server, and needs no transaction.
const accountWithProspects = "SELECT " + accountColumns + ", " + prospectColumns + ` FROM accounts a
	LEFT JOIN account_prospects l ON l.tenant_id = a.tenant_id AND l.account_id = a.account_id
	LEFT JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
	WHERE a.tenant_id = $1 AND a.account_id = $2
	ORDER BY l.prospect_created_at, l.prospect_id`

// scanAccountWithProspects returns what takes the rows of accountWithProspects.
func scanAccountWithProspects(a *atrium.Account, linked *[]atrium.Prospect, tenant atrium.TenantID) func(engine.Row) {
	return func(r engine.Row) {
		if a.ID == "" {
			*a = scanAccount(r, tenant)
		}
		if !r.Null(afterAccount) {
			*linked = append(*linked, scanProspect(r, afterAccount, tenant))
		}
	}
}

// RenameAccount gives an account a name and returns it with its linked
// prospects. The account as it stands is first given to check, whose error ends
// the call. A name that it has already changes nothing. It is NotFound if there
// is none.
func (s *Store) RenameAccount(ctx context.Context, tenant atrium.TenantID, id atrium.AccountID, name string,
	check func(atrium.Account, []atrium.Prospect) error,
) (a atrium.Account, linked []atrium.Prospect, err error) {
	err = s.write(ctx, func(tx engine.Tx) error {
		a, linked = atrium.Account{}, nil
		args := engine.Args{idArg(tenant), idArg(id)}
		if err := engine.Find(tx.Lock, "SELECT account_id FROM accounts WHERE tenant_id = $1 AND account_id = $2", args, func(engine.Row) {}); err != nil {
			return err
		}
		if err := engine.Find(tx.Query, accountWithProspects, args, scanAccountWithProspects(&a, &linked, tenant)); err != nil {
			return err
		}
		if err := check(a, linked); err != nil || a.Name == name {
			return err
		}
		a.Name, a.UpdatedAt = name, max(a.UpdatedAt, atrium.At(s.now()))
		_, err := tx.Exec("UPDATE accounts SET name = $1, name_hash = $2, updated_at = $3 WHERE tenant_id = $4 AND account_id = $5",
			a.Name, nameHash(a.Domain, name), int64(a.UpdatedAt), idArg(tenant), idArg(id))
		return err
	})
	return a, linked, err
}

// nameHash returns what an account of the domain is found by when an entry
// gives only the name: nothing for the unattributed account.
func nameHash(domain, name string) any {
	if name == "" || domain == atrium.UnattributedDomain {
		return nil
	}
	return hash16(canonical.Name(name))
}
