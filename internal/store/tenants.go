package store

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
)

const tenantColumns = "tenant_id, name, created_at"

func scanTenant(r engine.Row) atrium.Tenant {
	return atrium.Tenant{ID: idAt[atrium.TenantID](r, 0), Name: r.Text(1), CreatedAt: atrium.Time(r.Int(2))}
}

// CreateTenant makes a tenant with the name.
func (s *Store) CreateTenant(ctx context.Context, name string) (atrium.Tenant, error) {
	return s.AdoptTenant(ctx, atrium.NewID[atrium.TenantID](), name)
}

// AdoptTenant makes a tenant with an identifier that it has elsewhere. It is Conflict
// if there is one with it.
func (s *Store) AdoptTenant(ctx context.Context, id atrium.TenantID, name string) (atrium.Tenant, error) {
	t := atrium.Tenant{ID: id, Name: name, CreatedAt: atrium.At(s.now())}
	err := s.write(ctx, func(tx engine.Tx) error {
		n, err := tx.Exec("INSERT INTO tenants ("+tenantColumns+") VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", idArg(t.ID), t.Name, int64(t.CreatedAt))
		if err == nil && n == 0 {
			return atrium.Errorf(atrium.CodeConflict, "There is a tenant with this identifier.")
		}
		return err
	})
	return t, err
}

// Tenant returns a tenant, or NotFound.
func (s *Store) Tenant(ctx context.Context, id atrium.TenantID) (t atrium.Tenant, err error) {
	err = s.find(ctx, "SELECT "+tenantColumns+" FROM tenants WHERE tenant_id = $1", engine.Args{idArg(id)},
		func(r engine.Row) { t = scanTenant(r) })
	return t, err
}

// Tenants returns all tenants, oldest identifier first.
func (s *Store) Tenants(ctx context.Context) (all []atrium.Tenant, err error) {
	err = s.query(ctx, "SELECT "+tenantColumns+" FROM tenants ORDER BY tenant_id", nil, func(r engine.Row) error {
		all = append(all, scanTenant(r))
		return nil
	})
	return all, err
}
