package webhooks

import (
	"context"
	"errors"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// setDue sets the time at which a webhook is due: nodes may lease it from then on.
func setDue(tx engine.Tx, tenant atrium.TenantID, id atrium.WebhookID, at atrium.Time) error {
	_, err := tx.Exec(`INSERT INTO webhook_due (tenant_id, webhook_id, due_at) VALUES ($1, $2, $3)
		ON CONFLICT (tenant_id, webhook_id) DO UPDATE SET due_at = excluded.due_at`, kernel.IDArg(tenant), kernel.IDArg(id), int64(at))
	return err
}

// Wake makes the idle webhooks of a tenant due now. The transaction must have locked the head of the feed.
func (s *Store) Wake(tx engine.Tx, tenant atrium.TenantID) error {
	var woken []atrium.WebhookID
	if err := tx.Query("SELECT webhook_id FROM webhooks WHERE tenant_id = $1 AND idle = 1 ORDER BY webhook_id LIMIT $2",
		engine.Args{kernel.IDArg(tenant), int64(atrium.MaxWebhooks)}, func(r engine.Row) error {
			woken = append(woken, kernel.IDAt[atrium.WebhookID](r, 0))
			return nil
		}); err != nil {
		return err
	}
	now := atrium.At(s.db.Now())
	for _, id := range woken {
		if _, err := tx.Exec("UPDATE webhooks SET idle = 0 WHERE tenant_id = $1 AND webhook_id = $2 AND idle = 1", kernel.IDArg(tenant), kernel.IDArg(id)); err != nil {
			return err
		}
		if err := setDue(tx, tenant, id, now); err != nil {
			return err
		}
	}
	if len(woken) > 0 {
		select {
		case s.woken <- struct{}{}:
		default:
		}
	}
	return nil
}

// Woken receives a value when a transaction of this process has called Wake for idle webhooks. It may not have committed
// yet.
func (s *Store) Woken() <-chan struct{} { return s.woken }

// hasten makes a webhook due now, unless a node has leased it: that node polls its state. The webhook must be locked.
func (s *Store) hasten(tx *kernel.Mutation, id atrium.WebhookID) error {
	key := engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}
	n, err := tx.Exec("UPDATE webhooks SET idle = 0 WHERE tenant_id = $1 AND webhook_id = $2 AND leased_until <= $3 AND idle < 2", append(key, int64(tx.At))...)
	if err != nil || n == 0 {
		return err
	}
	return setDue(tx, tx.Change.TenantID, id, tx.At)
}

// A DueWebhook is a webhook that a node may lease.
type DueWebhook struct {
	TenantID  atrium.TenantID
	WebhookID atrium.WebhookID
}

// DueWebhooks returns up to limit webhooks of all tenants that are due, those first that became due first.
func (s *Store) DueWebhooks(ctx context.Context, limit int) (due []DueWebhook, err error) {
	err = s.db.Query(ctx, "SELECT tenant_id, webhook_id FROM webhook_due WHERE due_at <= $1 ORDER BY due_at LIMIT $2",
		engine.Args{int64(atrium.At(s.db.Now())), int64(limit)}, func(r engine.Row) error {
			due = append(due, DueWebhook{kernel.IDAt[atrium.TenantID](r, 0), kernel.IDAt[atrium.WebhookID](r, 1)})
			return nil
		})
	return due, err
}

// ClaimWebhook leases a webhook to a node for life. claimed is false if the webhook is no longer due, because another node
// was faster, or it is disabled or deleted.
func (s *Store) ClaimWebhook(ctx context.Context, due DueWebhook, node []byte, life time.Duration) (lease Lease, claimed bool, err error) {
	lease = Lease{TenantID: due.TenantID, WebhookID: due.WebhookID}
	err = s.db.Write(engine.ForTenant(ctx, string(due.TenantID)), func(tx engine.Tx) error {
		tx.Invalidate()
		claimed = false
		now := atrium.At(s.db.Now())
		var leasedUntil atrium.Time
		err := engine.Find(tx.Lock, "SELECT leased_until, epoch FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2 AND idle < 2", lease.args(), func(r engine.Row) {
			leasedUntil, lease.Epoch = atrium.Time(r.Int(0)), r.Int(1)+1
		})
		if errors.Is(err, engine.ErrNoRow) {
			return nil // a change has deleted its row of webhook_due, too
		}
		if err != nil || leasedUntil > now {
			return err
		}
		isDue := false
		if err := tx.Query("SELECT due_at FROM webhook_due WHERE tenant_id = $1 AND webhook_id = $2", lease.args(), func(r engine.Row) error {
			isDue = atrium.Time(r.Int(0)) <= now
			return nil
		}); err != nil || !isDue {
			return err
		}
		if err := kernel.RequireTenantIn(tx, due.TenantID); err != nil {
			return err
		}
		claimed = true
		until := atrium.At(now.Std().Add(life))
		if _, err := tx.Exec("UPDATE webhooks SET idle = 0, owner = $1, leased_until = $2, epoch = $3, results = 0 WHERE tenant_id = $4 AND webhook_id = $5",
			node, int64(until), lease.Epoch, kernel.IDArg(lease.TenantID), kernel.IDArg(lease.WebhookID)); err != nil {
			return err
		}
		return setDue(tx, lease.TenantID, lease.WebhookID, until)
	})
	if errors.Is(err, atrium.ErrNoTenant) {
		return lease, false, nil // it is being deleted
	}
	return lease, claimed && err == nil, err
}

