package events

import (
	"cmp"
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// expiryBatch is how many rows a transaction deletes.
const expiryBatch = 500

// DeleteExpiredEvents deletes events that are older than EventRetention, of some tenants: see kernel.DB.Expire.
func (s *Store) DeleteExpiredEvents(ctx context.Context, after atrium.TenantID) (next atrium.TenantID, err error) {
	before := atrium.At(s.db.Now().Add(-cmp.Or(s.EventRetention, atrium.MinEventRetention)))
	return s.db.Expire(ctx, after, func(ctx context.Context, tenant atrium.TenantID) (bool, error) {
		return s.deleteOldest(ctx, tenant, before)
	})
}

// deleteOldest deletes a batch of the oldest events of a tenant, up to the first one from the given time or later.
// It writes only if there are any, and reports whether others may follow.
func (s *Store) deleteOldest(ctx context.Context, tenant atrium.TenantID, before atrium.Time) (more bool, err error) {
	n, last, ended := 0, int64(0), false
	if err := s.db.Query(ctx, "SELECT first_position, at FROM event_log WHERE tenant_id = $1 ORDER BY first_position LIMIT $2",
		engine.Args{kernel.IDArg(tenant), int64(expiryBatch)}, func(r engine.Row) error {
			if ended = ended || atrium.Time(r.Int(1)) >= before; !ended {
				n, last = n+1, r.Int(0)
			}
			return nil
		}); err != nil || n == 0 {
		return false, err
	}
	return n == expiryBatch, s.db.Write(engine.ForTenant(ctx, string(tenant)), func(tx engine.Tx) error {
		tx.Invalidate() // no cached response has events
		_, err := tx.Exec("DELETE FROM event_log WHERE tenant_id = $1 AND first_position <= $2", kernel.IDArg(tenant), last)
		return err
	})
}
