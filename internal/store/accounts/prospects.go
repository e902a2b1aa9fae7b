package accounts

import (
	"context"
	"reflect"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// maxLinksShown is how many of its accounts a prospect is shown with.
const maxLinksShown = 100

func prospectFields(p *atrium.Prospect) kernel.Fields {
	return kernel.Fields{
		"name": p.Name, "email": p.Email, "domain": p.Domain, "slug": p.Slug,
		"phoneNumber": p.PhoneNumber, "linkedinProfileUrl": p.LinkedinProfileURL,
	}
}

// CreateProspect makes a prospect with the texts of what is given. A request with an
// idempotency key is answered the same when it comes again, until the prospect is
// deleted; then it is NotFound.
func (s *Store) CreateProspect(ctx context.Context, c atrium.Change, given atrium.Prospect) (atrium.LinkedProspect, bool, error) {
	p, replayed, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Prospect, error) {
		p := given
		p.ID, p.TenantID, p.CreatedAt, p.UpdatedAt = atrium.NewID[atrium.ProspectID](), c.TenantID, tx.At, tx.At
		tx.Record("prospect.create", string(p.ID), nil, prospectFields(&p))
		if _, err := tx.Batch(InsertProspects, []engine.Args{ProspectRow(&p)}, nil); err != nil {
			return p, err
		}
		var x Indexing
		x.Prospect(nil, &p)
		return p, x.Write(tx)
	})
	if err == nil && replayed && p.TenantID == "" {
		err = atrium.NotFound() // see forgetResult
	}
	return atrium.LinkedProspect{Prospect: p}, replayed, err
}

// Prospect returns a prospect and the accounts that it is linked to, in the order of
// their identifiers: the first hundred of those that stand for themselves. It is
// NotFound if there is none.
func (s *Store) Prospect(ctx context.Context, tenant atrium.TenantID, id atrium.ProspectID) (p atrium.LinkedProspect, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		p, err = linkedProspect(tx.Query, tx, tenant, id)
		return err
	})
	return p, err
}

// linkedProspect reads a prospect by find, a method Query or Lock of the transaction.
func linkedProspect(find func(string, engine.Args, func(engine.Row) error) error, tx engine.Tx, tenant atrium.TenantID, id atrium.ProspectID,
) (p atrium.LinkedProspect, err error) {
	args := engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}
	if err := engine.Find(find, "SELECT "+ProspectColumns+" FROM prospects p WHERE tenant_id = $1 AND prospect_id = $2", args, func(r engine.Row) {
		p.Prospect = ScanProspect(r, 0, tenant)
	}); err != nil {
		return p, err
	}
	err = tx.Query(`SELECT l.account_id FROM account_prospects l
		JOIN accounts a ON a.tenant_id = l.tenant_id AND a.account_id = l.account_id
		WHERE l.tenant_id = $1 AND l.prospect_id = $2 AND a.survivor_id IS NULL ORDER BY l.account_id LIMIT $3`,
		append(args, int64(maxLinksShown)+1), func(r engine.Row) error {
			if p.More = len(p.AccountIDs) == maxLinksShown; !p.More {
				p.AccountIDs = append(p.AccountIDs, kernel.IDAt[atrium.AccountID](r, 0))
			}
			return nil
		})
	return p, err
}

// LockProspect returns a prospect that stays as it is until the transaction ends, and
// so do its links: who changes them locks it too. Accounts are locked before it.
func LockProspect(tx *kernel.Mutation, id atrium.ProspectID) (atrium.LinkedProspect, error) {
	return linkedProspect(tx.Lock, tx, tx.Change.TenantID, id)
}

// UpdateProspect lets edit change the texts of a prospect. The prospect as it stands
// is first given to check, whose error ends the call. What is as it was changes
// nothing. It is NotFound if there is none.
func (s *Store) UpdateProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, edit func(*atrium.Prospect), check func(atrium.LinkedProspect) error) (atrium.LinkedProspect, error) {
	p, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.LinkedProspect, error) {
		p, err := LockProspect(tx, id)
		if err != nil {
			return p, err
		}
		if err := check(p); err != nil {
			return p, err
		}
		was := p.Prospect
		if edit(&p.Prospect); reflect.DeepEqual(p.Prospect, was) {
			return p, nil
		}
		p.UpdatedAt = max(p.UpdatedAt, tx.At)
		tx.Record("prospect.update", string(id), prospectFields(&was), prospectFields(&p.Prospect))
		if _, err := tx.Exec(`UPDATE prospects SET name = $1, email = $2, domain = $3, slug = $4, phone_number = $5, linkedin_profile_url = $6,
				updated_at = $7 WHERE tenant_id = $8 AND prospect_id = $9`,
			kernel.NullableText(p.Name), kernel.NullableText(p.Email), kernel.NullableText(p.Domain), kernel.NullableText(p.Slug), kernel.NullableText(p.PhoneNumber),
			kernel.NullableText(p.LinkedinProfileURL), int64(p.UpdatedAt), kernel.IDArg(c.TenantID), kernel.IDArg(id)); err != nil {
			return p, err
		}
		var x Indexing
		x.Prospect(&was, &p.Prospect)
		return p, x.Write(tx)
	})
	return p, err
}

// ProspectsByID finds prospects by their identifiers and returns ProspectColumns.
var ProspectsByID = engine.NewBatch("SELECT "+ProspectColumns+` FROM batch JOIN prospects p
	ON p.tenant_id = batch.tenant_id AND p.prospect_id = batch.id`, "tenant_id bytea", "id bytea")

// InsertProspects inserts rows that ProspectRow returns.
var InsertProspects = engine.NewBatch(`INSERT INTO prospects (tenant_id, prospect_id, name, email, domain, slug, phone_number,
		linkedin_profile_url, created_at, updated_at)
	SELECT batch.tenant_id, prospect_id, name, email, domain, slug, phone_number, linkedin_profile_url, created_at, updated_at FROM batch`,
	"tenant_id bytea", "prospect_id bytea", "name text", "email text", "domain text", "slug text", "phone_number text",
	"linkedin_profile_url text", "created_at bigint", "updated_at bigint")

// ProspectRow returns the row of InsertProspects for a prospect.
func ProspectRow(p *atrium.Prospect) engine.Args {
	return engine.Args{
		kernel.IDArg(p.TenantID), kernel.IDArg(p.ID), kernel.NullableText(p.Name), kernel.NullableText(p.Email), kernel.NullableText(p.Domain), kernel.NullableText(p.Slug),
		kernel.NullableText(p.PhoneNumber), kernel.NullableText(p.LinkedinProfileURL), int64(p.CreatedAt), int64(p.UpdatedAt),
	}
}
