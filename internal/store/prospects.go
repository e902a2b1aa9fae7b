package store

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
)

// maxLinksShown is how many of its accounts a prospect is shown with.
const maxLinksShown = 100

func prospectFields(p *atrium.Prospect) []field {
	return []field{
		{"name", p.Name}, {"email", p.Email}, {"domain", p.Domain}, {"slug", p.Slug},
		{"phoneNumber", p.PhoneNumber}, {"linkedinProfileUrl", p.LinkedinProfileURL},
	}
}

// CreateProspect makes a prospect with the texts of what is given. A request with an
// idempotency key is answered the same when it comes again, until the prospect is
// deleted; then it is NotFound.
func (s *Store) CreateProspect(ctx context.Context, c atrium.Change, given atrium.Prospect) (atrium.LinkedProspect, bool, error) {
	p, replayed, err := change(ctx, s, c, func(tx *changing) (atrium.Prospect, error) {
		p := given
		p.ID, p.TenantID, p.CreatedAt, p.UpdatedAt = atrium.NewID[atrium.ProspectID](), c.TenantID, tx.at, tx.at
		tx.record("prospect.create", string(p.ID), nil, prospectFields(&p))
		if _, err := tx.Batch(insertProspects, []engine.Args{prospectRow(&p)}, nil); err != nil {
			return p, err
		}
		var x indexing
		x.prospect(nil, &p)
		return p, x.write(tx)
	})
	if err == nil && replayed && p.TenantID == "" {
		err = atrium.NotFound() // see forgetResult
	}
	return atrium.LinkedProspect{Prospect: p}, replayed, err
}

// forgetResult takes what a prospect was made as from what is kept with the
// idempotency key that it was made with. The key stays bound.
func (tx *changing) forgetResult(p *atrium.Prospect) error {
	rest, err := json.Marshal(atrium.Prospect{ID: p.ID})
	if err != nil {
		return fmt.Errorf("forget a result: %w", err)
	}
	var keys [][]byte
	if err := tx.Query("SELECT key_match, result FROM requests WHERE tenant_id = $1 AND created_at = $2",
		engine.Args{idArg(tx.change.TenantID), int64(p.CreatedAt)}, func(r engine.Row) error {
			if bytes.Contains(r.Bytes(1), []byte(p.ID)) {
				keys = append(keys, r.Bytes(0))
			}
			return nil
		}); err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := tx.Exec("UPDATE requests SET result = $1 WHERE tenant_id = $2 AND key_match = $3", rest, idArg(tx.change.TenantID), key); err != nil {
			return err
		}
	}
	return nil
}

// Prospect returns a prospect and the accounts that it is linked to, in the order of
// their identifiers: the first hundred of those that stand for themselves. It is
// NotFound if there is none.
func (s *Store) Prospect(ctx context.Context, tenant atrium.TenantID, id atrium.ProspectID) (p atrium.LinkedProspect, err error) {
	err = s.read(ctx, func(tx engine.Tx) error {
		p, err = linkedProspect(tx.Query, tx, tenant, id)
		return err
	})
	return p, err
}

// linkedProspect reads a prospect by find, a method Query or Lock of the transaction.
func linkedProspect(find func(string, engine.Args, func(engine.Row) error) error, tx engine.Tx, tenant atrium.TenantID, id atrium.ProspectID,
) (p atrium.LinkedProspect, err error) {
	args := engine.Args{idArg(tenant), idArg(id)}
	if err := engine.Find(find, "SELECT "+prospectColumns+" FROM prospects p WHERE tenant_id = $1 AND prospect_id = $2", args, func(r engine.Row) {
		p.Prospect = scanProspect(r, 0, tenant)
	}); err != nil {
		return p, err
	}
	err = tx.Query(`SELECT l.account_id FROM account_prospects l
		JOIN accounts a ON a.tenant_id = l.tenant_id AND a.account_id = l.account_id
		WHERE l.tenant_id = $1 AND l.prospect_id = $2 AND a.survivor_id IS NULL ORDER BY l.account_id LIMIT $3`,
		append(args, int64(maxLinksShown)+1), func(r engine.Row) error {
			if p.More = len(p.AccountIDs) == maxLinksShown; !p.More {
				p.AccountIDs = append(p.AccountIDs, idAt[atrium.AccountID](r, 0))
			}
			return nil
		})
	return p, err
}

