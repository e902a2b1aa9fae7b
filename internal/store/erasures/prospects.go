package erasures

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// redactResult removes the prospect's fields from the result stored with the idempotency key of
// its creation. The key stays in use.
func redactResult(tx *kernel.Mutation, p *atrium.Prospect) error {
	rest, err := json.Marshal(atrium.Prospect{ID: p.ID})
	if err != nil {
		return fmt.Errorf("redact a stored result: %w", err)
	}
	var keys [][]byte
	if err := tx.Query("SELECT key_match, result FROM requests WHERE tenant_id = $1 AND created_at = $2",
		engine.Args{kernel.IDArg(tx.Change.TenantID), int64(p.CreatedAt)}, func(r engine.Row) error {
			if bytes.Contains(r.Bytes(1), []byte(p.ID)) {
				keys = append(keys, r.Bytes(0))
			}
			return nil
		}); err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := tx.Exec("UPDATE requests SET result = $1 WHERE tenant_id = $2 AND key_match = $3", rest, kernel.IDArg(tx.Change.TenantID), key); err != nil {
			return err
		}
	}
	return nil
}

// DeleteProspect permanently deletes a prospect and its links, and removes its fields from the
// audit log and from stored results. It first calls check with the current prospect, and returns
// its error. done reports whether nothing remains in the files of an embedded database; if not,
// ContinueErasures completes the erasure. It returns NotFound if there is no such prospect.
//
// Each transaction that redacts a batch of audit rows, and each one after the first, is admitted as
// a large change.
func (s *Store) DeleteProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, check func(atrium.LinkedProspect) error) (done bool, err error) {
	erased, err := s.deleteProspect(ctx, c, id, check, func(*kernel.Mutation) error { return nil })
	if err != nil {
		return false, err
	}
	return s.completeErasures(ctx, c, []atrium.AccountID{erased}) == nil, nil
}

// deleteProspect is DeleteProspect without the purge. It calls also in the transaction that deletes the
// prospect. It returns the identifier in erasures that a purge completes.
func (s *Store) deleteProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, check func(atrium.LinkedProspect) error, also func(*kernel.Mutation) error,
) (erased atrium.AccountID, err error) {
	redacted, err := s.redactProspect(ctx, c, id, check)
	if err != nil {
		return "", err
	}
	mutate := kernel.Mutate[atrium.AccountID]
	if redacted {
		mutate = kernel.MutateLarge[atrium.AccountID]
	}
	seen := map[atrium.AccountID]bool{}
	// erasures is keyed by account identifier. Use a new one: without their prefixes, the
	// identifiers of a prospect and an account can be equal.
	erased, _, err = mutate(ctx, s.db, c, func(tx *kernel.Mutation) (erased atrium.AccountID, err error) {
		p, linked, err := accounts.LockLinked(tx, id, seen)
		if err != nil {
			return "", err
		}
		if err := check(p); err != nil {
			return "", err
		}
		if err := tx.Redact(string(id)); err != nil {
			return "", err
		}
		if err := redactResult(tx, &p.Prospect); err != nil {
			return "", err
		}
		tx.RecordDetail(atrium.ActionDeleteProspect, string(id), map[string]any{})
		if _, err := accounts.Unlink(tx, &p.Prospect, linked); err != nil {
			return "", err
		}
		if _, err := tx.Exec("DELETE FROM prospects WHERE tenant_id = $1 AND prospect_id = $2", kernel.IDArg(c.TenantID), kernel.IDArg(id)); err != nil {
			return "", err
		}
		var index accounts.IndexUpdate
		index.Prospect(&p.Prospect, nil)
		if err := index.Write(tx); err != nil {
			return "", err
		}
		if err := also(tx); err != nil {
			return "", err
		}
		erased = atrium.NewID[atrium.AccountID]()
		_, err = tx.Batch(InsertErasures, []engine.Args{{kernel.IDArg(c.TenantID), kernel.IDArg(erased), int64(tx.At)}}, nil)
		return erased, err
	})
	return erased, err
}

// redactProspect redacts audit rows before a prospect is deleted, until few enough remain for the
// transaction that deletes it. Each transaction redacts a batch and records the redaction. redacted
// reports whether there was one.
func (s *Store) redactProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, check func(atrium.LinkedProspect) error) (redacted bool, err error) {
	for ; ; redacted = true {
		rows, err := s.findDetailRows(ctx, c.TenantID, string(id), 0)
		if err != nil || len(rows) < redactBatchRows {
			return redacted, err
		}
		if _, _, err := kernel.MutateLarge(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
			p, err := accounts.LockProspect(tx, id)
			if err == nil {
				err = check(p)
			}
			if err == nil {
				_, err = tx.Batch(redactRows, rows, nil)
			}
			tx.RecordDetail(atrium.ActionDeleteProspect, string(id), map[string]any{"complete": false})
			return none, err
		}); err != nil {
			return redacted, err
		}
	}
}
