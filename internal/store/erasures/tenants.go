package erasures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"atrium"
	"atrium/internal/store/copies"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file deletes the rows of tenants whose deletion has begun (access.DeleteTenant). Its only state
// is in the database: the rows that are left, and the counts of those that were deleted. After a crash,
// or on another node, a pass begins with the first table again. Several nodes may work on a tenant:
// each transaction locks the row with the counts.

// drainTime is the minimum time from the beginning of a deletion on a database with several writers
// to its last pass. A transaction that began before may add rows after other passes. It ends within
// engine.MaxWriteTime, and so does the transaction that begins the deletion.
const drainTime = 2 * engine.MaxWriteTime

// maxTenants is the maximum number of tenants that one call of DeleteTenants works on.
const maxTenants = 1000

// tenantPasses are passes over the rows of tenants that are being deleted.
type tenantPasses struct {
	mu  sync.Mutex                      // held by DeleteTenants
	all map[atrium.TenantID]*tenantPass // guarded by mu
}

type tenantPass struct {
	*copies.Deletion
	began time.Time // by the clock of the store
}

// DeleteTenants makes progress with deletions of tenants: one transaction per tenant, round-robin, with
// pauses, as ContinueErasures. It purges the database once for all tenants that have no rows left, and
// completes their deletions. It reports whether to call it again at once. After an error it continues
// with other tenants, and returns the first error.
func (s *Store) DeleteTenants(ctx context.Context) (more bool, err error) {
	s.passes.mu.Lock()
	defer s.passes.mu.Unlock()
	requested := map[atrium.TenantID]atrium.Time{}
	if err := s.db.Query(ctx, "SELECT tenant_id, deleting_at FROM tenants WHERE deleting_at IS NOT NULL ORDER BY tenant_id LIMIT $1",
		engine.Args{int64(maxTenants)}, func(r engine.Row) error {
			requested[kernel.IDAt[atrium.TenantID](r, 0)] = atrium.Time(r.Int(1))
			return nil
		}); err != nil {
		return false, err
	}
	s.deleting.Store(int64(len(requested)))
	maps.DeleteFunc(s.passes.all, func(tenant atrium.TenantID, _ *tenantPass) bool { return requested[tenant] == 0 })
	var empty []atrium.TenantID
	deadline := s.db.Now().Add(maxTimePerRun)
	if turnErr := s.db.InTurn(ctx, slices.Sorted(maps.Keys(requested)), func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		result, stepErr := s.deleteFromTenant(ctx, tenant, requested[tenant])
		switch {
		case stepErr != nil:
			err = cmp.Or(err, fmt.Errorf("delete %s: %w", tenant, stepErr))
			return false, nil
		case result == noRows:
			empty = append(empty, tenant)
		case result == someRows:
			more = true
			return s.db.Now().Before(deadline), nil
		}
		return false, nil
	}); turnErr != nil {
		return false, cmp.Or(err, turnErr)
	}
	if len(empty) > 0 {
		if purgeErr := s.purgeInJob(ctx, more); purgeErr != nil {
			if errors.Is(purgeErr, errPurgeBusy) {
				return more && err == nil, cmp.Or(err, ctx.Err())
			}
			return false, cmp.Or(err, purgeErr)
		}
	}
	for _, tenant := range empty {
		delete(s.passes.all, tenant) // if this fails, another pass is made
		if stepErr := s.completeTenant(ctx, tenant); stepErr != nil {
			err = cmp.Or(err, fmt.Errorf("complete the deletion of %s: %w", tenant, stepErr))
		}
	}
	return more && err == nil, err
}

// A passResult is what a step of a pass has found.
type passResult int

const (
	someRows passResult = iota // and deleted them; there may be more
	noRows                     // and none can be added
	wait                       // none, but a transaction may still add rows
)

// TenantsBeingDeleted returns how many tenants were being deleted when DeleteTenants was last called.
func (s *Store) TenantsBeingDeleted() int64 { return s.deleting.Load() }

// deleteFromTenant deletes the next rows of a tenant, in one transaction.
func (s *Store) deleteFromTenant(ctx context.Context, tenant atrium.TenantID, requested atrium.Time) (passResult, error) {
	p := s.passes.all[tenant]
	if p == nil {
		p = &tenantPass{copies.NewDeletion(tenant, "tenants", "tenant_deletions"), s.db.Now()}
		s.passes.all[tenant] = p
	}
	rows, err := p.Next(s.db.OutsideTx(ctx))
	if err != nil {
		return wait, err
	}
	if rows == nil {
		return s.endPass(tenant, requested, p), nil
	}
	err = kernel.WriteLarge(ctx, s.db, atrium.Change{TenantID: tenant}, func(tx engine.Tx) error {
		found := false
		args := engine.Args{kernel.IDArg(tenant)}
		if err := tx.Lock("SELECT actor FROM tenant_deletions WHERE tenant_id = $1", args, func(engine.Row) error {
			found = true
			return nil
		}); err != nil || !found { // another node has completed the deletion
			return err
		}
		n, err := rows.Delete(tx)
		if err != nil {
			return err
		}
		entries := int64(0)
		if rows.Table == "entries" {
			entries = n
		}
		_, err = tx.Exec("UPDATE tenant_deletions SET deleted_rows = deleted_rows + $1, deleted_entries = deleted_entries + $2 WHERE tenant_id = $3",
			n, entries, kernel.IDArg(tenant))
		return err
	})
	if err != nil { // such as a reference from a row that was added since
		delete(s.passes.all, tenant)
		return wait, err
	}
	p.Done(rows)
	return someRows, nil
}

// endPass ends a pass that has deleted all rows that it found.
func (s *Store) endPass(tenant atrium.TenantID, requested atrium.Time, p *tenantPass) passResult {
	drained := requested.Std().Add(drainTime)
	switch {
	case s.db.Engine.Traits().Writers == 1 || !p.began.Before(drained):
		return noRows
	case s.db.Now().Before(drained):
		return wait
	}
	delete(s.passes.all, tenant) // so that the last pass begins
	return someRows
}

// completeTenant deletes the last rows of a tenant, and records the deletion in the operators' audit log.
func (s *Store) completeTenant(ctx context.Context, tenant atrium.TenantID) error {
	args := engine.Args{kernel.IDArg(tenant)}
	c := atrium.Change{TenantID: atrium.OperatorChain}
	if err := s.db.Query(ctx, "SELECT actor FROM tenant_deletions WHERE tenant_id = $1", args, func(r engine.Row) error {
		c.Actor = r.Text(0)
		return nil
	}); err != nil || c.Actor == "" {
		return err
	}
	_, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		found := false
		if err := tx.Query("DELETE FROM tenant_deletions WHERE tenant_id = $1 RETURNING deleted_rows, deleted_entries", args, func(r engine.Row) error {
			found = true
			tx.RecordDetail("tenant.delete.complete", string(tenant), map[string]any{"rows": r.Int(0), "accountLogs": r.Int(1)})
			return nil
		}); err != nil || !found { // another node has completed it
			return none, err
		}
		_, err = tx.Exec("DELETE FROM tenants WHERE tenant_id = $1", args...)
		return none, err
	})
	return err
}