// lockProspect returns a prospect that stays as it is until the transaction ends, and
// so do its links: who changes them locks it too. Accounts are locked before it.
func (tx *changing) lockProspect(id atrium.ProspectID) (atrium.LinkedProspect, error) {
	return linkedProspect(tx.Lock, tx, tx.change.TenantID, id)
}

// UpdateProspect lets edit change the texts of a prospect. The prospect as it stands
// is first given to check, whose error ends the call. What is as it was changes
// nothing. It is NotFound if there is none.
func (s *Store) UpdateProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, edit func(*atrium.Prospect), check func(atrium.LinkedProspect) error) (atrium.LinkedProspect, error) {
	p, _, err := change(ctx, s, c, func(tx *changing) (atrium.LinkedProspect, error) {
		p, err := tx.lockProspect(id)
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
		p.UpdatedAt = max(p.UpdatedAt, tx.at)
		tx.record("prospect.update", string(id), prospectFields(&was), prospectFields(&p.Prospect))
		if _, err := tx.Exec(`UPDATE prospects SET name = $1, email = $2, domain = $3, slug = $4, phone_number = $5, linkedin_profile_url = $6,
				updated_at = $7 WHERE tenant_id = $8 AND prospect_id = $9`,
			nullableText(p.Name), nullableText(p.Email), nullableText(p.Domain), nullableText(p.Slug), nullableText(p.PhoneNumber),
			nullableText(p.LinkedinProfileURL), int64(p.UpdatedAt), idArg(c.TenantID), idArg(id)); err != nil {
			return p, err
		}
		var x indexing
		x.prospect(&was, &p.Prospect)
		return p, x.write(tx)
	})
	return p, err
}

// DeleteProspect deletes a prospect and its links for good, and takes out of the audit
// log and out of what is kept with idempotency keys what it was. The prospect as it stands is
// first given to check, whose error ends the call. done reports that nothing of it is left in
// the files of an embedded database; otherwise EraseEntries completes the erasure. It is
// NotFound if there is none.
func (s *Store) DeleteProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, check func(atrium.LinkedProspect) error) (done bool, err error) {
	if err := s.redactProspect(ctx, c, id, check); err != nil {
		return false, err
	}
	seen := map[atrium.AccountID]bool{}
	// The row in erasures has an identifier that no account has: that of the prospect,
	// without its prefix, may be an account's.
	erased, _, err := change(ctx, s, c, func(tx *changing) (erased atrium.AccountID, err error) {
		p, linked, err := tx.lockLinked(id, seen)
		if err != nil {
			return "", err
		}
		if err := check(p); err != nil {
			return "", err
		}
		if err := tx.redact(string(id)); err != nil {
			return "", err
		}
		if err := tx.forgetResult(&p.Prospect); err != nil {
			return "", err
		}
		tx.recordDetail(atrium.ActionDeleteProspect, string(id), map[string]any{})
		if _, err := tx.deleteLinks(&p.Prospect, linked); err != nil {
			return "", err
		}
		if _, err := tx.Exec("DELETE FROM prospects WHERE tenant_id = $1 AND prospect_id = $2", idArg(c.TenantID), idArg(id)); err != nil {
			return "", err
		}
		var x indexing
		x.prospect(&p.Prospect, nil)
		if err := x.write(tx); err != nil {
			return "", err
		}
		erased = atrium.NewID[atrium.AccountID]()
		_, err = tx.Batch(insertErasures, []engine.Args{{idArg(c.TenantID), idArg(erased), int64(tx.at)}}, nil)
		return erased, err
	})
	if err != nil {
		return false, err
	}
	return s.completeErasures(ctx, c.TenantID, []atrium.AccountID{erased}) == nil, nil
}

// redactProspect redacts a prospect that is to be deleted, unless the audit log has so few rows
// about it that the deletion can redact them. Each transaction redacts some rows and records
// that, as the deletion does.
func (s *Store) redactProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, check func(atrium.LinkedProspect) error) error {
	for more := true; more; {
		rows, err := s.detailed(ctx, c.TenantID, string(id), 0)
		if more = len(rows) == redactParts; err != nil || !more {
			return err
		}
		if _, _, err := change(ctx, s, c, func(tx *changing) (none struct{}, err error) {
			p, err := tx.lockProspect(id)
			if err == nil {
				err = check(p)
			}
			if err == nil {
				_, err = tx.Batch(redactRows, rows, nil)
			}
			tx.recordDetail(atrium.ActionDeleteProspect, string(id), map[string]any{"complete": false})
			return none, err
		}); err != nil {
			return err
		}
	}
	return nil
}