// A LeasedWebhook has what its node needs to deliver for a webhook.
type LeasedWebhook struct {
	atrium.Webhook
	Secrets []atrium.WebhookSecret // as WebhookSecrets returns them; nil if KeyError is set

	// KeyError says that the keys of the process do not decrypt the secrets.
	KeyError error

	// Recorded is the position of the last delivery. Only up to it, events after Cursor may have one already.
	Recorded int64
}

// LeasedWebhook returns the webhook of a lease, or ErrLeaseLost.
func (s *Store) LeasedWebhook(ctx context.Context, lease Lease) (w LeasedWebhook, err error) {
	err = s.db.Read(ctx, func(tx engine.Tx) error {
		w = LeasedWebhook{}
		scan := scanner{tenant: lease.TenantID}
		epoch := int64(-1)
		if err := tx.Query("SELECT "+webhookColumns+", epoch FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2", lease.args(), func(r engine.Row) error {
			w.Webhook, epoch = scan.scan(r), r.Int(webhookColumnCount)
			return scan.err
		}); err != nil {
			return err
		}
		if epoch != lease.Epoch {
			return ErrLeaseLost
		}
		if err := tx.Query("SELECT position FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 ORDER BY position DESC LIMIT 1", lease.args(), func(r engine.Row) error {
			w.Recorded = r.Int(0)
			return nil
		}); err != nil {
			return err
		}
		w.Secrets, err = s.secretsOf(tx.Query, lease.TenantID, lease.WebhookID)
		if errors.Is(err, secrets.ErrNoKeys) || errors.Is(err, secrets.ErrUnknownKey) || errors.Is(err, secrets.ErrDamaged) {
			w.KeyError, err = err, nil
		}
		return err
	})
	return w, leaseError(err)
}

// leaseError returns err, and ErrLeaseLost without a prefix.
func leaseError(err error) error {
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, atrium.ErrNoTenant) {
		return ErrLeaseLost
	}
	return err
}

// lockLease locks the webhook of a lease and returns it, or ErrLeaseLost.
func lockLease(tx engine.Tx, lease *Lease) (w atrium.Webhook, err error) {
	w, _, err = lockResults(tx, lease)
	return w, err
}

// lockResults is lockLease that also returns the number of the last results.
func lockResults(tx engine.Tx, lease *Lease) (w atrium.Webhook, results int64, err error) {
	scan := scanner{tenant: lease.TenantID}
	epoch := int64(-1)
	if err := tx.Lock("SELECT "+webhookColumns+", epoch, results FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2", lease.args(), func(r engine.Row) error {
		w, epoch, results = scan.scan(r), r.Int(webhookColumnCount), r.Int(webhookColumnCount+1)
		return scan.err
	}); err != nil {
		return w, 0, err
	}
	if epoch != lease.Epoch {
		return w, 0, ErrLeaseLost
	}
	return w, results, nil
}

// A LeaseState is the state of a webhook that its node polls while it delivers.
type LeaseState struct {
	Enabled   bool
	UpdatedAt atrium.Time     // of the webhook
	Replay    atrium.ReplayID // the first running replay; "" for none

	// Disabled is why RecordResults has disabled the webhook, "" if it has not.
	Disabled atrium.DisabledReason
}

// RenewLease extends a lease, and returns the state of the webhook, or ErrLeaseLost. It works after the end of the lease, as
// long as no other node has leased the webhook.
func (s *Store) RenewLease(ctx context.Context, lease Lease, life time.Duration) (state LeaseState, err error) {
	err = s.db.Write(engine.ForTenant(ctx, string(lease.TenantID)), func(tx engine.Tx) error {
		tx.Invalidate()
		w, err := lockLease(tx, &lease)
		if err != nil {
			return err
		}
		if state, err = stateOf(tx.Query, &w, lease); err != nil || !w.Enabled {
			return err
		}
		until := atrium.At(s.db.Now().Add(life))
		if _, err := tx.Exec("UPDATE webhooks SET leased_until = $1 WHERE tenant_id = $2 AND webhook_id = $3",
			int64(until), kernel.IDArg(lease.TenantID), kernel.IDArg(lease.WebhookID)); err != nil {
			return err
		}
		return setDue(tx, lease.TenantID, lease.WebhookID, until)
	})
	return state, leaseError(err)
}

