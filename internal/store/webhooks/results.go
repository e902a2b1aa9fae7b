package webhooks

import (
	"context"
	"errors"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Results are what a node has done for a webhook since the last time.
type Results struct {
	// Number is 1 for the first results of a lease, and one more for each of the next.
	Number int64

	// Cursor is the position up to which every event has a delivery, in these results or stored, or is not selected.
	Cursor int64

	Lost         int64 // events that expired before they were read
	FilterFaults int64 // events that are delivered because the filter has failed

	// BehindSince is the time of the first event after Cursor, as far as it was read, nil at the end of the feed.
	BehindSince *atrium.Time

	Outcomes []Outcome // in the order in which they became known
}

// An Outcome is a delivery with the result of an attempt, or without one if its event was erased or waits.
type Outcome struct {
	Delivery atrium.Delivery // as it is to be stored; TenantID and WebhookID are those of the lease
	Stored   bool            // whether the delivery was stored before
	Attempt  *atrium.Attempt // nil for none
	Gone     bool            // the endpoint responded with 410
}

// deliveryStates are the states by their stored numbers.
var deliveryStates = [...]atrium.DeliveryState{
	atrium.DeliveryPending, atrium.DeliveryWaiting, atrium.DeliverySucceeded, atrium.DeliveryFailed, atrium.DeliveryCanceled,
}

func stateNumber(state atrium.DeliveryState) int64 {
	for i, s := range deliveryStates {
		if s == state {
			return int64(i)
		}
	}
	return -1
}

var storeDeliveries = engine.NewBatch(`INSERT INTO deliveries (tenant_id, webhook_id, position, event_id, type, subject, entry_id, state, attempts, earlier,
		next_at, created_at, finished_at, status, error, latency)
	SELECT batch.tenant_id, webhook_id, position, event_id, type, subject, entry_id, state, attempts, earlier,
		next_at, created_at, finished_at, status, error, latency FROM batch WHERE true
	ON CONFLICT (tenant_id, webhook_id, position) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, earlier = excluded.earlier,
		next_at = excluded.next_at, finished_at = excluded.finished_at, status = excluded.status, error = excluded.error, latency = excluded.latency`,
	"tenant_id bytea", "webhook_id bytea", "position bigint", "event_id bytea", "type text", "subject text", "entry_id bytea", "state bigint", "attempts bigint",
	"earlier bigint", "next_at bigint", "created_at bigint", "finished_at bigint", "status bigint", "error text", "latency bigint")

var storeAttempts = engine.NewBatch(`INSERT INTO delivery_attempts (tenant_id, webhook_id, position, number, at, duration, status, error, response)
	SELECT batch.tenant_id, webhook_id, position, number, at, duration, status, error, response FROM batch`,
	"tenant_id bytea", "webhook_id bytea", "position bigint", "number bigint", "at bigint", "duration bigint", "status bigint", "error text", "response bytea")

// RecordResults stores results in one transaction. It returns the state of the webhook after it, or ErrLeaseLost, and then has
// stored nothing. After another error, the results may be stored: call it again with the same ones.
//
// It disables the webhook if the endpoint is gone, or if all attempts have failed for atrium.MaxFailing. Each failed delivery
// and each disabled webhook causes an event. When a delivery has finished, the next waiting one of its subject becomes
// pending.
//
// The transactions of many results pause as background work does. Those of a few do not, because the next delivery of
// an ordered webhook waits for them.
func (s *Store) RecordResults(ctx context.Context, lease Lease, results Results) (state LeaseState, err error) {
	if len(results.Outcomes) <= fewOutcomes {
		return s.recordResults(ctx, lease, results)
	}
	err = s.db.Paced(ctx, lease.TenantID, func() error {
		state, err = s.recordResults(ctx, lease, results)
		return err
	})
	return state, err
}

const fewOutcomes = 8

func (s *Store) recordResults(ctx context.Context, lease Lease, results Results) (LeaseState, error) {
	c := atrium.Change{TenantID: lease.TenantID, Actor: atrium.ActorDelivery}
	state, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (state LeaseState, err error) {
		tx.Invalidate()
		w, stored, err := lockResults(tx, &lease)
		if err != nil {
			return state, err
		}
		if stored >= results.Number { // by an earlier call, whose outcome was not known
			return stateOf(tx.Query, &w, lease)
		}
		if err := storeOutcomes(tx, &lease, results.Outcomes); err != nil {
			return state, err
		}
		gone := false
		for i := range results.Outcomes {
			o := &results.Outcomes[i]
			if o.Attempt != nil {
				follow(&w, o)
			}
			gone = gone || o.Gone
			if o.Delivery.State == atrium.DeliveryFailed && reportsFailure(o.Delivery.Type) {
				tx.RecordDetail(atrium.ActionWebhookExhausted, string(w.ID), map[string]any{
					"eventId": o.Delivery.EventID, "eventType": o.Delivery.Type, "attempts": o.Delivery.Attempts, "status": o.Delivery.Status, "error": o.Delivery.Error,
				})
			}
		}
		w.Cursor = max(w.Cursor, results.Cursor)
		w.Lost += results.Lost
		w.FilterFaults += results.FilterFaults
		reason := atrium.DisabledReason("")
		if w.Enabled {
			switch {
			case gone:
				reason = atrium.DisabledByGone
			case w.FailingSince != nil && tx.At.Std().Sub(w.FailingSince.Std()) >= atrium.MaxFailing:
				reason = atrium.DisabledByFailures
			}
			if reason != "" {
				if err := disable(tx, &w, reason, atrium.ActionWebhookDisabled, kernel.Fields{"failingSince": w.FailingSince}); err != nil {
					return state, err
				}
			}
		}
		if _, err := tx.Exec(`UPDATE webhooks SET failing_since = $1, position = $2, lost = $3, filter_faults = $4, behind_since = $5, results = $6
			WHERE tenant_id = $7 AND webhook_id = $8`, kernel.NullableTime(w.FailingSince), w.Cursor, w.Lost, w.FilterFaults,
			kernel.NullableTime(results.BehindSince), results.Number, kernel.IDArg(lease.TenantID), kernel.IDArg(lease.WebhookID)); err != nil {
			return state, err
		}
		if err := releaseNext(tx, &lease, results.Outcomes); err != nil {
			return state, err
		}
		if err := storeHours(tx, &lease, results.Outcomes); err != nil {
			return state, err
		}
		state, err = stateOf(tx.Query, &w, lease)
		state.Disabled = reason
		return state, err
	})
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, atrium.ErrNoTenant) {
		return state, ErrLeaseLost
	}
	return state, err
}

