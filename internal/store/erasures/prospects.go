package erasures

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/canonical"
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
	erased, err := s.deleteProspect(ctx, c, id, func(_ *kernel.Mutation, p atrium.LinkedProspect) error { return check(p) },
		func(*kernel.Mutation) error { return nil })
	if err != nil {
		return false, err
	}
	return s.completeErasures(ctx, c, []atrium.AccountID{erased}) == nil, nil
}

// A prospectCheck returns an error if a transaction may not change a prospect, which it has locked.
type prospectCheck func(*kernel.Mutation, atrium.LinkedProspect) error

// deleteProspect is DeleteProspect without the purge. inTx runs in the transaction that deletes the
// prospect. It returns the identifier in erasures that a purge completes.
func (s *Store) deleteProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, check prospectCheck, inTx func(*kernel.Mutation) error,
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
		if err := check(tx, p); err != nil {
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
		if err := inTx(tx); err != nil {
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
func (s *Store) redactProspect(ctx context.Context, c atrium.Change, id atrium.ProspectID, check prospectCheck) (redacted bool, err error) {
	for ; ; redacted = true {
		rows, err := s.findDetailRows(ctx, c.TenantID, string(id), 0)
		if err != nil || len(rows) < redactBatchRows {
			return redacted, err
		}
		if _, _, err := kernel.MutateLarge(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
			p, err := accounts.LockProspect(tx, id)
			if err == nil {
				err = check(tx, p)
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

// FindProspects returns up to limit prospects with an email address, by identifier, after a
// position, nil for the first; of the account that account leads to and those merged into it, unless
// account is "". It compares at most jobScan, so it may find none before the end, where next is nil.
// It returns engine.ErrNoRow if the account does not exist.
func FindProspects(tx engine.Tx, tenant atrium.TenantID, account atrium.AccountID, email string, after *atrium.Position, limit int,
) (ids []atrium.ProspectID, next *atrium.Position, err error) {
	start := []byte{}
	if after != nil {
		start = kernel.PackID(after.ID)
	}
	var group []atrium.AccountID
	if account != "" {
		if _, group, err = accounts.FindGroupIDs(tx, tenant, account); err != nil {
			return nil, nil, err
		}
	}
	n, wanted := 0, canonical.Name(email)
	var matching []atrium.ProspectID
	err = tx.Query("SELECT prospect_id, email FROM prospects WHERE tenant_id = $1 AND prospect_id > $2 ORDER BY prospect_id LIMIT $3",
		engine.Args{kernel.IDArg(tenant), start, int64(jobScan)}, func(r engine.Row) error {
			if len(matching) == limit {
				return kernel.ErrPageFull
			}
			id := kernel.IDAt[atrium.ProspectID](r, 0)
			if n++; hasEmail(r.Text(1), wanted) {
				matching = append(matching, id)
			}
			next = atrium.PositionAt(0, id)
			return nil
		})
	if err == nil && n < jobScan {
		next = nil
	}
	if err != nil && !errors.Is(err, kernel.ErrPageFull) {
		return nil, nil, err
	}
	if account == "" {
		return matching, next, nil
	}
	for _, id := range matching {
		linked, err := isLinked(tx, tenant, id, group)
		if err != nil {
			return nil, nil, err
		}
		if linked {
			ids = append(ids, id)
		}
	}
	return ids, next, nil
}

// hasEmail compares the email address of a prospect with that of a rule in canonical form.
func hasEmail(stored, wanted string) bool {
	return canonical.Name(strings.TrimSpace(stored)) == wanted
}

// isLinked reports whether a prospect is linked to one of the accounts.
func isLinked(tx engine.Tx, tenant atrium.TenantID, id atrium.ProspectID, accounts []atrium.AccountID) (linked bool, err error) {
	err = tx.Query("SELECT account_id FROM account_prospects WHERE tenant_id = $1 AND prospect_id = $2",
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) error {
			linked = linked || slices.Contains(accounts, kernel.IDAt[atrium.AccountID](r, 0))
			return nil
		})
	return linked, err
}

// eraseProspects deletes the next prospect that the rule selects.
func (s *Store) eraseProspects(ctx context.Context, j *job) error {
	var ids []atrium.ProspectID
	var next *atrium.Position
	if j.rule.ProspectEmail != "" {
		if err := s.search(ctx, func(tx engine.Tx) (err error) {
			ids, next, err = FindProspects(tx, j.TenantID, j.AccountID, j.rule.ProspectEmail, j.after, 1)
			if errors.Is(err, engine.ErrNoRow) { // the account was erased
				err = nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		at := atrium.PositionAt(0, ids[0])
		_, err := s.deleteProspect(ctx, j.change(), ids[0], j.checkProspect, func(tx *kernel.Mutation) error {
			return j.advance(tx, at, erasedCounts{prospects: 1})
		})
		switch {
		case errors.Is(err, errOutdated):
			return nil
		case atrium.CodeOf(err) != atrium.CodeNotFound:
			return err
		}
		next = at // it was deleted or changed after it was found
	}
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error { return j.advance(tx, next, erasedCounts{}) })
}

// checkProspect returns NotFound if the rule does not select a locked prospect: it was changed, or its
// link removed, after it was found.
func (j *job) checkProspect(tx *kernel.Mutation, p atrium.LinkedProspect) error {
	if p.Email == nil || !hasEmail(*p.Email, canonical.Name(j.rule.ProspectEmail)) {
		return atrium.NotFound()
	}
	if j.AccountID == "" {
		return nil
	}
	_, group, err := accounts.FindGroupIDs(tx, j.TenantID, j.AccountID)
	if err != nil {
		return err
	}
	linked, err := isLinked(tx, j.TenantID, p.ID, group)
	if err == nil && !linked {
		err = atrium.NotFound()
	}
	return err
}
