package kernel

import (
	"context"
	"fmt"

	"atrium"
)

// expiryTenants is how many tenants one call of Expire handles.
const expiryTenants = 100

// Expire calls expire for up to expiryTenants tenants after the given one, "" for the first, as long as it reports
// that there is more. With after "", it also handles others, which are not in the table of tenants. It returns the
// tenant to continue after, "" at the end. Tenants take turns, with pauses (InTurn). On an error it continues with the
// next tenant, and returns the first error.
func (db *DB) Expire(
	ctx context.Context, after atrium.TenantID, expire func(context.Context, atrium.TenantID) (more bool, err error), others ...atrium.TenantID,
) (next atrium.TenantID, err error) {
	tenants, err := db.TenantsAfter(ctx, after, expiryTenants)
	if err != nil {
		return after, err
	}
	if len(tenants) == expiryTenants {
		next = tenants[len(tenants)-1]
	}
	if after == "" {
		tenants = append(tenants, others...)
	}
	if turnErr := db.InTurn(ctx, tenants, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		more, tenantErr := expire(ctx, tenant)
		if tenantErr != nil && err == nil {
			err = fmt.Errorf("delete expired rows of %s: %w", tenant, tenantErr)
		}
		return more && tenantErr == nil, nil
	}); turnErr != nil {
		return after, turnErr
	}
	return next, err
}
