package kernel

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

// expiryBatch is how many requests a transaction deletes.
const expiryBatch = 500

// DeleteExpiredRequests deletes requests with idempotency keys that are older than
// register.RequestRetention. Changes delete expired requests of their own tenant; this covers tenants that
// no longer make changes. after and next are as in Expire; the first call includes the operators' own
// requests.
func (db *DB) DeleteExpiredRequests(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	before := int64(atrium.At(db.Now())) - register.RequestRetention.Microseconds()
	return db.Expire(ctx, after, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		return db.deleteExpiredOf(ctx, tenant, before)
	}, atrium.OperatorChain)
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

// Number of tenants in a step of Sweep.
const (
	sweptTenants        = 1000
	sweptShardedTenants = 100 // each takes a statement
)

// Sweep returns the tenants for one step of a sweep over all tenants, as rows of a batch, and the tenant to continue after, "" at
// the end. after is "" for the first step.
func (db *DB) Sweep(ctx context.Context, after atrium.TenantID) (rows []engine.Args, next atrium.TenantID, err error) {
	limit := sweptTenants
	if db.Engine.Traits().Sharded {
		limit = sweptShardedTenants
	}
	tenants, err := db.TenantsAfter(ctx, after, limit)
	for _, tenant := range tenants {
		rows = append(rows, engine.Args{IDArg(tenant)})
	}
	if len(tenants) == limit {
		next = tenants[limit-1]
	}
	return rows, next, err
}
