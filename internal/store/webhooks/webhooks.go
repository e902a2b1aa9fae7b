package webhooks

import (
	"context"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const webhookColumns = `webhook_id, description, url, event_types, sources, entry_types, account_id, filter, format, ordered, rate_limit,
	disabled_reason, disabled_at, failing_since, position, lost, filter_faults, created_at, updated_at`

// webhookColumnCount is the number of webhookColumns: the index of the first column after them.
const webhookColumnCount = 19

// scanWebhook reads webhookColumns, which start at column 0.
func scanWebhook(r engine.Row, tenant atrium.TenantID) (w atrium.Webhook, err error) {
	w = atrium.Webhook{
		ID: kernel.IDAt[atrium.WebhookID](r, 0), TenantID: tenant,
		WebhookSpec: atrium.WebhookSpec{
			Description: r.Text(1), URL: r.Text(2), AccountID: kernel.IDAt[atrium.AccountID](r, 6), Filter: r.Text(7),
			Format: atrium.WebhookFormat(r.Text(8)), Ordered: r.Int(9) == 1, RateLimit: r.Int(10),
		},
		Enabled: r.Null(11), DisabledReason: atrium.DisabledReason(r.Text(11)), DisabledAt: kernel.TimeAt(r, 12), FailingSince: kernel.TimeAt(r, 13),
		Cursor: r.Int(14), Lost: r.Int(15), FilterFaults: r.Int(16), CreatedAt: atrium.Time(r.Int(17)), UpdatedAt: atrium.Time(r.Int(18)),
	}
	for _, list := range []struct {
		column int
		into   any
	}{{3, &w.EventTypes}, {4, &w.Sources}, {5, &w.EntryTypes}} {
		if err := json.Unmarshal(r.View(list.column), list.into); err != nil {
			return w, fmt.Errorf("decode a selection of webhook %s: %w", w.ID, err)
		}
	}
	return w, nil
}

// A scanner scans webhooks and keeps the first error.
type scanner struct {
	tenant atrium.TenantID
	err    error
}

func (s *scanner) scan(r engine.Row) atrium.Webhook {
	w, err := scanWebhook(r, s.tenant)
	if err != nil && s.err == nil {
		s.err = err
	}
	return w
}

// webhookFields returns what the audit log shows of a webhook. Its URL may contain a token, so the log has a hash of it.
func webhookFields(w *atrium.Webhook) kernel.Fields {
	fields := kernel.Fields{"urlHash": urlHash(w.URL), "enabled": w.Enabled, "format": w.Format, "ordered": w.Ordered}
	for name, set := range map[string]struct {
		value any
		is    bool
	}{
		"description": {w.Description, w.Description != ""}, "eventTypes": {w.EventTypes, len(w.EventTypes) > 0}, "sources": {w.Sources, len(w.Sources) > 0},
		"types": {w.EntryTypes, len(w.EntryTypes) > 0}, "accountId": {w.AccountID, w.AccountID != ""}, "filter": {w.Filter, w.Filter != ""},
		"rateLimit": {w.RateLimit, w.RateLimit > 0}, "reason": {w.DisabledReason, w.DisabledReason != ""},
	} {
		if set.is {
			fields[name] = set.value
		}
	}
	return fields
}

// CreateWebhook stores an enabled webhook with its secret and headers, which it encrypts. It enables the events of the tenant, and the
// first event of the webhook is the next one. It returns the webhook as stored. The result is true if an earlier request with
// the same idempotency key created it: then the values were not stored, and no caller can get the secret again. It returns
// NotFound if the tenant does not have the account of the webhook, and Conflict if the tenant has atrium.MaxWebhooks, or if the
// process has no key to encrypt with.
func (s *Store) CreateWebhook(ctx context.Context, c atrium.Change, w atrium.Webhook, values []atrium.WebhookSecret) (atrium.Webhook, bool, error) {
	return kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Webhook, error) {
		tx.Invalidate() // no cached response has webhooks
		made := w
		made.TenantID, made.Enabled, made.CreatedAt, made.UpdatedAt = c.TenantID, true, tx.At, tx.At
		if err := s.feed.Enable(tx); err != nil {
			return made, err
		}
		next, err := s.feed.LockHead(tx, c.TenantID) // so that creations are counted one after another
		if err != nil {
			return made, err
		}
		made.Cursor = next - 1
		if err := requireAccount(tx, made.AccountID); err != nil {
			return made, err
		}
		var n int64
		if err := engine.Find(tx.Query, "SELECT COUNT(*) FROM (SELECT 1 FROM webhooks WHERE tenant_id = $1 LIMIT $2) x",
			engine.Args{kernel.IDArg(c.TenantID), int64(atrium.MaxWebhooks)}, func(r engine.Row) { n = r.Int(0) }); err != nil {
			return made, err
		}
		if n >= atrium.MaxWebhooks {
			return made, atrium.Errorf(atrium.CodeConflict, "There are %d webhooks, the maximum. Delete one first.", n)
		}
		tx.Record("webhook.create", string(made.ID), nil, webhookFields(&made))
		lists, err := selections(&made)
		if err != nil {
			return made, err
		}
		if _, err := tx.Exec(`INSERT INTO webhooks (tenant_id, webhook_id, description, url, event_types, sources, entry_types, account_id, filter, format,
			ordered, rate_limit, created_at, updated_at, position, idle, disabled_reason)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, NULL)`,
			kernel.IDArg(c.TenantID), kernel.IDArg(made.ID), made.Description, made.URL, lists[0], lists[1], lists[2], kernel.IDArg(made.AccountID), made.Filter,
			string(made.Format), kernel.BoolInt(made.Ordered), made.RateLimit, int64(made.CreatedAt), int64(made.UpdatedAt), made.Cursor, int64(idle)); err != nil {
			return made, err
		}
		return made, s.insertSecrets(tx, made.ID, values)
	})
}