// LeaseState returns the state of the webhook of a lease, or ErrLeaseLost.
func (s *Store) LeaseState(ctx context.Context, lease Lease) (state LeaseState, err error) {
	epoch := int64(-1)
	if err = s.db.Query(ctx, "SELECT disabled_reason, updated_at, epoch FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2", lease.args(), func(r engine.Row) error {
		state.Enabled, state.UpdatedAt, epoch = r.Null(0), atrium.Time(r.Int(1)), r.Int(2)
		return nil
	}); err != nil {
		return state, err
	}
	if epoch != lease.Epoch {
		return state, ErrLeaseLost
	}
	state.Replay, err = runningReplay(s.db.OutsideTx(ctx), lease)
	return state, err
}

func stateOf(query kernel.QueryFunc, w *atrium.Webhook, lease Lease) (state LeaseState, err error) {
	state = LeaseState{Enabled: w.Enabled, UpdatedAt: w.UpdatedAt}
	state.Replay, err = runningReplay(query, lease)
	return state, err
}

// ReleaseWebhook ends a lease, and makes the webhook due at a time, unless it is disabled. It does nothing if the lease was
// lost.
func (s *Store) ReleaseWebhook(ctx context.Context, lease Lease, at atrium.Time) error {
	err := s.db.Write(engine.ForTenant(ctx, string(lease.TenantID)), func(tx engine.Tx) error {
		tx.Invalidate()
		w, err := lockLease(tx, &lease)
		if err != nil {
			return err
		}
		return endLease(tx, &w, lease, notIdle, &at)
	})
	if err = leaseError(err); errors.Is(err, ErrLeaseLost) {
		return nil
	}
	return err
}

// endLease ends the lease of a webhook, which must be locked, and makes it due at a time; nil for never.
func endLease(tx engine.Tx, w *atrium.Webhook, lease Lease, state int64, at *atrium.Time) error {
	if !w.Enabled {
		state, at = disabled, nil
	}
	if _, err := tx.Exec("UPDATE webhooks SET idle = $1, owner = NULL, leased_until = $2 WHERE tenant_id = $3 AND webhook_id = $4",
		state, int64(0), kernel.IDArg(lease.TenantID), kernel.IDArg(lease.WebhookID)); err != nil {
		return err
	}
	if at != nil {
		return setDue(tx, lease.TenantID, lease.WebhookID, *at)
	}
	_, err := tx.Exec("DELETE FROM webhook_due WHERE tenant_id = $1 AND webhook_id = $2", lease.args()...)
	return err
}

// IdleWebhook ends a lease if nothing is left to do: the recorded position of the webhook is the end of the feed, no retry is
// due, and no replay runs. The webhook is due again at the next event or retry. ended is false if the lease continues.
// It returns ErrLeaseLost if the lease was lost.
func (s *Store) IdleWebhook(ctx context.Context, lease Lease) (ended bool, err error) {
	err = s.db.Write(engine.ForTenant(ctx, string(lease.TenantID)), func(tx engine.Tx) error {
		tx.Invalidate()
		ended = false
		next, err := s.feed.LockHead(tx, lease.TenantID)
		if err != nil {
			return err
		}
		w, err := lockLease(tx, &lease)
		if err != nil {
			return err
		}
		replay, err := runningReplay(tx.Query, lease)
		if err != nil {
			return err
		}
		more, err := s.feed.AnyAfter(tx, lease.TenantID, w.Cursor, next)
		if err != nil || w.Enabled && (more || replay != "") {
			return err
		}
		var retry *atrium.Time
		if err := tx.Query("SELECT next_at FROM deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND next_at > $3 ORDER BY next_at LIMIT 1", lease.args(int64(0)),
			func(r engine.Row) error {
				retry = kernel.TimeAt(r, 0)
				return nil
			}); err != nil {
			return err
		}
		if w.Enabled && retry != nil && *retry <= atrium.At(s.db.Now()) {
			return nil
		}
		ended = true
		if _, err := tx.Exec("UPDATE webhooks SET behind_since = NULL WHERE tenant_id = $1 AND webhook_id = $2", lease.args()...); err != nil {
			return err
		}
		return endLease(tx, &w, lease, idle, retry)
	})
	return ended, leaseError(err)
}
