package kernel

import (
	"context"
	"fmt"

	"atrium"
	"atrium/internal/store/engine"
)

const (
	forgetTenants = 100 // of how many tenants one call of ForgetRequests forgets requests
	forgetInRun   = 500 // how many one transaction of it deletes
)

// ForgetRequests deletes the requests with an idempotency key that need not be known
// any more, of a bounded number of tenants: those that come after one, and before all
// others, for "", the operators. A tenant that makes no requests any more would keep
// its last ones for ever otherwise. It returns the tenant to go on after, "" at the
// end. What fails is left for another time, and the first error is returned.
func (db *DB) ForgetRequests(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	all, err := db.TenantsAfter(ctx, after, forgetTenants)
	if err != nil {
		return after, err
	}
	if len(all) == forgetTenants {
		next = all[len(all)-1]
	}
	if after == "" {
		all = append(all, atrium.OperatorChain)
	}
	before := int64(atrium.At(db.Now())) - keepRequests.Microseconds()
	for _, tenant := range all {
		if failure := db.forgetRequests(ctx, tenant, before); failure != nil && err == nil {
			err = fmt.Errorf("forget requests of %s: %w", tenant, failure)
		}
	}
	return next, err
}

// forgetRequests deletes the requests of a tenant from before an instant. Where there
// are none, it writes nothing.
func (db *DB) forgetRequests(ctx context.Context, tenant atrium.TenantID, before int64) error {
	for {
		some := false
		if err := db.Query(ctx, "SELECT created_at FROM requests WHERE tenant_id = $1 AND created_at < $2 ORDER BY created_at LIMIT $3",
			engine.Args{IDArg(tenant), before, int64(1)}, func(engine.Row) error {
				some = true
				return nil
			}); err != nil || !some {
			return err
		}
		if err := db.Write(ctx, func(tx engine.Tx) error {
			_, err := tx.Exec(forgetRequests, IDArg(tenant), before, int64(forgetInRun))
			return err
		}); err != nil {
			return err
		}
	}
}

// TenantsAfter returns up to limit tenants in the order of their identifiers, after the
// given one, or from the first for "".
func (db *DB) TenantsAfter(ctx context.Context, after atrium.TenantID, limit int) (all []atrium.TenantID, err error) {
	from := any([]byte{})
	if after != "" {
		from = IDArg(after)
	}
	err = db.Query(ctx, "SELECT tenant_id FROM tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2",
		engine.Args{from, int64(limit)}, func(r engine.Row) error {
			all = append(all, IDAt[atrium.TenantID](r, 0))
			return nil
		})
	return all, err
}
