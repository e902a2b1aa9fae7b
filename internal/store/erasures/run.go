package erasures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/entries"
	"atrium/internal/store/kernel"
)

// Limits of one transaction of an erasure job, besides those of deleteEntries.
const (
	jobAccounts  = 50      // whose entries it deletes: it locks them and their groups
	jobMoves     = 100     // whose rules it compares
	jobRuleBytes = 2 << 20 // of these rules, unless one has more
	jobScan      = 500     // prospects that it compares
)

// RunErasures makes progress with erasures of persons: one transaction per tenant, round-robin, with
// pauses, as ContinueErasures. It reports whether to call it again at once.
func (s *Store) RunErasures(ctx context.Context) (more bool, err error) {
	pending := map[atrium.TenantID]atrium.ErasureID{}
	for last := []byte{}; ; {
		n := len(pending)
		if err := s.db.Query(ctx, "SELECT tenant_id, erasure_id FROM pending_erasures WHERE tenant_id > $1 ORDER BY tenant_id, erasure_id LIMIT 1",
			engine.Args{last}, func(r engine.Row) error {
				last = r.Bytes(0)
				pending[kernel.IDAt[atrium.TenantID](r, 0)] = kernel.IDAt[atrium.ErasureID](r, 1)
				return nil
			}); err != nil {
			return false, err
		}
		if len(pending) == n {
			break
		}
	}
	s.pending.Store(int64(len(pending)))
	deadline, progress := s.db.Now().Add(maxTimePerRun), false
	turnErr := s.db.InTurn(ctx, slices.Sorted(maps.Keys(pending)), func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		j, stepErr := s.findJob(ctx, tenant, pending[tenant])
		if stepErr == nil {
			stepErr = s.jobStep(ctx, &j)
		}
		if errors.Is(stepErr, errPurgeBusy) {
			return false, nil
		}
		if stepErr != nil {
			err = cmp.Or(err, fmt.Errorf("erasure %s of %s: %w", pending[tenant], tenant, stepErr))
			return false, nil
		}
		progress = true
		return j.stage < jobDone && s.db.Now().Before(deadline), nil
	})
	return progress && err == nil, cmp.Or(err, turnErr)
}

// TenantsWithErasures returns how many tenants had incomplete erasures of persons when RunErasures was
// last called.
func (s *Store) TenantsWithErasures() int64 { return s.pending.Load() }

// jobStep runs one transaction of a job.
func (s *Store) jobStep(ctx context.Context, j *job) error {
	switch j.stage {
	case jobEntries:
		return s.eraseMatching(ctx, j)
	case jobRules:
		return s.eraseRules(ctx, j)
	case jobProspects:
		return s.eraseProspects(ctx, j)
	}
	return s.completeJob(ctx, j)
}

func (j *job) change() atrium.Change {
	return atrium.Change{TenantID: j.TenantID, Actor: j.actor}
}

// advance stores where the job continues, in the transaction that made the progress: after a position,
// or with the next stage if it is nil. It returns errJobMoved if another node has made progress first.
func (j *job) advance(tx *kernel.Mutation, next *atrium.Position, erased, prospects int) error {
	stage, key, id, rule := j.stage, int64(0), "", ", rule = rule"
	if next != nil {
		key, id = next.Key, next.ID
	} else if stage++; stage == jobPurge {
		rule = ", rule = NULL"
	}
	was := atrium.Position{}
	if j.after != nil {
		was = *j.after
	}
	n, err := tx.Exec(`UPDATE erasure_jobs SET stage = $1, position_key = $2, position_text= $3, entries = entries + $4, prospects = prospects + $5`+rule+`
		WHERE tenant_id = $6 AND erasure_id = $7 AND stage = $8 AND position_key = $9 AND position_text= $10`,
		stage, key, id, int64(erased), int64(prospects), kernel.IDArg(j.TenantID), kernel.IDArg(j.ID), j.stage, was.Key, was.ID)
	if err == nil && n == 0 {
		err = errJobMoved
	}
	return err
}

// errJobMoved rolls back a transaction of a job whose work another node has done.
var errJobMoved = errors.New("another node has continued the erasure")

// inJob runs a transaction of a job.
func (s *Store) inJob(ctx context.Context, j *job, f func(tx *kernel.Mutation) error) error {
	_, _, err := kernel.MutateLarge(ctx, s.db, j.change(), func(tx *kernel.Mutation) (none struct{}, err error) { return none, f(tx) })
	if errors.Is(err, errJobMoved) {
		return nil
	}
	return err
}

var lockErased = engine.NewBatch("SELECT "+erasedColumns+` FROM batch JOIN entries e
	ON e.tenant_id = batch.tenant_id AND e.entry_id = batch.entry_id`, "tenant_id bytea", "entry_id bytea").Lock("e")

