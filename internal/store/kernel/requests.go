package kernel

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
)

const (
	expiryTenants = 100 // tenants per call of DeleteExpiredRequests
	expiryBatch   = 500 // requests per transaction
)

// DeleteExpiredRequests deletes requests with idempotency keys that are older than
// requestRetention. Changes delete expired requests of their own tenant; this covers tenants that
// no longer make changes. Each call processes up to expiryTenants tenants after the given one.
// For "", it starts with the first tenant and includes the operators' own requests. It returns the
// tenant to continue after, "" at the end. On an error it continues with the next tenant, and
// returns the first error.
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
	before := int64(atrium.At(db.Now())) - requestRetention.Microseconds()
	for _, tenant := range tenants {
		if tenantErr := db.deleteExpiredOf(ctx, tenant, before); tenantErr != nil && err == nil {
			err = fmt.Errorf("delete expired requests of %s: %w", tenant, tenantErr)
		}
	}
	return next, err
}

// deleteExpiredOf deletes a tenant's requests from before an instant, in microseconds since 1970.
// It writes only if there are any.
func (db *DB) deleteExpiredOf(ctx context.Context, tenant atrium.TenantID, before int64) error {
	for {
		found := false
		if err := db.Query(ctx, "SELECT created_at FROM requests WHERE tenant_id = $1 AND created_at < $2 ORDER BY created_at LIMIT $3",
			engine.Args{IDArg(tenant), before, int64(1)}, func(engine.Row) error {
				found = true
				return nil
			}); err != nil || !found {
			return err
		}
		if err := db.Write(ctx, func(tx engine.Tx) error {
			expired, _, err := expiredRequests(tx, tenant, before, expiryBatch, expiredBytesPerChange)
			if err == nil {
				_, err = tx.Batch(deleteRequests, expired, nil)
			}
			return err
		}); err != nil {
			return err
		}
	}
}

var deleteRequests = engine.NewBatch(`DELETE FROM requests USING batch
	WHERE requests.tenant_id = batch.tenant_id AND requests.key_match = batch.key_match`, "tenant_id bytea", "key_match bytea")

// expiredRequests returns rows of deleteRequests for up to limit requests from before an instant,
// the oldest first, and their size. They have up to maxBytes, unless the first one has more.
func expiredRequests(tx engine.Tx, tenant atrium.TenantID, before int64, limit, maxBytes int) (rows []engine.Args, bytes int, err error) {
	full := false
	err = tx.Query("SELECT key_match, octet_length(result) FROM requests WHERE tenant_id = $1 AND created_at < $2 ORDER BY created_at, key_match LIMIT $3",
		engine.Args{IDArg(tenant), before, int64(limit)}, func(r engine.Row) error {
			size := int(r.Int(1)) + 2*16 // with the key
			if full = full || len(rows) > 0 && bytes+size > maxBytes; !full {
				rows, bytes = append(rows, engine.Args{IDArg(tenant), r.Bytes(0)}), bytes+size
			}
			return nil
		})
	return rows, bytes, err
}

// TenantsAfter returns up to limit tenants sorted by identifier, starting after the given one, or
// with the first for "".
func (db *DB) TenantsAfter(ctx context.Context, after atrium.TenantID, limit int) (tenants []atrium.TenantID, err error) {
	from := any([]byte{})
	if after != "" {
		from = IDArg(after)
	}
	err = db.Query(ctx, "SELECT tenant_id FROM tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2",
		engine.Args{from, int64(limit)}, func(r engine.Row) error {
			tenants = append(tenants, IDAt[atrium.TenantID](r, 0))
			return nil
		})
	return tenants, err
}
