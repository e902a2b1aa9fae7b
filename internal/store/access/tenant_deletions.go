package access

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/migrations"
	"atrium/internal/store/register"
)

// This file begins the deletion of a tenant, and shows its progress. A job deletes its rows
// (erasures.DeleteTenants).

var countDeleted = engine.NewBatch(`SELECT batch.tenant_id,
	(SELECT d.deleted_rows FROM tenant_deletions d WHERE d.tenant_id = batch.tenant_id),
	(SELECT d.deleted_entries FROM tenant_deletions d WHERE d.tenant_id = batch.tenant_id) FROM batch`, "tenant_id bytea")

// addProgress sets the counts of the tenants that are being deleted.
func (s *Store) addProgress(ctx context.Context, tenants []atrium.Tenant) error {
	deletions := map[atrium.TenantID]*atrium.TenantDeletion{}
	var rows []engine.Args
	for i := range tenants {
		if d := tenants[i].Deletion; d != nil {
			deletions[tenants[i].ID] = d
			rows = append(rows, engine.Args{kernel.IDArg(tenants[i].ID)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return s.db.Read(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(countDeleted, rows, func(r engine.Row) error {
			d := deletions[kernel.IDAt[atrium.TenantID](r, 0)]
			d.Rows, d.Entries = r.Int(1), r.Int(2)
			return nil
		})
		return err
	})
}

// TenantOrDeletion is Tenant, and also finds a tenant that is being deleted.
func (s *Store) TenantOrDeletion(ctx context.Context, id atrium.TenantID) (atrium.Tenant, error) {
	found := make([]atrium.Tenant, 1)
	if err := s.db.Find(ctx, anyTenant, engine.Args{kernel.IDArg(id)}, func(r engine.Row) { found[0] = scanTenant(r) }); err != nil {
		return atrium.Tenant{}, err
	}
	return found[0], s.addProgress(ctx, found)
}

// TenantsAndDeletions is Tenants, and also lists tenants that are being deleted.
func (s *Store) TenantsAndDeletions(ctx context.Context, after *atrium.Position, limit int) (tenants []atrium.Tenant, more bool, err error) {
	if tenants, more, err = s.listTenants(ctx, "", after, limit); err != nil {
		return nil, false, err
	}
	return tenants, more, s.addProgress(ctx, tenants)
}

// DeleteTenant begins the deletion of a tenant with all its data, and records it in the operators'
// audit log. From then on the tenant does not exist for other methods, and none of its keys is valid.
// If the tenant is already being deleted, DeleteTenant changes nothing. It returns the tenant with the
// progress of its deletion.
//
// It first calls check with the tenant; an error of check ends the call. It returns NotFound if the
// tenant does not exist, and Conflict if a copy of it to this database is not complete, or the
// upgrade to a release that can delete tenants is not finished.
func (s *Store) DeleteTenant(ctx context.Context, c atrium.Change, id atrium.TenantID, check func(atrium.Tenant) error) (atrium.Tenant, error) {
	t, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (t atrium.Tenant, err error) {
		if err := engine.Find(tx.Lock, anyTenant, engine.Args{kernel.IDArg(id)}, func(r engine.Row) { t = scanTenant(r) }); err != nil {
			return t, err
		}
		if err := check(t); err != nil || t.Deletion != nil {
			return t, err
		}
		if err := tx.Query("SELECT 1 FROM settings WHERE name = $1", engine.Args{register.Unfinished + string(id)}, func(engine.Row) error {
			return atrium.Errorf(atrium.CodeConflict, "A copy of the tenant to this database is not complete.")
		}); err != nil {
			return t, err
		}
		if finished, err := kernel.FinishedAt(tx.Query); err != nil {
			return t, err
		} else if finished < migrations.TenantDeletions {
			return t, atrium.Errorf(atrium.CodeConflict, "Nodes of the previous release may still run. Finish the upgrade with atrium migrate --finish first.")
		}
		t.Deletion = &atrium.TenantDeletion{RequestedAt: *tx.NotBefore(t.CreatedAt)}
		tx.Record("tenant.delete", string(id), tenantFields(&t), nil)
		if _, err := tx.Exec("INSERT INTO tenant_deletions (tenant_id, actor, deleted_rows, deleted_entries) VALUES ($1, $2, $3, $4)",
			kernel.IDArg(id), c.Actor, int64(0), int64(0)); err != nil {
			return t, err
		}
		_, err = tx.Exec("UPDATE tenants SET deleting_at = $1 WHERE tenant_id = $2", int64(t.Deletion.RequestedAt), kernel.IDArg(id))
		return t, err
	})
	if err != nil {
		return t, err
	}
	found := []atrium.Tenant{t}
	return found[0], s.addProgress(ctx, found)
}
