package store

import (
	"context"
	"sync/atomic"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// An Attention counts what somebody should look at, of all tenants.
type Attention struct {
	FailingWebhooks  int64 // that are enabled, and whose last attempt has failed
	DisabledWebhooks int64 // by the service: because their endpoints have failed for days, or are gone
	Quarantined      int64 // deliveries to receivers that wait for a corrected mapping
}

// How many tenants a call of CountAttention looks at.
const (
	attentionTenants        = 1000
	attentionShardedTenants = 100 // each takes a statement
)

var (
	findAttentionWebhooks = engine.NewBatch(`SELECT w.disabled_reason FROM batch JOIN webhooks w ON w.tenant_id = batch.tenant_id
		WHERE w.disabled_reason IS NULL AND w.failing_since IS NOT NULL OR w.disabled_reason IN ('failures', 'gone')`, "tenant_id bytea")
	findQuarantineTotals = engine.NewBatch("SELECT q.deliveries FROM batch JOIN quarantine_totals q ON q.tenant_id = batch.tenant_id", "tenant_id bytea")
)

// An attentionCount is a count in progress, and the last complete one.
type attentionCount struct {
	sum  Attention // of the tenants that were looked at; for one goroutine
	last atomic.Pointer[Attention]
}

// CountAttention looks at some tenants after one, "" for the first. It returns the tenant to continue after, "" when Attention has what
// was found in all of them. Only one call may run at a time.
func (s *Store) CountAttention(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	limit := attentionTenants
	if s.Traits().Sharded {
		limit = attentionShardedTenants
	}
	tenants, err := s.db.TenantsAfter(ctx, after, limit)
	if err != nil {
		return "", err
	}
	rows := make([]engine.Args, len(tenants))
	for i, tenant := range tenants {
		rows[i] = engine.Args{kernel.IDArg(tenant)}
	}
	var found Attention
	if err := s.db.Read(ctx, func(tx engine.Tx) error {
		found = Attention{}
		if _, err := tx.Batch(findAttentionWebhooks, rows, func(r engine.Row) error {
			if r.Null(0) {
				found.FailingWebhooks++
			} else {
				found.DisabledWebhooks++
			}
			return nil
		}); err != nil {
			return err
		}
		_, err := tx.Batch(findQuarantineTotals, rows, func(r engine.Row) error {
			found.Quarantined += r.Int(0)
			return nil
		})
		return err
	}); err != nil {
		return "", err
	}
	c := &s.attention
	if after == "" {
		c.sum = Attention{}
	}
	c.sum.FailingWebhooks += found.FailingWebhooks
	c.sum.DisabledWebhooks += found.DisabledWebhooks
	c.sum.Quarantined += found.Quarantined
	if len(tenants) == limit {
		return tenants[limit-1], nil
	}
	complete := c.sum
	c.last.Store(&complete)
	return "", nil
}

// Attention returns what CountAttention has found last.
func (s *Store) Attention() Attention {
	if last := s.attention.last.Load(); last != nil {
		return *last
	}
	return Attention{}
}