// requireAccount returns engine.ErrNoRow if the tenant does not have the account, or it was merged. It accepts "", which
// selects the events of all accounts.
func requireAccount(tx *kernel.Mutation, id atrium.AccountID) error {
	if id == "" {
		return nil
	}
	return engine.Find(tx.Query, "SELECT 1 FROM accounts WHERE tenant_id = $1 AND account_id = $2 AND (survivor_id IS NULL OR survivor_id <> account_id)",
		engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}, func(engine.Row) {})
}

// selections returns EventTypes, Sources and EntryTypes as arguments.
func selections(w *atrium.Webhook) (lists [3]any, err error) {
	for i, list := range []any{w.EventTypes, w.Sources, w.EntryTypes} {
		b, err := json.Marshal(list) // [] for nil
		if err != nil {
			return lists, fmt.Errorf("encode a selection: %w", err)
		}
		lists[i] = b
	}
	return lists, nil
}

const selectWebhook = "SELECT " + webhookColumns + " FROM webhooks WHERE tenant_id = $1 AND webhook_id = $2"

// Webhook returns a webhook, or NotFound.
func (s *Store) Webhook(ctx context.Context, tenant atrium.TenantID, id atrium.WebhookID) (w atrium.Webhook, err error) {
	scan := scanner{tenant: tenant}
	if err := s.db.Find(ctx, selectWebhook, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)}, func(r engine.Row) { w = scan.scan(r) }); err != nil {
		return w, err
	}
	return w, scan.err
}

// Webhooks returns up to limit webhooks of a tenant by descending identifier, after the position, or from the first if it
// is nil. more reports whether others follow.
func (s *Store) Webhooks(ctx context.Context, tenant atrium.TenantID, after *atrium.Position, limit int) (all []atrium.Webhook, more bool, err error) {
	before := []byte{0xff} // greater than all identifiers
	if after != nil {
		before = kernel.PackID(after.ID)
	}
	q := kernel.Select("SELECT "+webhookColumns+" FROM webhooks WHERE tenant_id = ", kernel.IDArg(tenant))
	q.Add(" AND webhook_id < ", before)
	q.Add(" ORDER BY webhook_id DESC LIMIT ", int64(limit)+1)
	scan := scanner{tenant: tenant}
	if all, more, err = kernel.List(ctx, s.db, q, limit, scan.scan); err != nil {
		return nil, false, err
	}
	return all, more, scan.err
}

