package store

import (
	"atrium"
	"atrium/internal/store/engine"
	"bytes"
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
)

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
