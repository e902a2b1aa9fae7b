package kernel

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
)

// The deletion of a tenant begins with a row in tenants that says so. From then on, the tenant does
// not exist for requests and jobs. Every transaction that may add rows of a tenant reads that row
// first, so none that begins later adds any. On a server, a transaction that has read the row before
// may still commit; the deletion waits for it (erasures.DeleteTenants).

// Exists returns a SQL expression that is 1 if a tenant exists and is not being deleted, and NULL
// otherwise. tenant is the SQL expression by which the statement names the tenant.
func Exists(tenant string) string {
	return "(SELECT 1 FROM tenants x WHERE x.tenant_id = " + tenant + " AND x.deleting_at IS NULL)"
}

// checkTenant returns one row for each tenant, whose second column is Exists. The first column lets
// a cluster read both on the server of the tenant, where the transaction writes.
var checkTenant = engine.NewBatch("SELECT (SELECT h.number FROM audit_heads h WHERE h.tenant_id = batch.tenant_id), "+
	Exists("batch.tenant_id")+" FROM batch", "tenant_id bytea")

// RequireTenant returns atrium.NoTenant if a tenant does not exist or is being deleted.
func (db *DB) RequireTenant(ctx context.Context, tenant atrium.TenantID) error {
	if tenant == atrium.OperatorChain {
		return nil
	}
	found := false
	err := db.Query(ctx, "SELECT 1 FROM tenants WHERE tenant_id = $1 AND deleting_at IS NULL", engine.Args{IDArg(tenant)}, func(engine.Row) error {
		found = true
		return nil
	})
	if err == nil && !found {
		return atrium.NoTenant()
	}
	return err
}

// RequireTenantIn is RequireTenant in a transaction.
func RequireTenantIn(tx engine.Tx, tenant atrium.TenantID) error {
	found := false
	_, err := tx.Batch(checkTenant, []engine.Args{{IDArg(tenant)}}, func(r engine.Row) error {
		found = !r.Null(1)
		return nil
	})
	if err == nil && !found {
		return atrium.NoTenant()
	}
	return err
}

var existingTenants = engine.NewBatch("SELECT batch.tenant_id, (SELECT h.number FROM audit_heads h WHERE h.tenant_id = batch.tenant_id), "+
	Exists("batch.tenant_id")+" FROM batch", "tenant_id bytea")

// ExistingTenants returns those of the tenants that exist and are not being deleted, in the same order.
func ExistingTenants(tx engine.Tx, tenants []atrium.TenantID) (existing []atrium.TenantID, err error) {
	rows := make([]engine.Args, len(tenants))
	for i, tenant := range tenants {
		rows[i] = engine.Args{IDArg(tenant)}
	}
	found := map[atrium.TenantID]bool{}
	if _, err := tx.Batch(existingTenants, rows, func(r engine.Row) error {
		found[IDAt[atrium.TenantID](r, 0)] = !r.Null(2)
		return nil
	}); err != nil {
		return nil, err
	}
	for _, tenant := range tenants {
		if found[tenant] {
			existing = append(existing, tenant)
		}
	}
	return existing, nil
}

// A tenantCheck checks in a transaction that a tenant exists. Its query is pipelined with the next
// statement, so it costs no extra round trip.
type tenantCheck struct {
	tx             engine.Tx
	tenant         atrium.TenantID
	known, missing bool
}

// beginTenantCheck sends the check with the next statement of the transaction.
func beginTenantCheck(tx engine.Tx, tenant atrium.TenantID) (*tenantCheck, error) {
	c := &tenantCheck{tx: tx, tenant: tenant, known: tenant == atrium.OperatorChain}
	if c.known {
		return c, nil
	}
	return c, tx.PipelineQuery(checkTenant, []engine.Args{{IDArg(tenant)}}, func(r engine.Row) { c.known, c.missing = true, r.Null(1) })
}

// end returns atrium.NoTenant if the tenant does not exist or is being deleted.
func (c *tenantCheck) end() error {
	switch {
	case c.missing:
		return atrium.NoTenant()
	case !c.known: // no statement has followed
		return RequireTenantIn(c.tx, c.tenant)
	}
	return nil
}
