package webhooks

import (
	"context"
	"math"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const deliveryColumns = "webhook_id, position, event_id, type, subject, entry_id, state, attempts, earlier, next_at, created_at, finished_at, status, error, latency"

func scanDelivery(r engine.Row, tenant atrium.TenantID) atrium.Delivery {
	return atrium.Delivery{
		TenantID: tenant, WebhookID: kernel.IDAt[atrium.WebhookID](r, 0), Position: r.Int(1), EventID: kernel.IDAt[atrium.EventID](r, 2),
		Type: atrium.EventType(r.Text(3)), Subject: r.Text(4), EntryID: kernel.IDAt[atrium.EntryID](r, 5), State: deliveryStates[r.Int(6)],
		Attempts: r.Int(7), Earlier: r.Int(8), NextAt: kernel.TimeAt(r, 9), CreatedAt: atrium.Time(r.Int(10)), FinishedAt: kernel.TimeAt(r, 11),
		Status: int(r.Int(12)), Error: r.Text(13), Latency: time.Duration(r.Int(14)) * time.Microsecond,
	}
}

// Deliveries returns up to limit deliveries of a webhook that match the filter, by descending position in the feed, after
// the position, or from the first if it is nil, and the position to continue after, nil at the end. One call reads at most
// kernel.ScanLimit rows and may return fewer than limit before the end, or none. A webhook that does not exist has none.
func (s *Store) Deliveries(ctx context.Context, tenant atrium.TenantID, webhook atrium.WebhookID, f atrium.DeliveryFilter, after *atrium.Position, limit int,
) (deliveries []atrium.Delivery, next *atrium.Position, err error) {
	before := int64(math.MaxInt64)
	if after != nil {
		before = after.Key
	}
	var events []atrium.EventID
	if f.EntryID != "" {
		events = []atrium.EventID{atrium.EventKeyEntry.ID(tenant, string(f.EntryID)), atrium.EventKeyErased.ID(tenant, string(f.EntryID))}
	}
	if f.EventID != "" {
		if f.EntryID != "" && !slices.Contains(events, f.EventID) {
			return nil, nil, nil
		}
		events = []atrium.EventID{f.EventID}
	}
	matches := func(d atrium.Delivery) bool {
		return (f.State == "" || d.State == f.State) && (f.Since == nil || d.CreatedAt >= *f.Since) && (f.Until == nil || d.CreatedAt < *f.Until)
	}
	if len(events) > 0 {
		for _, id := range events {
			d, err := s.findDelivery(s.db.OutsideTx(ctx), tenant, webhook, id)
			if err != nil {
				return nil, nil, err
			}
			if d != nil && matches(*d) && d.Position < before && len(deliveries) < limit {
				deliveries = append(deliveries, *d)
			}
		}
		slices.SortFunc(deliveries, func(a, b atrium.Delivery) int { return int(b.Position - a.Position) })
		return deliveries, nil, nil
	}
	q := kernel.Select("SELECT "+deliveryColumns+" FROM deliveries WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND webhook_id = ", kernel.IDArg(webhook))
	if f.State != "" {
		q.Add(" AND state = ", stateNumber(f.State))
	}
	q.Add(" AND position < ", before)
	q.Add(" ORDER BY position DESC LIMIT ", int64(kernel.ScanLimit)+1)
	found, next, err := kernel.Filter(s.db.OutsideTx(ctx), q, limit, func(w *kernel.SizedRow) kernel.Item[atrium.Delivery] {
		was := w.Size
		d := scanDelivery(w, tenant)
		return kernel.Item[atrium.Delivery]{Value: d, Bytes: w.Size - was}
	}, matches, func(d atrium.Delivery) *atrium.Position { return &atrium.Position{Key: d.Position} })
	return found.Values, next, err
}

const selectDelivery = "SELECT " + deliveryColumns + " FROM deliveries WHERE tenant_id = $1 AND event_id = $2 AND webhook_id = $3"

// findDelivery returns the delivery of an event, nil if there is none. An event has one position in the feed, so it has
// one delivery to a webhook.
func (s *Store) findDelivery(query kernel.QueryFunc, tenant atrium.TenantID, webhook atrium.WebhookID, event atrium.EventID) (d *atrium.Delivery, err error) {
	err = query(selectDelivery, engine.Args{kernel.IDArg(tenant), kernel.IDArg(event), kernel.IDArg(webhook)}, func(r engine.Row) error {
		found := scanDelivery(r, tenant)
		d = &found
		return nil
	})
	return d, err
}

// maxAttempts is how many attempts of a delivery are stored: the last ones. Redeliveries and replays add to them without end.
const maxAttempts = 100

// Delivery returns the delivery of an event to a webhook with its last attempts, oldest first, or NotFound.
func (s *Store) Delivery(ctx context.Context, tenant atrium.TenantID, webhook atrium.WebhookID, event atrium.EventID) (d atrium.Delivery, attempts []atrium.Attempt, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		attempts = nil
		found, err := s.findDelivery(tx.Query, tenant, webhook, event)
		if err != nil {
			return err
		}
		if found == nil {
			return atrium.NotFound()
		}
		d = *found
		return tx.Query(`SELECT number, at, duration, status, error, response FROM delivery_attempts WHERE tenant_id = $1 AND webhook_id = $2 AND position = $3
			ORDER BY number DESC LIMIT $4`, engine.Args{kernel.IDArg(tenant), kernel.IDArg(webhook), d.Position, int64(maxAttempts)}, func(r engine.Row) error {
			attempts = append(attempts, atrium.Attempt{
				Number: r.Int(0), At: atrium.Time(r.Int(1)), Duration: time.Duration(r.Int(2)) * time.Microsecond, Status: int(r.Int(3)), Error: r.Text(4), Response: r.Bytes(5),
			})
			return nil
		})
	})
	slices.Reverse(attempts)
	return d, attempts, err
}

