package erasures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Limits of one transaction of an erasure job, besides those of deleteEntries.
const (
	jobMoves     = 100     // whose rules it compares
	jobRuleBytes = 2 << 20 // of these rules, unless one has more
	jobScan      = 500     // prospects that it compares
)

// RunErasures makes progress with erasures of persons: one transaction per tenant, round-robin, with
// pauses, as ContinueErasures. It purges the database once for all erasures that have nothing left to
// delete, and completes them. It reports whether to call it again at once: not if there was nothing to
// do or a step failed. After an error it continues with other erasures, and returns the first error.
func (s *Store) RunErasures(ctx context.Context) (more bool, err error) {
	pending, err := s.pendingJobs(ctx)
	if err != nil {
		return false, err
	}
	s.pending.Store(int64(len(pending)))
	ready := map[atrium.TenantID][]*job{}
	deadline := s.db.Now().Add(maxTimePerRun)
	worked := false
	if turnErr := s.db.InTurn(ctx, slices.Sorted(maps.Keys(pending)), func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		id := pending[tenant][0]
		j, stepErr := s.findJob(ctx, tenant, id)
		if stepErr == nil && j.stage != jobPurge {
			stepErr = s.jobStep(ctx, &j)
		} else { // the row may be missing, and the job need no purge, because the tenant is being deleted
			stepErr = cmp.Or(s.db.RequireTenant(ctx, tenant), stepErr)
		}
		switch {
		case errors.Is(stepErr, atrium.ErrNoTenant): // another job deletes all of it
			delete(pending, tenant)
			return false, nil
		case stepErr != nil:
			err = cmp.Or(err, fmt.Errorf("erasure %s of %s: %w", id, tenant, stepErr))
		case j.stage == jobPurge:
			ready[tenant] = append(ready[tenant], &j)
		}
		worked = true
		if stepErr != nil || j.stage >= jobPurge {
			if pending[tenant] = pending[tenant][1:]; len(pending[tenant]) == 0 {
				delete(pending, tenant)
				return false, nil
			}
		}
		return s.db.Now().Before(deadline), nil
	}); turnErr != nil {
		return false, turnErr
	}
	if len(ready) == 0 {
		return worked && err == nil, err
	}
	if purgeErr := s.purgeInJob(ctx, len(pending) > 0); purgeErr != nil {
		if errors.Is(purgeErr, errPurgeBusy) {
			return err == nil, cmp.Or(err, ctx.Err())
		}
		return false, cmp.Or(err, purgeErr)
	}
	turnErr := s.db.InTurn(ctx, slices.Sorted(maps.Keys(ready)), func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		j := ready[tenant][0]
		if stepErr := s.completeJob(ctx, j); stepErr != nil && !errors.Is(stepErr, atrium.ErrNoTenant) {
			err = cmp.Or(err, fmt.Errorf("complete erasure %s of %s: %w", j.ID, tenant, stepErr))
		}
		ready[tenant] = ready[tenant][1:]
		return len(ready[tenant]) > 0, nil
	})
	err = cmp.Or(err, turnErr)
	return err == nil, err
}

// pendingJobs returns the incomplete erasures of persons by tenant, oldest first.
func (s *Store) pendingJobs(ctx context.Context) (all map[atrium.TenantID][]atrium.ErasureID, err error) {
	all = map[atrium.TenantID][]atrium.ErasureID{}
	for last := []byte{}; ; {
		n := len(all)
		if err := s.db.Query(ctx, `SELECT tenant_id, erasure_id FROM pending_erasures WHERE tenant_id =
				(SELECT tenant_id FROM pending_erasures WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1)
			ORDER BY erasure_id LIMIT $2`, engine.Args{last, int64(atrium.MaxErasures)}, func(r engine.Row) error {
			last = r.Bytes(0)
			tenant := kernel.IDAt[atrium.TenantID](r, 0)
			all[tenant] = append(all[tenant], kernel.IDAt[atrium.ErasureID](r, 1))
			return nil
		}); err != nil || len(all) == n {
			return all, err
		}
	}
}

// TenantsWithErasures returns how many tenants had incomplete erasures of persons when RunErasures was
// last called.
func (s *Store) TenantsWithErasures() int64 { return s.pending.Load() }

// jobStep runs one transaction of a job, in a stage other than jobPurge.
func (s *Store) jobStep(ctx context.Context, j *job) error {
	switch j.stage {
	case jobQuarantine:
		return s.eraseQuarantined(ctx, j)
	case jobEntries:
		return s.eraseMatching(ctx, j)
	case jobRules:
		return s.eraseRules(ctx, j)
	case jobProspects:
		return s.eraseProspects(ctx, j)
	default: // a copy to this database that continued has stored its row in pending_erasures again
		return s.completeJob(ctx, j)
	}
}

func (j *job) change() atrium.Change {
	return atrium.Change{TenantID: j.TenantID, Actor: j.actor}
}

// erasedCounts are what a transaction of a job has erased.
type erasedCounts struct{ entries, prospects, quarantined int }

// advance stores where the job continues, in the transaction that made the progress: after a position,
// or with the next stage if it is nil. It returns errOutdated if another node has made progress first.
func (j *job) advance(tx *kernel.Mutation, next *atrium.Position, erased erasedCounts) error {
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
	n, err := tx.Exec(`UPDATE erasure_jobs SET stage = $1, position_key = $2, position_text = $3, entries = entries + $4, prospects = prospects + $5,
		quarantined = quarantined + $6`+rule+` WHERE tenant_id = $7 AND erasure_id = $8 AND stage = $9 AND position_key = $10 AND position_text = $11`,
		stage, key, id, int64(erased.entries), int64(erased.prospects), int64(erased.quarantined), kernel.IDArg(j.TenantID), kernel.IDArg(j.ID), j.stage, was.Key, was.ID)
	if err == nil && n == 0 {
		err = errOutdated
	}
	return err
}

// errOutdated rolls back a transaction of a job if another one has changed what the job read before
// it: another node has continued the job, or what was found no longer matches. The next step reads it
// again.
var errOutdated = errors.New("what the job has read is outdated")

// inJob runs a transaction of a job.
func (s *Store) inJob(ctx context.Context, j *job, f func(tx *kernel.Mutation) error) error {
	_, _, err := kernel.MutateLarge(ctx, s.db, j.change(), func(tx *kernel.Mutation) (none struct{}, err error) { return none, f(tx) })
	if errors.Is(err, errOutdated) {
		return nil
	}
	return err
}

// completeJob completes a job after a purge. Nothing that the rule selected, nor the rule itself, is in
// the database then.
func (s *Store) completeJob(ctx context.Context, j *job) error {
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error {
		n, err := tx.Exec("DELETE FROM pending_erasures WHERE tenant_id = $1 AND erasure_id = $2", kernel.IDArg(j.TenantID), kernel.IDArg(j.ID))
		if err != nil || n == 0 {
			return cmp.Or(err, errOutdated)
		}
		if j.stage == jobDone {
			return nil
		}
		tx.RecordDetail("erasure.complete", string(j.ID), map[string]any{"accountLogs": j.Entries, "prospects": j.Prospects, "quarantined": j.Quarantined})
		_, err = tx.Exec("UPDATE erasure_jobs SET stage = $1, completed_at = $2 WHERE tenant_id = $3 AND erasure_id = $4",
			int64(jobDone), int64(*tx.NotBefore(j.CreatedAt)), kernel.IDArg(j.TenantID), kernel.IDArg(j.ID))
		return err
	})
}