// lockWebhook locks a webhook of the tenant of the change until the end of the transaction and returns it.
func lockWebhook(tx *kernel.Mutation, id atrium.WebhookID) (w atrium.Webhook, err error) {
	scan := scanner{tenant: tx.Change.TenantID}
	if err := engine.Find(tx.Lock, selectWebhook, engine.Args{kernel.IDArg(tx.Change.TenantID), kernel.IDArg(id)}, func(r engine.Row) { w = scan.scan(r) }); err != nil {
		return w, err
	}
	return w, scan.err
}

// change runs f with a webhook, which is locked. It first calls check with the webhook; an error of check ends the call.
// It returns NotFound if the tenant has no such webhook.
func (s *Store) change(ctx context.Context, c atrium.Change, id atrium.WebhookID, check func(atrium.Webhook) error,
	f func(*kernel.Mutation, *atrium.Webhook) error,
) (atrium.Webhook, error) {
	w, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.Webhook, error) {
		tx.Invalidate()
		w, err := lockWebhook(tx, id)
		if err != nil {
			return w, err
		}
		if err := check(w); err != nil {
			return w, err
		}
		return w, f(tx, &w)
	})
	return w, err
}

// UpdateWebhook changes the settings of a webhook to the result of spec. headers replaces its custom headers: nil leaves them as they
// are, and an empty list deletes them. It first calls check with the current webhook; an error of check ends the call. If
// nothing is different, nothing changes. It returns NotFound if the tenant has no such webhook.
//
// Deliveries that are not finished stay as they are. The node that delivers for the webhook follows the change within
// a second.
func (s *Store) UpdateWebhook(ctx context.Context, c atrium.Change, id atrium.WebhookID, spec func(atrium.Webhook) atrium.WebhookSpec, headers []atrium.WebhookSecret,
	check func(atrium.Webhook) error,
) (atrium.Webhook, error) {
	return s.change(ctx, c, id, check, func(tx *kernel.Mutation, w *atrium.Webhook) error {
		before := *w
		w.WebhookSpec = spec(before)
		if reflect.DeepEqual(w.WebhookSpec, before.WebhookSpec) && headers == nil {
			return nil
		}
		if w.AccountID != before.AccountID {
			if err := requireAccount(tx, w.AccountID); err != nil {
				return err
			}
		}
		w.UpdatedAt = *tx.NotBefore(w.UpdatedAt + millisecond)
		was, is := webhookFields(&before), webhookFields(w)
		if headers != nil {
			is["headersReplaced"] = true
			if err := s.replaceHeaders(tx, id, headers); err != nil {
				return err
			}
		}
		tx.Record("webhook.update", string(id), was, is)
		lists, err := selections(w)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE webhooks SET description = $1, url = $2, event_types = $3, sources = $4, entry_types = $5, account_id = $6, filter = $7,
			format = $8, ordered = $9, rate_limit = $10, updated_at = $11 WHERE tenant_id = $12 AND webhook_id = $13`,
			w.Description, w.URL, lists[0], lists[1], lists[2], kernel.IDArg(w.AccountID), w.Filter, string(w.Format), kernel.BoolInt(w.Ordered), w.RateLimit,
			int64(w.UpdatedAt), kernel.IDArg(c.TenantID), kernel.IDArg(id))
		return err
	})
}

// millisecond is the smallest difference of two times.
const millisecond = 1000

// EnableWebhook enables or disables a webhook. Once enabled, it continues with the first event after its position. It first calls check with the current webhook; an error of check ends the call. It returns NotFound if the
// tenant has no such webhook.
func (s *Store) EnableWebhook(ctx context.Context, c atrium.Change, id atrium.WebhookID, enabled bool, check func(atrium.Webhook) error) (atrium.Webhook, error) {
	return s.change(ctx, c, id, check, func(tx *kernel.Mutation, w *atrium.Webhook) error {
		switch {
		case w.Enabled == enabled:
			return nil
		case enabled:
			before := webhookFields(w)
			w.Enabled, w.DisabledReason, w.DisabledAt, w.FailingSince = true, "", nil, nil
			w.UpdatedAt = *tx.NotBefore(w.UpdatedAt + millisecond)
			tx.Record("webhook.enable", string(id), before, webhookFields(w))
			if _, err := tx.Exec(`UPDATE webhooks SET disabled_reason = NULL, disabled_at = NULL, failing_since = NULL, idle = $1, updated_at = $2
				WHERE tenant_id = $3 AND webhook_id = $4`, int64(notIdle), int64(w.UpdatedAt), kernel.IDArg(c.TenantID), kernel.IDArg(id)); err != nil {
				return err
			}
			return setDue(tx, c.TenantID, id, tx.At)
		}
		return disable(tx, w, atrium.DisabledByOperator, "webhook.disable", nil)
	})
}

// disable disables a webhook, which is locked, with an audit record.
func disable(tx *kernel.Mutation, w *atrium.Webhook, reason atrium.DisabledReason, action string, more kernel.Fields) error {
	before := webhookFields(w)
	w.Enabled, w.DisabledReason, w.DisabledAt = false, reason, &tx.At
	w.UpdatedAt = *tx.NotBefore(w.UpdatedAt + millisecond)
	after := webhookFields(w)
	for name, value := range more {
		after[name] = value
	}
	tx.Record(action, string(w.ID), before, after)
	if _, err := tx.Exec("UPDATE webhooks SET disabled_reason = $1, disabled_at = $2, idle = $3, updated_at = $4 WHERE tenant_id = $5 AND webhook_id = $6",
		string(reason), int64(*w.DisabledAt), int64(disabled), int64(w.UpdatedAt), kernel.IDArg(w.TenantID), kernel.IDArg(w.ID)); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM webhook_due WHERE tenant_id = $1 AND webhook_id = $2", kernel.IDArg(w.TenantID), kernel.IDArg(w.ID))
	return err
}

// TestWebhook causes an event that only this webhook receives, even if its filters do not select it. It returns NotFound if the tenant has
// no such webhook, and Conflict if it is disabled.
func (s *Store) TestWebhook(ctx context.Context, c atrium.Change, id atrium.WebhookID) error {
	_, err := s.change(ctx, c, id, func(atrium.Webhook) error { return nil }, func(tx *kernel.Mutation, w *atrium.Webhook) error {
		if !w.Enabled {
			return atrium.Errorf(atrium.CodeConflict, "The webhook is disabled: enable it first.")
		}
		tx.RecordDetail(atrium.ActionWebhookTest, string(id), map[string]any{})
		return s.hasten(tx, id)
	})
	return err
}

// DeleteWebhook deletes a webhook with its secrets and replays. A job deletes its deliveries later. It first calls check
// with the webhook; an error of check ends the call. It returns NotFound if the tenant has no such webhook.
func (s *Store) DeleteWebhook(ctx context.Context, c atrium.Change, id atrium.WebhookID, check func(atrium.Webhook) error) error {
	_, err := s.change(ctx, c, id, check, func(tx *kernel.Mutation, w *atrium.Webhook) error {
		tx.Record("webhook.delete", string(id), webhookFields(w), nil)
		for _, table := range []string{"webhook_due", "webhook_secrets", "webhook_replays", "webhooks"} {
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE tenant_id = $1 AND webhook_id = $2", kernel.IDArg(c.TenantID), kernel.IDArg(id)); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