// DueDeliveries returns up to limit deliveries of a webhook whose next attempt is due, those first that have waited longest.
func (s *Store) DueDeliveries(ctx context.Context, lease Lease, limit int) (due []atrium.Delivery, err error) {
	err = s.db.Query(ctx, "SELECT "+deliveryColumns+" FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND next_at <= $3 ORDER BY next_at LIMIT $4",
		lease.args(int64(atrium.At(s.db.Now())), int64(limit)), func(r engine.Row) error {
			due = append(due, scanDelivery(r, lease.TenantID))
			return nil
		})
	return due, err
}

// RecordedPositions returns the positions in a range, both ends included, that have a delivery, at most limit.
func (s *Store) RecordedPositions(ctx context.Context, lease Lease, first, last int64, limit int) (recorded map[int64]bool, err error) {
	recorded = map[int64]bool{}
	err = s.db.Query(ctx, "SELECT position FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND position >= $3 AND position <= $4 ORDER BY position LIMIT $5",
		lease.args(first, last, int64(limit)), func(r engine.Row) error {
			recorded[r.Int(0)] = true
			return nil
		})
	return recorded, err
}

var unfinished = engine.NewBatch(`SELECT batch.subject, (SELECT d.position FROM deliveries d WHERE d.tenant_id = batch.tenant_id
	AND d.webhook_id = batch.webhook_id AND d.subject = batch.subject AND d.finished_at IS NULL ORDER BY d.position LIMIT 1) FROM batch`,
	"tenant_id bytea", "webhook_id bytea", "subject text")

// UnfinishedSubjects returns those of the subjects that have a delivery that is not finished.
func (s *Store) UnfinishedSubjects(ctx context.Context, lease Lease, subjects []string) (found map[string]bool, err error) {
	found = map[string]bool{}
	if len(subjects) == 0 {
		return found, nil
	}
	rows := make([]engine.Args, len(subjects))
	for i, subject := range subjects {
		rows[i] = lease.args(subject)
	}
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(unfinished, rows, func(r engine.Row) error {
			if !r.Null(1) {
				found[r.Text(0)] = true
			}
			return nil
		})
		return err
	})
	return found, err
}

// WebhookHours returns the attempts of a webhook by hour, from a time on, oldest first. Hours without attempts are left out. A
// webhook that does not exist has none.
func (s *Store) WebhookHours(ctx context.Context, tenant atrium.TenantID, webhook atrium.WebhookID, since atrium.Time) (hours []atrium.WebhookHour, err error) {
	err = s.db.Query(ctx, `SELECT starts_at, attempts, succeeded, latency, max_latency FROM webhook_hours
		WHERE tenant_id = $1 AND webhook_id = $2 AND starts_at >= $3 ORDER BY starts_at LIMIT $4`,
		engine.Args{kernel.IDArg(tenant), kernel.IDArg(webhook), int64(since - since%hour), int64(kernel.ScanLimit)}, func(r engine.Row) error {
			hours = append(hours, atrium.WebhookHour{
				StartsAt: atrium.Time(r.Int(0)), Attempts: r.Int(1), Succeeded: r.Int(2),
				Latency: time.Duration(r.Int(3)) * time.Microsecond, MaxLatency: time.Duration(r.Int(4)) * time.Microsecond,
			})
			return nil
		})
	return hours, err
}