// eraseMatching deletes a batch of the entries that the rule selects, and the rules of the moves that
// moved them.
func (s *Store) eraseMatching(ctx context.Context, j *job) error {
	search, err := entries.NewSearch(&j.rule)
	if err != nil {
		return err
	}
	var found []entries.Found
	var next *atrium.Position
	began := time.Now()
	if err := s.db.Read(ctx, func(tx engine.Tx) (err error) {
		found, next, err = search.FindOrEnd(tx, j.TenantID, j.AccountID, j.after, eraseBatchEntries)
		return err
	}); err != nil {
		return err
	}
	if s.db.Engine.Traits().Remote { // where InTurn does not pause: this process compares the payloads
		select {
		case <-time.After(time.Since(began)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	changed := map[atrium.AccountID]bool{}
	for i := range found {
		if changed[found[i].AccountID] = true; len(changed) > jobAccounts {
			delete(changed, found[i].AccountID)
			found, next = found[:i], &found[i-1].At
			break
		}
	}
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error {
		at := next
		survivors, err := entries.LockAccounts(tx, slices.Collect(maps.Keys(changed)))
		if err != nil {
			return err
		}
		rows, where := make([]engine.Args, len(found)), make(map[atrium.EntryID]int, len(found))
		for i := range found {
			rows[i], where[found[i].EntryID] = engine.Args{kernel.IDArg(j.TenantID), kernel.IDArg(found[i].EntryID)}, i
		}
		var locked []erasedEntry
		if _, err := tx.Batch(lockErased, rows, func(r engine.Row) error {
			locked = append(locked, scanErased(r))
			return nil
		}); err != nil {
			return err
		}
		slices.SortFunc(locked, func(a, b erasedEntry) int { return cmp.Compare(where[a.EntryID], where[b.EntryID]) })
		bytes := 0
		for i := range locked {
			now := locked[i].storedIn
			if !changed[now] { // it was moved after it was found
				return kernel.ErrRace
			}
			if bytes += locked[i].bytes; bytes > eraseBatchBytes && i > 0 {
				locked, at = locked[:i], &found[where[locked[i-1].EntryID]].At
				break
			}
		}
		n, _, moves, err := deleteEntries(tx, j.TenantID, locked)
		if err != nil {
			return err
		}
		if err := redactMoves(tx, j, moves); err != nil {
			return err
		}
		if n < len(locked) { // the move history of the next one is too long for this transaction
			if n == 0 {
				return nil
			}
			at = &found[where[locked[n-1].EntryID]].At
		}
		if n > 0 {
			if err := entries.RecomputeActivity(tx, changed, survivors); err != nil {
				return err
			}
		}
		return j.advance(tx, at, n, 0)
	})
}

var readRules = engine.NewBatch(`SELECT m.move_id, m.rule FROM batch JOIN moves m
	ON m.tenant_id = batch.tenant_id AND m.move_id = batch.move_id`, "tenant_id bytea", "move_id bytea")

// eraseRules deletes the rules of a batch of moves that contain a value of the rule.
func (s *Store) eraseRules(ctx context.Context, j *job) error {
	texts := j.texts()
	var moves []atrium.MoveID
	var next *atrium.Position
	if err := s.db.Read(ctx, func(tx engine.Tx) error {
		moves, next = nil, nil
		after := []byte{}
		if j.after != nil {
			after = kernel.PackID(j.after.ID)
		}
		var rows []engine.Args
		bytes, n := 0, 0
		if err := tx.Query("SELECT move_id, COALESCE(octet_length(rule), 0) FROM moves WHERE tenant_id = $1 AND move_id > $2 ORDER BY move_id LIMIT $3",
			engine.Args{kernel.IDArg(j.TenantID), after, int64(jobMoves)}, func(r engine.Row) error {
				if bytes += int(r.Int(1)); bytes > jobRuleBytes && n > 0 {
					return kernel.ErrPageFull
				}
				id := kernel.IDAt[atrium.MoveID](r, 0)
				if n++; r.Int(1) > 0 {
					rows = append(rows, engine.Args{kernel.IDArg(j.TenantID), kernel.IDArg(id)})
				}
				next = atrium.PositionAt(0, id)
				return nil
			}); err != nil && !errors.Is(err, kernel.ErrPageFull) {
			return err
		}
		if n < jobMoves && bytes <= jobRuleBytes {
			next = nil
		}
		_, err := tx.Batch(readRules, rows, func(r engine.Row) error {
			if canonical.HasText(r.View(1), texts) {
				moves = append(moves, kernel.IDAt[atrium.MoveID](r, 0))
			}
			return nil
		})
		return err
	}); err != nil {
		return err
	}
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error {
		if err := redactMoves(tx, j, moves); err != nil {
			return err
		}
		return j.advance(tx, next, 0, 0)
	})
}

// texts returns the texts in the rule, in canonical form.
func (j *job) texts() map[string]bool {
	texts := map[string]bool{}
	for _, text := range []string{j.rule.Text, j.rule.ClaimedName, j.rule.ClaimedDomain, j.rule.ProspectEmail} {
		texts[canonical.Name(text)] = true
	}
	if j.rule.Pointer != "" && j.rule.Equals[0] == '"' {
		if text, err := jsontext.AppendUnquote(nil, j.rule.Equals); err == nil {
			texts[canonical.Name(string(text))] = true
		}
	}
	delete(texts, "")
	return texts
}

// findProspects returns up to limit prospects with an e-mail address, by identifier, after a
// position, nil for the first; of one account and those merged into it, unless account is "". It
// compares at most jobScan, so it may find none before the end, where next is nil.
func findProspects(query kernel.QueryFunc, tenant atrium.TenantID, account atrium.AccountID, email string, after *atrium.Position, limit int,
) (ids []atrium.ProspectID, next *atrium.Position, err error) {
	start := []byte{}
	if after != nil {
		start = kernel.PackID(after.ID)
	}
	var group []atrium.AccountID
	if account != "" {
		if group, err = accounts.GroupIDs(query, tenant, account); err != nil {
			return nil, nil, err
		}
	}
	want, n := canonical.Name(email), 0
	var matching []atrium.ProspectID
	err = query("SELECT prospect_id, email FROM prospects WHERE tenant_id = $1 AND prospect_id > $2 ORDER BY prospect_id LIMIT $3",
		engine.Args{kernel.IDArg(tenant), start, int64(jobScan)}, func(r engine.Row) error {
			if len(matching) == limit {
				return kernel.ErrPageFull
			}
			id := kernel.IDAt[atrium.ProspectID](r, 0)
			if n++; canonical.Name(strings.TrimSpace(r.Text(1))) == want {
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
		linked := false
		if err := query("SELECT account_id FROM account_prospects WHERE tenant_id = $1 AND prospect_id = $2",
			engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) error {
				linked = linked || slices.Contains(group, kernel.IDAt[atrium.AccountID](r, 0))
				return nil
			}); err != nil {
			return nil, nil, err
		}
		if linked {
			ids = append(ids, id)
		}
	}
	return ids, next, nil
}

// eraseProspects deletes the next prospect that the rule selects.
func (s *Store) eraseProspects(ctx context.Context, j *job) error {
	var ids []atrium.ProspectID
	var next *atrium.Position
	if j.rule.ProspectEmail != "" {
		var err error
		if ids, next, err = findProspects(s.db.OutsideTx(ctx), j.TenantID, j.AccountID, j.rule.ProspectEmail, j.after, 1); err != nil {
			return err
		}
	}
	if len(ids) > 0 {
		at := atrium.PositionAt(0, ids[0])
		_, err := s.deleteProspect(ctx, j.change(), ids[0], func(atrium.LinkedProspect) error { return nil }, func(tx *kernel.Mutation) error {
			return j.advance(tx, at, 0, 1)
		})
		switch {
		case errors.Is(err, errJobMoved):
			return nil
		case atrium.CodeOf(err) != atrium.CodeNotFound:
			return err
		}
		next = at // deleted in the meantime
	}
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error { return j.advance(tx, next, 0, 0) })
}

// completeJob purges the database and completes the job. Nothing that the rule selected, nor the rule
// itself, is in the database then.
func (s *Store) completeJob(ctx context.Context, j *job) error {
	if err := s.purges.runAlone(ctx, purgeWait, func() error { return s.db.Engine.Purge(ctx, 0) }); err != nil {
		return err
	}
	err := s.inJob(ctx, j, func(tx *kernel.Mutation) error {
		n, err := tx.Exec("DELETE FROM pending_erasures WHERE tenant_id = $1 AND erasure_id = $2", kernel.IDArg(j.TenantID), kernel.IDArg(j.ID))
		if err != nil || n == 0 {
			return cmp.Or(err, errJobMoved)
		}
		tx.RecordDetail("erasure.complete", string(j.ID), map[string]any{"accountLogs": j.Entries, "prospects": j.Prospects})
		_, err = tx.Exec("UPDATE erasure_jobs SET stage = $1, completed_at = $2 WHERE tenant_id = $3 AND erasure_id = $4",
			int64(jobDone), int64(*tx.NotBefore(j.CreatedAt)), kernel.IDArg(j.TenantID), kernel.IDArg(j.ID))
		return err
	})
	if err == nil {
		j.stage = jobDone
	}
	return err
}
