package store

import (
	"atrium"
	"atrium/internal/store/engine"
	"context"
)

// tenantsAfter returns up to limit tenants in the order of their identifiers, after the
// given one, or from the first for "".
func (s *Store) tenantsAfter(ctx context.Context, after atrium.TenantID, limit int) (all []atrium.TenantID, err error) {
	from := any([]byte{})
	if after != "" {
		from = idArg(after)
	}
	err = s.query(ctx, "SELECT tenant_id FROM tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2",
		engine.Args{from, int64(limit)}, func(r engine.Row) error {
			all = append(all, idAt[atrium.TenantID](r, 0))
			return nil
		})
	return all, err
}
