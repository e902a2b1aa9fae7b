package store

import (
	"context"
	"sync/atomic"

	"atrium"
	"atrium/internal/store/engine"
)

// DeliveryProblems counts what needs attention in the webhooks and receivers of all tenants.
type DeliveryProblems struct {
	FailingWebhooks  int64 // that are enabled, and whose last attempt has failed
	DisabledWebhooks int64 // by the service: because their endpoints have failed for days, or are gone
	Quarantined      int64 // deliveries to receivers that wait for a corrected mapping
}

var (
	findProblemWebhooks = engine.NewBatch(`SELECT w.disabled_reason FROM batch JOIN webhooks w ON w.tenant_id = batch.tenant_id
		WHERE w.disabled_reason IS NULL AND w.failing_since IS NOT NULL OR w.disabled_reason IN ('failures', 'gone')`, "tenant_id bytea")
	findQuarantineTotals = engine.NewBatch("SELECT q.deliveries FROM batch JOIN quarantine_totals q ON q.tenant_id = batch.tenant_id", "tenant_id bytea")
)

// A problemCount has the count in progress and the last complete one.
type problemCount struct {
	sum  DeliveryProblems // of the tenants counted so far; used by one goroutine
	last atomic.Pointer[DeliveryProblems]
}

// CountDeliveryProblems counts the problems of some tenants after the given one, "" for the first. It returns the tenant to continue
// after, or "" when it has counted all tenants and DeliveryProblems returns the sum. Only one call may run at a time.
func (s *Store) CountDeliveryProblems(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	rows, next, err := s.db.Sweep(ctx, after)
	if err != nil {
		return "", err
	}
	var found DeliveryProblems
	if err := s.db.Read(ctx, func(tx engine.Tx) error {
		found = DeliveryProblems{}
		if _, err := tx.Batch(findProblemWebhooks, rows, func(r engine.Row) error {
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
	c := &s.problems
	if after == "" {
		c.sum = DeliveryProblems{}
	}
	c.sum.FailingWebhooks += found.FailingWebhooks
	c.sum.DisabledWebhooks += found.DisabledWebhooks
	c.sum.Quarantined += found.Quarantined
	if next == "" {
		complete := c.sum
		c.last.Store(&complete)
	}
	return next, nil
}

// DeliveryProblems returns the last complete count, or zeros before the first.
func (s *Store) DeliveryProblems() DeliveryProblems {
	if last := s.problems.last.Load(); last != nil {
		return *last
	}
	return DeliveryProblems{}
}
