package webhooks

import (
	"context"
	"errors"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const (
	expiredDeliveries = 100 // of a transaction, each of which takes two statements
	expiryBatch       = 500 // deliveries of a deleted webhook in a transaction
	expiredAttempts   = 500 // of these deliveries, in a transaction; those of the last one may exceed it
)

// A batch counts the attempts of deliveries that a transaction deletes.
type batch struct{ attempts int64 }

// add adds a delivery with a number of attempts. It returns kernel.ErrPageFull, and adds nothing, if the batch is full.
func (b *batch) add(attempts int64) error {
	if b.attempts >= expiredAttempts {
		return kernel.ErrPageFull
	}
	b.attempts += min(attempts, maxAttempts)
	return nil
}

// DeleteExpiredDeliveries deletes deliveries that finished more than DeliveryRetention ago, with their attempts, other records of
// webhooks that are as old, and all of deleted webhooks, of some tenants: see kernel.DB.Expire.
func (s *Store) DeleteExpiredDeliveries(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	before := atrium.At(s.db.Now().Add(-s.DeliveryRetention))
	return s.db.Expire(ctx, after, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		return s.deleteExpired(ctx, tenant, before)
	})
}

// deleteExpired deletes a batch of a tenant's deliveries. more is false at the end.
func (s *Store) deleteExpired(ctx context.Context, tenant atrium.TenantID, before atrium.Time) (more bool, err error) {
	var keys []engine.Args
	var b batch
	if err := s.db.Query(ctx, "SELECT webhook_id, position, attempts FROM deliveries WHERE tenant_id = $1 AND finished_at < $2 ORDER BY finished_at LIMIT $3",
		engine.Args{kernel.IDArg(tenant), int64(before), int64(expiredDeliveries)}, func(r engine.Row) error {
			if err := b.add(r.Int(2)); err != nil {
				return err
			}
			keys = append(keys, engine.Args{kernel.IDArg(tenant), r.Bytes(0), r.Int(1)})
			return nil
		}); err != nil && !errors.Is(err, kernel.ErrPageFull) {
		return false, err
	}
	if len(keys) > 0 {
		return true, s.deleteDeliveries(ctx, tenant, before, keys)
	}
	return s.deleteRecords(ctx, tenant, before)
}

// deleteDeliveries deletes deliveries that finished before a time, with their attempts. Each key has a tenant, a webhook and a
// position. A node may have made a delivery pending since it was read: then it stays, with its attempts. The keys are not joined
// with the tables: the planner of PostgreSQL expects that most deliveries of a tenant are those of one webhook, and would read all.
func (s *Store) deleteDeliveries(ctx context.Context, tenant atrium.TenantID, before atrium.Time, keys []engine.Args) error {
	return s.db.Write(engine.ForTenant(ctx, string(tenant)), func(tx engine.Tx) error {
		tx.Invalidate() // no cached response has deliveries
		for _, key := range keys {
			// A condition on the time itself would let the planner search the index of times.
			n, err := tx.Exec("DELETE FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND position = $3 AND COALESCE(finished_at, 9223372036854775807) < $4",
				append(slices.Clip(key), int64(before))...)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			if _, err := tx.Exec("DELETE FROM delivery_attempts WHERE tenant_id = $1 AND webhook_id = $2 AND position = $3", key...); err != nil {
				return err
			}
		}
		return nil
	})
}

// recordTables are the tables with records of webhooks.
var recordTables = []string{"deliveries", "webhook_hours"}

// deleteRecords deletes the old records of the tenant's webhooks apart from deliveries, and all records of deleted webhooks. more
// reports whether it has left deliveries of a deleted one.
func (s *Store) deleteRecords(ctx context.Context, tenant atrium.TenantID, before atrium.Time) (more bool, err error) {
	for _, table := range recordTables {
		after := []byte{}
		for {
			var webhook []byte
			if err := s.db.Query(ctx, "SELECT webhook_id FROM "+table+" WHERE tenant_id = $1 AND webhook_id > $2 ORDER BY webhook_id LIMIT 1",
				engine.Args{kernel.IDArg(tenant), after}, func(r engine.Row) error {
					webhook = r.Bytes(0)
					return nil
				}); err != nil {
				return false, err
			}
			if webhook == nil {
				break
			}
			after = webhook
			left, err := s.deleteRecordsOf(ctx, tenant, webhook, before)
			if err != nil {
				return false, err
			}
			more = more || left
		}
	}
	return more, nil
}

// deleteRecordsOf does what deleteRecords does for one webhook.
func (s *Store) deleteRecordsOf(ctx context.Context, tenant atrium.TenantID, webhook []byte, before atrium.Time) (more bool, err error) {
	key := engine.Args{kernel.IDArg(tenant), webhook}
	exists, old := false, false
	if err := s.db.Query(ctx, "SELECT 1 FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2", key, func(engine.Row) error {
		exists = true
		return nil
	}); err != nil {
		return false, err
	}
	if exists {
		for _, sql := range []string{
			"SELECT starts_at FROM webhook_hours WHERE tenant_id = $1 AND webhook_id = $2 ORDER BY starts_at LIMIT 1",
			"SELECT finished_at FROM webhook_replays WHERE tenant_id = $1 AND webhook_id = $2 ORDER BY replay_id LIMIT 1",
		} {
			if err := s.db.Query(ctx, sql, key, func(r engine.Row) error {
				old = old || !r.Null(0) && r.Int(0) < int64(before)
				return nil
			}); err != nil {
				return false, err
			}
		}
		if !old {
			return false, nil
		}
	}
	err = s.db.Write(engine.ForTenant(ctx, string(tenant)), func(tx engine.Tx) error {
		tx.Invalidate()
		if exists {
			if _, err := tx.Exec("DELETE FROM webhook_replays WHERE tenant_id = $1 AND webhook_id = $2 AND finished_at < $3", append(key, int64(before))...); err != nil {
				return err
			}
			_, err := tx.Exec("DELETE FROM webhook_hours WHERE tenant_id = $1 AND webhook_id = $2 AND starts_at < $3", append(key, int64(before))...)
			return err
		}
		n, last := 0, int64(-1)
		var b batch
		err := tx.Query("SELECT position, attempts FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 ORDER BY position LIMIT $3", append(key, int64(expiryBatch)),
			func(r engine.Row) error {
				if err := b.add(r.Int(1)); err != nil {
					return err
				}
				n, last = n+1, r.Int(0)
				return nil
			})
		full := errors.Is(err, kernel.ErrPageFull)
		if err != nil && !full {
			return err
		}
		more = full || n == expiryBatch
		for _, table := range []string{"deliveries", "delivery_attempts"} {
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE tenant_id = $1 AND webhook_id = $2 AND position <= $3", append(key, last)...); err != nil {
				return err
			}
		}
		if more {
			return nil
		}
		_, err = tx.Exec("DELETE FROM webhook_hours WHERE tenant_id = $1 AND webhook_id = $2", key...)
		return err
	})
	return more, err
}

// Backlog describes the webhooks of all tenants.
type Backlog struct {
	// Waiting is since when nodes should have looked at the webhook that has waited longest, nil if none waits.
	Waiting *atrium.Time
}

// Backlog returns what the webhooks of all tenants wait for.
func (s *Store) Backlog(ctx context.Context) (b Backlog, err error) {
	err = s.db.Query(ctx, "SELECT due_at FROM webhook_due WHERE due_at <= $1 ORDER BY due_at LIMIT 1", engine.Args{int64(atrium.At(s.db.Now()))}, func(r engine.Row) error {
		b.Waiting = kernel.TimeAt(r, 0)
		return nil
	})
	return b, err
}
