package webhooks

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// errDisabled is the error for a disabled webhook, which delivers nothing.
func errDisabled() error {
	return atrium.Errorf(atrium.CodeConflict, "The webhook is disabled: enable it first.")
}

// Redeliver makes a finished delivery pending, with the full number of attempts, and a pending one due now. A waiting one
// stays as it is. It returns NotFound if there is no such webhook or delivery, and Conflict if the webhook is disabled.
func (s *Store) Redeliver(ctx context.Context, c atrium.Change, webhook atrium.WebhookID, event atrium.EventID) (d atrium.Delivery, err error) {
	_, err = s.change(ctx, c, webhook, func(w atrium.Webhook) error {
		if !w.Enabled {
			return errDisabled()
		}
		return nil
	}, func(tx *kernel.Mutation, w *atrium.Webhook) error {
		found, err := s.findDelivery(tx.Query, c.TenantID, webhook, event)
		if err != nil {
			return err
		}
		if found == nil {
			return atrium.NotFound()
		}
		d = *found
		if d.State == atrium.DeliveryWaiting { // its turn comes
			return nil
		}
		tx.RecordDetail("webhook.redeliver", string(webhook), map[string]any{"eventId": event})
		lease := &Lease{TenantID: c.TenantID, WebhookID: webhook}
		if err := restart(tx, lease, w, &d); err != nil {
			return err
		}
		return s.hasten(tx, webhook)
	})
	return d, err
}

// restart makes a delivery that is not waiting pending. If the webhook is ordered and an unfinished delivery of the subject
// comes first, the delivery waits instead.
func restart(tx *kernel.Mutation, lease *Lease, w *atrium.Webhook, d *atrium.Delivery) error {
	d.State, d.Earlier, d.NextAt, d.FinishedAt = atrium.DeliveryPending, d.Attempts, &tx.At, nil
	ordered := w.Ordered && d.Subject != ""
	if ordered {
		d.State, d.NextAt = atrium.DeliveryWaiting, nil
	}
	if _, err := tx.Exec("UPDATE deliveries SET state = $1, earlier = $2, next_at = $3, finished_at = NULL WHERE tenant_id = $4 AND webhook_id = $5 AND position = $6",
		stateNumber(d.State), d.Earlier, kernel.NullableTime(d.NextAt), kernel.IDArg(lease.TenantID), kernel.IDArg(lease.WebhookID), d.Position); err != nil || !ordered {
		return err
	}
	if err := releaseSubject(tx, lease, d.Subject, tx.At); err != nil {
		return err
	}
	return tx.Query("SELECT state, next_at FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND position = $3", lease.args(d.Position), func(r engine.Row) error {
		d.State, d.NextAt = deliveryStates[r.Int(0)], kernel.TimeAt(r, 1)
		return nil
	})
}

const replayColumns = "replay_id, webhook_id, first_position, last_position, position, rate, failed_only, scheduled, actor, created_at, finished_at"

func scanReplay(r engine.Row, tenant atrium.TenantID) atrium.Replay {
	return atrium.Replay{
		ID: kernel.IDAt[atrium.ReplayID](r, 0), TenantID: tenant, WebhookID: kernel.IDAt[atrium.WebhookID](r, 1), From: r.Int(2), To: r.Int(3), Cursor: r.Int(4),
		Rate: r.Int(5), FailedOnly: r.Int(6) == 1, Scheduled: r.Int(7), Actor: r.Text(8), CreatedAt: atrium.Time(r.Int(9)), FinishedAt: kernel.TimeAt(r, 10),
	}
}

