package access

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const tenantColumns = "tenant_id, name, created_at, deleting_at"

// scanTenant reads tenantColumns, without the counts of a deletion.
func scanTenant(r engine.Row) atrium.Tenant {
	t := atrium.Tenant{ID: kernel.IDAt[atrium.TenantID](r, 0), Name: r.Text(1), CreatedAt: atrium.Time(r.Int(2))}
	if at := kernel.TimeAt(r, 3); at != nil {
		t.Deletion = &atrium.TenantDeletion{RequestedAt: *at}
	}
	return t
}

// CreateTenant creates a tenant and records it in the operators' audit log. The second result
// reports whether the same request created it before.
func (s *Store) CreateTenant(ctx context.Context, c atrium.Change, name string) (atrium.Tenant, bool, error) {
	return s.createTenant(ctx, c, func() atrium.TenantID { return atrium.NewID[atrium.TenantID]() }, name)
}

// AdoptTenant is CreateTenant with a given identifier, for a tenant of another installation. It
// returns Conflict if a tenant has the identifier, or if it is reserved.
func (s *Store) AdoptTenant(ctx context.Context, c atrium.Change, id atrium.TenantID, name string) (atrium.Tenant, bool, error) {
	if id == atrium.OperatorChain {
		return atrium.Tenant{}, false, atrium.Errorf(atrium.CodeConflict, "No tenant can have this identifier.")
	}
	return s.createTenant(ctx, c, func() atrium.TenantID { return id }, name)
}

func (s *Store) createTenant(ctx context.Context, c atrium.Change, id func() atrium.TenantID, name string) (atrium.Tenant, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Tenant, error) {
		t := atrium.Tenant{ID: id(), Name: name, CreatedAt: tx.At}
		tx.Record("tenant.create", string(t.ID), nil, tenantFields(&t))
		n, err := tx.Exec("INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", kernel.IDArg(t.ID), t.Name, int64(t.CreatedAt))
		if err == nil && n == 0 {
			err = atrium.Errorf(atrium.CodeConflict, "There is a tenant with this identifier.")
		}
		return t, err
	})
}

func tenantFields(t *atrium.Tenant) kernel.Fields { return kernel.Fields{"name": t.Name} }

const (
	anyTenant    = "SELECT " + tenantColumns + " FROM tenants WHERE tenant_id = $1"
	selectTenant = anyTenant + " AND deleting_at IS NULL"
)

// Tenant returns a tenant, or NotFound, also if it is being deleted.
func (s *Store) Tenant(ctx context.Context, id atrium.TenantID) (t atrium.Tenant, err error) {
	err = s.db.Find(ctx, selectTenant, engine.Args{kernel.IDArg(id)}, func(r engine.Row) { t = scanTenant(r) })
	return t, err
}

// Tenants returns up to limit tenants by descending identifier, after the position, or from the
// first if it is nil. more reports whether others follow. It leaves out those that are being deleted.
func (s *Store) Tenants(ctx context.Context, after *atrium.Position, limit int) (tenants []atrium.Tenant, more bool, err error) {
	return s.listTenants(ctx, " AND deleting_at IS NULL", after, limit)
}

func (s *Store) listTenants(ctx context.Context, condition string, after *atrium.Position, limit int) (tenants []atrium.Tenant, more bool, err error) {
	q := kernel.Select("SELECT "+tenantColumns+" FROM tenants WHERE tenant_id < ", idBefore(after))
	q.Add(condition+" ORDER BY tenant_id DESC LIMIT ", int64(limit)+1)
	return kernel.List(ctx, s.db, q, limit, scanTenant)
}

// UpdateTenant sets the name of a tenant, unless name is nil, and records it in the operators'
// audit log. It first calls check with the current tenant; an error of check ends the call. It
// returns NotFound if the tenant does not exist.
func (s *Store) UpdateTenant(ctx context.Context, c atrium.Change, id atrium.TenantID, name *string, check func(atrium.Tenant) error) (atrium.Tenant, error) {
	t, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (t atrium.Tenant, err error) {
		if err := engine.Find(tx.Lock, selectTenant, engine.Args{kernel.IDArg(id)}, func(r engine.Row) { t = scanTenant(r) }); err != nil {
			return t, err
		}
		if err := check(t); err != nil || name == nil || *name == t.Name {
			return t, err
		}
		before := tenantFields(&t)
		t.Name = *name
		tx.Record("tenant.update", string(id), before, tenantFields(&t))
		_, err = tx.Exec("UPDATE tenants SET name = $1 WHERE tenant_id = $2", t.Name, kernel.IDArg(id))
		return t, err
	})
	return t, err
}