// follow updates FailingSince by the result of an attempt.
func follow(w *atrium.Webhook, o *Outcome) {
	switch {
	case o.Delivery.State == atrium.DeliverySucceeded:
		w.FailingSince = nil
	case w.FailingSince == nil:
		at := o.Attempt.At
		w.FailingSince = &at
	}
}

// reportsFailure reports whether a failed delivery of an event is an event itself. Those about webhooks are not: two
// webhooks that fail would report each other without end.
func reportsFailure(t atrium.EventType) bool {
	switch t {
	case atrium.EventWebhookDisabled, atrium.EventWebhookExhausted, atrium.EventWebhookTest:
		return false
	}
	return true
}

// storeOutcomes stores deliveries and attempts.
func storeOutcomes(tx *kernel.Mutation, lease *Lease, outcomes []Outcome) error {
	var deliveries, attempts []engine.Args
	for i := range outcomes {
		d, a := &outcomes[i].Delivery, outcomes[i].Attempt
		deliveries = append(deliveries, deliveryArgs(lease, d))
		if a != nil {
			response := a.Response
			if response == nil {
				response = []byte{}
			}
			attempts = append(attempts, lease.args(d.Position, a.Number, int64(a.At), a.Duration.Microseconds(), int64(a.Status), a.Error, response))
		}
	}
	if len(deliveries) > 0 {
		if _, err := tx.Batch(storeDeliveries, deliveries, nil); err != nil {
			return err
		}
	}
	if len(attempts) == 0 {
		return nil
	}
	if _, err := tx.Batch(storeAttempts, attempts, nil); err != nil {
		return err
	}
	for i := range outcomes {
		a := outcomes[i].Attempt
		if a == nil || a.Number <= maxAttempts {
			continue
		}
		if _, err := tx.Exec("DELETE FROM delivery_attempts WHERE tenant_id = $1 AND webhook_id = $2 AND position = $3 AND number <= $4",
			lease.args(outcomes[i].Delivery.Position, a.Number-maxAttempts)...); err != nil {
			return err
		}
	}
	return nil
}