// CreateReplay begins a replay of the positions From to To. If To is 0 or past the position of the webhook, the replay ends at
// that position: later events are not delivered yet. The second result is true if an earlier request with the same idempotency
// key created the replay. It returns NotFound if there is no such webhook, and Conflict if it is disabled, if
// atrium.MaxReplays of it run, or if the range is empty.
func (s *Store) CreateReplay(ctx context.Context, c atrium.Change, replay atrium.Replay) (atrium.Replay, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Replay, error) {
		tx.Invalidate()
		made := replay
		w, err := lockWebhook(tx, made.WebhookID)
		if err != nil {
			return made, err
		}
		if !w.Enabled {
			return made, errDisabled()
		}
		made.TenantID, made.Actor, made.CreatedAt = c.TenantID, c.Actor, tx.At
		made.From = max(made.From, 1)
		if made.To == 0 || made.To > w.Cursor {
			made.To = w.Cursor
		}
		if made.From > made.To {
			return made, atrium.Errorf(atrium.CodeConflict, "The range has no events that the webhook has reached.")
		}
		made.Cursor = made.From - 1
		running := 0
		lease := Lease{TenantID: c.TenantID, WebhookID: made.WebhookID}
		if err := tx.Query("SELECT replay_id FROM webhook_replays WHERE tenant_id = $1 AND webhook_id = $2 AND finished_at IS NULL LIMIT $3",
			lease.args(int64(atrium.MaxReplays)), func(engine.Row) error {
				running++
				return nil
			}); err != nil {
			return made, err
		}
		if running >= atrium.MaxReplays {
			return made, atrium.Errorf(atrium.CodeConflict, "%d replays of the webhook run, the maximum. Wait for one to finish, or cancel one.", running)
		}
		tx.RecordDetail("webhook.replay", string(made.WebhookID), map[string]any{
			"replayId": made.ID, "from": made.From, "to": made.To, "rate": made.Rate, "failedOnly": made.FailedOnly,
		})
		if _, err := tx.Exec(`INSERT INTO webhook_replays (tenant_id, webhook_id, replay_id, first_position, last_position, position, rate, failed_only, scheduled, actor, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, kernel.IDArg(c.TenantID), kernel.IDArg(made.WebhookID), kernel.IDArg(made.ID), made.From, made.To, made.Cursor,
			made.Rate, kernel.BoolInt(made.FailedOnly), int64(0), made.Actor, int64(made.CreatedAt)); err != nil {
			return made, err
		}
		return made, s.hasten(tx, made.WebhookID)
	})
}

// Replays returns up to limit replays of a webhook by descending identifier, after the position, or from the first if it is nil.
// more reports whether others follow. A webhook that does not exist has none.
func (s *Store) Replays(ctx context.Context, tenant atrium.TenantID, webhook atrium.WebhookID, after *atrium.Position, limit int) (replays []atrium.Replay, more bool, err error) {
	before := []byte{0xff} // greater than all identifiers
	if after != nil {
		before = kernel.PackID(after.ID)
	}
	q := kernel.Select("SELECT "+replayColumns+" FROM webhook_replays WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND webhook_id = ", kernel.IDArg(webhook))
	q.Add(" AND replay_id < ", before)
	q.Add(" ORDER BY replay_id DESC LIMIT ", int64(limit)+1)
	return kernel.List(ctx, s.db, q, limit, func(r engine.Row) atrium.Replay { return scanReplay(r, tenant) })
}

// CancelReplay ends a replay. Deliveries that it has scheduled stay. It returns NotFound if there is no such replay.
func (s *Store) CancelReplay(ctx context.Context, c atrium.Change, webhook atrium.WebhookID, id atrium.ReplayID) (replay atrium.Replay, err error) {
	_, err = s.change(ctx, c, webhook, func(atrium.Webhook) error { return nil }, func(tx *kernel.Mutation, _ *atrium.Webhook) error {
		lease := Lease{TenantID: c.TenantID, WebhookID: webhook}
		if err := engine.Find(tx.Query, selectReplay, lease.args(kernel.IDArg(id)), func(r engine.Row) { replay = scanReplay(r, c.TenantID) }); err != nil {
			return err
		}
		if replay.FinishedAt != nil {
			return nil
		}
		replay.FinishedAt = &tx.At
		tx.RecordDetail("webhook.replay.cancel", string(webhook), map[string]any{"replayId": id, "scheduled": replay.Scheduled})
		_, err := tx.Exec("UPDATE webhook_replays SET finished_at = $1 WHERE tenant_id = $2 AND webhook_id = $3 AND replay_id = $4",
			int64(tx.At), kernel.IDArg(c.TenantID), kernel.IDArg(webhook), kernel.IDArg(id))
		return err
	})
	return replay, err
}

const selectReplay = "SELECT " + replayColumns + " FROM webhook_replays WHERE tenant_id = $1 AND webhook_id = $2 AND replay_id = $3"

// Replay returns a replay, or NotFound.
func (s *Store) Replay(ctx context.Context, tenant atrium.TenantID, webhook atrium.WebhookID, id atrium.ReplayID) (replay atrium.Replay, err error) {
	lease := Lease{TenantID: tenant, WebhookID: webhook}
	err = s.db.Find(ctx, selectReplay, lease.args(kernel.IDArg(id)), func(r engine.Row) { replay = scanReplay(r, tenant) })
	return replay, err
}

// runningReplay returns the first replay of a webhook that runs, "" if there is none.
func runningReplay(query kernel.QueryFunc, lease Lease) (id atrium.ReplayID, err error) {
	err = query("SELECT replay_id FROM webhook_replays WHERE tenant_id = $1 AND webhook_id = $2 AND finished_at IS NULL ORDER BY replay_id LIMIT 1", lease.args(),
		func(r engine.Row) error {
			id = kernel.IDAt[atrium.ReplayID](r, 0)
			return nil
		})
	return id, err
}

// scheduleDeliveries adds deliveries without an attempt, and restarts those that have finished. Those that are pending become due.
var scheduleDeliveries = engine.NewBatch(`INSERT INTO deliveries (tenant_id, webhook_id, position, event_id, type, subject, entry_id, state, attempts, earlier,
		next_at, created_at, finished_at, status, error, latency)
	SELECT batch.tenant_id, webhook_id, position, event_id, type, subject, entry_id, state, attempts, earlier,
		next_at, created_at, finished_at, status, error, latency FROM batch WHERE true
	ON CONFLICT (tenant_id, webhook_id, position) DO UPDATE SET finished_at = NULL,
		state = CASE WHEN deliveries.finished_at IS NULL THEN deliveries.state ELSE excluded.state END,
		earlier = CASE WHEN deliveries.finished_at IS NULL THEN deliveries.earlier ELSE deliveries.attempts END,
		next_at = CASE WHEN deliveries.finished_at IS NOT NULL THEN excluded.next_at
			WHEN deliveries.next_at > excluded.created_at THEN excluded.created_at ELSE deliveries.next_at END`,
	"tenant_id bytea", "webhook_id bytea", "position bigint", "event_id bytea", "type text", "subject text", "entry_id bytea", "state bigint", "attempts bigint",
	"earlier bigint", "next_at bigint", "created_at bigint", "finished_at bigint", "status bigint", "error text", "latency bigint")

// ScheduleReplay makes deliveries of a replay pending, and moves its cursor: all selected events up to it are scheduled. At the
// last position, the replay is finished. The fields of each delivery that describe the event must be set. Deliveries that are
// pending already become due and keep their attempts. A replay of failed deliveries leaves out those whose last attempt has not
// failed.
// It returns ErrLeaseLost if the lease was lost, and does nothing if the replay no longer runs.
func (s *Store) ScheduleReplay(ctx context.Context, lease Lease, id atrium.ReplayID, cursor int64, deliveries []atrium.Delivery) error {
	err := s.db.Write(engine.ForTenant(ctx, string(lease.TenantID)), func(tx engine.Tx) error {
		tx.Invalidate()
		w, err := lockLease(tx, &lease)
		if err != nil {
			return err
		}
		var replay atrium.Replay
		if err := tx.Query(selectReplay, lease.args(kernel.IDArg(id)), func(r engine.Row) error {
			replay = scanReplay(r, lease.TenantID)
			return nil
		}); err != nil || replay.ID == "" || replay.FinishedAt != nil || cursor <= replay.Cursor {
			return err
		}
		if err := kernel.RequireTenantIn(tx, lease.TenantID); err != nil {
			return err
		}
		now := atrium.At(s.db.Now())
		failed := map[int64]bool{}
		if replay.FailedOnly && len(deliveries) > 0 {
			if err := tx.Query(`SELECT position FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND position >= $3 AND position <= $4
				AND (state = 3 OR state = 0 AND attempts > earlier) ORDER BY position`,
				lease.args(deliveries[0].Position, deliveries[len(deliveries)-1].Position), func(r engine.Row) error {
					failed[r.Int(0)] = true
					return nil
				}); err != nil {
				return err
			}
		}
		var rows []engine.Args
		var subjects []string
		for i := range deliveries {
			d := deliveries[i]
			if replay.FailedOnly && !failed[d.Position] {
				continue
			}
			d.State, d.NextAt, d.CreatedAt = atrium.DeliveryPending, &now, now
			if w.Ordered && d.Subject != "" {
				d.State, d.NextAt = atrium.DeliveryWaiting, nil
				subjects = append(subjects, d.Subject)
			}
			rows = append(rows, deliveryArgs(&lease, &d))
		}
		if len(rows) > 0 {
			if _, err := tx.Batch(scheduleDeliveries, rows, nil); err != nil {
				return err
			}
		}
		for _, subject := range subjects {
			if err := releaseSubject(tx, &lease, subject, now); err != nil {
				return err
			}
		}
		var finished any
		if cursor >= replay.To {
			finished = int64(now)
		}
		_, err = tx.Exec("UPDATE webhook_replays SET position = $1, scheduled = scheduled + $2, finished_at = $3 WHERE tenant_id = $4 AND webhook_id = $5 AND replay_id = $6",
			cursor, int64(len(rows)), finished, kernel.IDArg(lease.TenantID), kernel.IDArg(lease.WebhookID), kernel.IDArg(id))
		return err
	})
	return leaseError(err)
}
