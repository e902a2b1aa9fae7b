package accounts

import (
	"context"
	"reflect"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// maxLinksShown is the maximum number of linked accounts returned with a prospect.
const maxLinksShown = 100

func prospectFields(p *atrium.Prospect) kernel.Fields {
	return kernel.Fields{
		"name": p.Name, "email": p.Email, "domain": p.Domain, "slug": p.Slug,
		"phoneNumber": p.PhoneNumber, "linkedinProfileUrl": p.LinkedinProfileURL,
	}
}

// CreateProspect creates a prospect with the texts of given. A request with an idempotency key
// returns the same result when it is repeated, and NotFound after the prospect was deleted.
func (s *Store) CreateProspect(ctx context.Context, c atrium.Change, given atrium.Prospect) (atrium.LinkedProspect, bool, error) {
	p, replayed, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Prospect, error) {
		p := given
		p.ID, p.TenantID, p.CreatedAt, p.UpdatedAt = atrium.NewID[atrium.ProspectID](), c.TenantID, tx.At, tx.At
		tx.Record("prospect.create", string(p.ID), nil, prospectFields(&p))
		if _, err := tx.Batch(InsertProspects, []engine.Args{ProspectRow(&p)}, nil); err != nil {
			return p, err
		}
		var index IndexUpdate
		index.Prospect(nil, &p)
		return p, index.Write(tx)
	})
	if err == nil && replayed && p.TenantID == "" {
		err = atrium.NotFound() // the result was redacted when the prospect was deleted
	}
	return atrium.LinkedProspect{Prospect: p}, replayed, err
}

// Prospect returns a prospect and its linked accounts, without merged ones: the first
// maxLinksShown, sorted by identifier. It returns NotFound if there is no such prospect.
func (s *Store) Prospect(ctx context.Context, tenant atrium.TenantID, id atrium.ProspectID) (p atrium.LinkedProspect, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		p, err = linkedProspect(tx.Query, tx, tenant, id)
		return err
	})
	return p, err
}

// linkedProspect reads the prospect with find, which is tx.Query or tx.Lock.
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

var countProspect = "SELECT " + kernel.OctetLength("p.name", "p.email", "p.domain", "p.slug", "p.phone_number", "p.linkedin_profile_url") +
	" FROM prospects p WHERE tenant_id = $1 AND prospect_id = $2"

// LockProspect locks a prospect and returns it. Its links are then locked too, because changes of
// links lock the prospect. Accounts must be locked before prospects.
func LockProspect(tx *kernel.Mutation, id atrium.ProspectID) (p atrium.LinkedProspect, err error) {
	if err := tx.CountSize(tx.Lock, countProspect, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}); err != nil {
		return p, err
	}
	return linkedProspect(tx.Lock, tx, tx.Change.TenantID, id)
}

// UpdateProspect changes the texts of a prospect with edit. It first calls check with the current
// prospect, and returns its error. If edit changes nothing, nothing is written. It returns
// NotFound if there is no such prospect.
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
		var index IndexUpdate
		index.Prospect(&was, &p.Prospect)
		return p, index.Write(tx)
	})
	return p, err
}

// ProspectsByID finds prospects by identifier and returns ProspectColumns.
var ProspectsByID = engine.NewBatch("SELECT "+ProspectColumns+` FROM batch JOIN prospects p
	ON p.tenant_id = batch.tenant_id AND p.prospect_id = batch.id`, "tenant_id bytea", "id bytea")

// InsertProspects inserts rows of ProspectRow.
var InsertProspects = engine.NewBatch(`INSERT INTO prospects (tenant_id, prospect_id, name, email, domain, slug, phone_number,
		linkedin_profile_url, created_at, updated_at)
	SELECT batch.tenant_id, prospect_id, name, email, domain, slug, phone_number, linkedin_profile_url, created_at, updated_at FROM batch`,
	"tenant_id bytea", "prospect_id bytea", "name text", "email text", "domain text", "slug text", "phone_number text",
	"linkedin_profile_url text", "created_at bigint", "updated_at bigint")

// ProspectRow returns a row for InsertProspects.
func ProspectRow(p *atrium.Prospect) engine.Args {
	return engine.Args{
		kernel.IDArg(p.TenantID), kernel.IDArg(p.ID), kernel.NullableText(p.Name), kernel.NullableText(p.Email), kernel.NullableText(p.Domain), kernel.NullableText(p.Slug),
		kernel.NullableText(p.PhoneNumber), kernel.NullableText(p.LinkedinProfileURL), int64(p.CreatedAt), int64(p.UpdatedAt),
	}
}
