package kernel

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

const (
	expiryTenants = 100 // tenants per call of DeleteExpiredRequests
	expiryBatch   = 500 // requests per transaction
)

// DeleteExpiredRequests deletes requests with idempotency keys that are older than
// register.RequestRetention. Changes delete expired requests of their own tenant; this covers tenants that
// no longer make changes. Each call processes up to expiryTenants tenants after the given one.
// For "", it starts with the first tenant and includes the operators' own requests. It returns the
// tenant to continue after, "" at the end. Tenants take turns, with pauses (InTurn). On an error it
// continues with the next tenant, and returns the first error.
func (db *DB) DeleteExpiredRequests(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	tenants, err := db.TenantsAfter(ctx, after, expiryTenants)
	if err != nil {
		return after, err
	}
	if len(tenants) == expiryTenants {
		next = tenants[len(tenants)-1]
	}
	if after == "" {
		tenants = append(tenants, atrium.OperatorChain)
	}
	before := int64(atrium.At(db.Now())) - register.RequestRetention.Microseconds()
	if turnErr := db.InTurn(ctx, tenants, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		more, tenantErr := db.deleteExpiredOf(ctx, tenant, before)
		if tenantErr != nil && err == nil {
			err = fmt.Errorf("delete expired requests of %s: %w", tenant, tenantErr)
		}
		return more && tenantErr == nil, nil
	}); turnErr != nil {
		return after, turnErr
	}
	return next, err
}

// deleteExpiredOf deletes a batch of a tenant's requests from before an instant, in microseconds
// since 1970. It writes only if there are any, and reports whether there were.
func (db *DB) deleteExpiredOf(ctx context.Context, tenant atrium.TenantID, before int64) (found bool, err error) {
	n, err := countExpired(db.OutsideTx(ctx), IDArg(tenant), before, 1, 1, expiryBytes)
	if err != nil || n == 0 {
		return false, err
	}
	return true, db.Write(ctx, func(tx engine.Tx) error {
		n, err := countExpired(tx.Query, IDArg(tenant), before, expiryBatch, 1, expiryBytes)
		if err == nil {
			_, err = tx.Exec(deleteExpired, IDArg(tenant), before, int64(n))
		}
		return err
	})
}

// TenantsAfter returns up to limit tenants sorted by identifier, starting after the given one, or
// with the first for "". It leaves out those that are being deleted.
func (db *DB) TenantsAfter(ctx context.Context, after atrium.TenantID, limit int) (tenants []atrium.TenantID, err error) {
	from := any([]byte{})
	if after != "" {
		from = IDArg(after)
	}
	err = db.Query(ctx, "SELECT tenant_id FROM tenants WHERE tenant_id > $1 AND deleting_at IS NULL ORDER BY tenant_id LIMIT $2",
		engine.Args{from, int64(limit)}, func(r engine.Row) error {
			tenants = append(tenants, IDAt[atrium.TenantID](r, 0))
			return nil
		})
	return tenants, err
}