// deliveryArgs returns a row of storeDeliveries.
func deliveryArgs(lease *Lease, d *atrium.Delivery) engine.Args {
	return lease.args(d.Position, kernel.IDArg(d.EventID), string(d.Type), kernel.Nullable(d.Subject), kernel.IDArg(d.EntryID), stateNumber(d.State), d.Attempts, d.Earlier,
		kernel.NullableTime(d.NextAt), int64(d.CreatedAt), kernel.NullableTime(d.FinishedAt), int64(d.Status), d.Error, d.Latency.Microseconds())
}

// releaseNext makes the earliest unfinished delivery of the subject of an outcome pending, if it waits: the one before it
// may have finished now, or before this one began to wait.
func releaseNext(tx *kernel.Mutation, lease *Lease, outcomes []Outcome) error {
	released := map[string]bool{}
	for i := range outcomes {
		d := &outcomes[i].Delivery
		if d.Subject == "" || released[d.Subject] || !outcomes[i].Stored && d.State != atrium.DeliveryWaiting {
			continue
		}
		released[d.Subject] = true
		if err := releaseSubject(tx, lease, d.Subject, tx.At); err != nil {
			return err
		}
	}
	return nil
}

// releaseSubject makes the earliest unfinished delivery of a subject pending, if it waits.
func releaseSubject(tx engine.Tx, lease *Lease, subject string, at atrium.Time) error {
	position, waits := int64(0), false
	if err := tx.Query(`SELECT position, state FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND subject = $3 AND finished_at IS NULL
		ORDER BY position LIMIT 1`, lease.args(subject), func(r engine.Row) error {
		position, waits = r.Int(0), deliveryStates[r.Int(1)] == atrium.DeliveryWaiting
		return nil
	}); err != nil || !waits {
		return err
	}
	_, err := tx.Exec("UPDATE deliveries SET state = 0, next_at = $1 WHERE tenant_id = $2 AND webhook_id = $3 AND position = $4",
		int64(at), kernel.IDArg(lease.TenantID), kernel.IDArg(lease.WebhookID), position)
	return err
}

var addHours = engine.NewBatch(`INSERT INTO webhook_hours (tenant_id, webhook_id, starts_at, attempts, succeeded, latency, max_latency)
	SELECT batch.tenant_id, webhook_id, starts_at, attempts, succeeded, latency, max_latency FROM batch WHERE true
	ON CONFLICT (tenant_id, webhook_id, starts_at) DO UPDATE SET attempts = webhook_hours.attempts + excluded.attempts,
		succeeded = webhook_hours.succeeded + excluded.succeeded, latency = webhook_hours.latency + excluded.latency,
		max_latency = CASE WHEN webhook_hours.max_latency > excluded.max_latency THEN webhook_hours.max_latency ELSE excluded.max_latency END`,
	"tenant_id bytea", "webhook_id bytea", "starts_at bigint", "attempts bigint", "succeeded bigint", "latency bigint", "max_latency bigint")

const hour = atrium.Time(time.Hour / time.Microsecond)

// storeHours adds the attempts to the numbers of their hours.
func storeHours(tx *kernel.Mutation, lease *Lease, outcomes []Outcome) error {
	var order []atrium.Time
	hours := map[atrium.Time]*atrium.WebhookHour{}
	for i := range outcomes {
		a := outcomes[i].Attempt
		if a == nil {
			continue
		}
		at := a.At - a.At%hour
		if hours[at] == nil {
			hours[at] = &atrium.WebhookHour{StartsAt: at}
			order = append(order, at)
		}
		h := hours[at]
		h.Attempts++
		h.Latency += a.Duration
		h.MaxLatency = max(h.MaxLatency, a.Duration)
		if outcomes[i].Delivery.State == atrium.DeliverySucceeded {
			h.Succeeded++
		}
	}
	rows := make([]engine.Args, len(order))
	for i, at := range order {
		h := hours[at]
		rows[i] = lease.args(int64(h.StartsAt), h.Attempts, h.Succeeded, h.Latency.Microseconds(), h.MaxLatency.Microseconds())
	}
	if len(rows) == 0 {
		return nil
	}
	return tx.PipelineExec(addHours, rows)
}
