package manage

import (
	"context"
	"net/http"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
	"atrium/internal/webhook"
)

type webhookView struct {
	WebhookID      atrium.WebhookID      `json:"webhookId"`
	TenantID       atrium.TenantID       `json:"tenantId"`
	Description    string                `json:"description"`
	URL            string                `json:"url"`
	EventTypes     []atrium.EventType    `json:"eventTypes"`
	Sources        []string              `json:"sources"`
	EntryTypes     []string              `json:"entryTypes"`
	AccountID      atrium.AccountID      `json:"accountId,omitzero"`
	Filter         string                `json:"filter,omitzero"`
	Format         atrium.WebhookFormat  `json:"format"`
	Ordered        bool                  `json:"ordered"`
	RateLimit      int64                 `json:"rateLimit"`
	Enabled        bool                  `json:"enabled"`
	DisabledReason atrium.DisabledReason `json:"disabledReason,omitzero"`
	DisabledAt     *atrium.Time          `json:"disabledAt,omitzero"`
	CreatedAt      atrium.Time           `json:"createdAt"`
	UpdatedAt      atrium.Time           `json:"updatedAt"`
	Secret         string                `json:"secret,omitzero"` // only in the response that creates it
}

// newWebhook returns what stays the same while a webhook only delivers, so that its entity tag does.
func newWebhook(w atrium.Webhook) webhookView {
	return webhookView{
		w.ID, w.TenantID, w.Description, w.URL, w.EventTypes, w.Sources, w.EntryTypes, w.AccountID, w.Filter, w.Format, w.Ordered, w.RateLimit,
		w.Enabled, w.DisabledReason, w.DisabledAt, w.CreatedAt, w.UpdatedAt, "",
	}
}

// webhookProgress is what changes while a webhook delivers.
type webhookProgress struct {
	Position     int64        `json:"position"`
	Behind       int64        `json:"behind"`
	FailingSince *atrium.Time `json:"failingSince,omitzero"`
	Lost         int64        `json:"lost"`
	FilterFaults int64        `json:"filterFaults"`
}

// newProgress returns the progress of a webhook in a feed.
func newProgress(w atrium.Webhook, feed atrium.EventFeed) webhookProgress {
	return webhookProgress{w.Cursor, feed.Behind(w.Cursor), w.FailingSince, w.Lost, w.FilterFaults}
}

type listedWebhook struct {
	webhookView
	Progress webhookProgress `json:"progress"`
}

func (a *API) webhookRoutes() []rest.Route {
	const (
		webhooks   = "/webhooks"
		one        = webhooks + "/{webhook_id}"
		deliveries = one + "/deliveries"
		delivery   = deliveries + "/{event_id}"
		replays    = one + "/replays"
		replay     = replays + "/{replay_id}"
	)
	create, update := ofEvents(http.MethodPost, webhooks, a.createWebhook), ofEvents(http.MethodPatch, one, a.updateWebhook)
	create.Heavy, update.Heavy = true, true // they compile the filter
	return []rest.Route{
		ofEvents(http.MethodGet, webhooks, a.listWebhooks),
		create,
		ofEvents(http.MethodGet, one, a.getWebhook),
		update,
		ofEvents(http.MethodDelete, one, a.deleteWebhook),
		ofEvents(http.MethodPost, one+"/rotate_secret", a.rotateWebhookSecret),
		ofEvents(http.MethodPost, one+"/enable", a.enableWebhook(true)),
		ofEvents(http.MethodPost, one+"/disable", a.enableWebhook(false)),
		ofEvents(http.MethodPost, one+"/test", a.testWebhook),
		ofEvents(http.MethodGet, one+"/stats", a.getWebhookStats),
		ofEvents(http.MethodGet, deliveries, a.listDeliveries),
		ofEvents(http.MethodGet, delivery, a.getDelivery),
		ofEvents(http.MethodPost, delivery+"/redeliver", a.redeliverEvent),
		ofEvents(http.MethodGet, replays, a.listReplays),
		ofEvents(http.MethodPost, replays, a.createReplay),
		ofEvents(http.MethodGet, replay, a.getReplay),
		ofEvents(http.MethodPost, replay+"/cancel", a.cancelReplay),
	}
}

func (a *API) listWebhooks(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "webhooks"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Webhooks(ctx, who.TenantID, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	feed, err := a.Store.EventFeed(ctx, who.TenantID)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, func(w atrium.Webhook) listedWebhook {
		return listedWebhook{newWebhook(w), newProgress(w, feed)}
	}, func(w atrium.Webhook) *atrium.Position { return atrium.PositionAt(0, w.ID) }, binding), nil
}

func (a *API) createWebhook(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	w := atrium.Webhook{ID: atrium.NewID[atrium.WebhookID]()}
	var headers []atrium.WebhookSecret
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		var change func(*atrium.WebhookSpec)
		change, headers = a.decodeWebhook(o, strictjson.Required)
		w.Format = atrium.FormatStandard
		change(&w.WebhookSpec)
	})
	if err != nil {
		return rest.Response{}, err
	}
	secret := newWebhookSecret()
	w, replayed, err := a.Store.CreateWebhook(ctx, c, w, append(headers, secret))
	view := newWebhook(w)
	if !replayed {
		view.Secret = webhook.FormatSecret(secret.Value)
	}
	return rest.Created(view, replayed), err
}

func newWebhookSecret() atrium.WebhookSecret {
	return atrium.WebhookSecret{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretSigning, Value: webhook.NewSecret()}
}

func (a *API) getWebhook(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.WebhookID](r, "webhook_id")
	if err != nil {
		return rest.Response{}, err
	}
	w, err := a.Store.Webhook(ctx, who.TenantID, id)
	return rest.Response{Body: newWebhook(w)}, err
}

func (a *API) updateWebhook(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var change func(*atrium.WebhookSpec)
	var headers []atrium.WebhookSecret
	c, id, err := rest.DecodeChangeOf[atrium.WebhookID](r, who, "webhook_id", func(o *strictjson.Object) {
		change, headers = a.decodeWebhook(o, strictjson.Optional)
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	w, err := a.Store.UpdateWebhook(ctx, c, id, func(w atrium.Webhook) atrium.WebhookSpec {
		change(&w.WebhookSpec)
		return w.WebhookSpec
	}, headers, func(w atrium.Webhook) error { return r.RequireState(newWebhook(w)) })
	return rest.Response{Body: newWebhook(w), Tagged: true}, err
}

func (a *API) deleteWebhook(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.WebhookID](r, who, "webhook_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.DeleteWebhook(ctx, c, id, checkWebhook(r))
}

// checkWebhook returns a check that compares a webhook with the If-Match header of a request, if it has one.
func checkWebhook(r *rest.Request) func(atrium.Webhook) error {
	return func(w atrium.Webhook) error { return r.CheckState(newWebhook(w)) }
}

func (a *API) rotateWebhookSecret(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var grace time.Duration
	c, id, err := rest.DecodeChangeOf[atrium.WebhookID](r, who, "webhook_id", func(o *strictjson.Object) { grace = decodeGrace(o) })
	if err != nil {
		return rest.Response{}, err
	}
	secret := newWebhookSecret()
	w, err := a.Store.RotateWebhookSecret(ctx, c, id, secret, grace, checkWebhook(r))
	view := newWebhook(w)
	view.Secret = webhook.FormatSecret(secret.Value)
	return rest.Response{Body: view, Tagged: true}, err
}

func (a *API) enableWebhook(enabled bool) rest.Handler {
	return func(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
		c, id, err := rest.DecodeChangeOf[atrium.WebhookID](r, who, "webhook_id", nil)
		if err != nil {
			return rest.Response{}, err
		}
		w, err := a.Store.EnableWebhook(ctx, c, id, enabled, checkWebhook(r))
		return rest.Response{Body: newWebhook(w), Tagged: true}, err
	}
}

func (a *API) testWebhook(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.WebhookID](r, who, "webhook_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.TestWebhook(ctx, c, id)
}

type webhookHour struct {
	StartsAt         atrium.Time `json:"startsAt"`
	Attempts         int64       `json:"attempts"`
	Succeeded        int64       `json:"succeeded"`
	AverageLatencyMs int64       `json:"averageLatencyMs"`
	MaxLatencyMs     int64       `json:"maxLatencyMs"`
}

type webhookStats struct {
	Progress webhookProgress `json:"progress"`
	Hours    []webhookHour   `json:"hours"`
}

// The hours of statistics.
const (
	defaultStatsHours = 24
	maxStatsHours     = 31 * 24
)

func (a *API) getWebhookStats(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	hours := int64(defaultStatsHours)
	if text, ok := q.Text("hours"); ok {
		n, valid := strictjson.Digits(text, maxStatsHours)
		if !valid || n < 1 {
			q.Fault("hours", "must be a whole number from 1 to 744, in digits")
		}
		hours = n
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.WebhookID](r, "webhook_id")
	if err != nil {
		return rest.Response{}, err
	}
	w, err := a.Store.Webhook(ctx, who.TenantID, id)
	if err != nil {
		return rest.Response{}, err
	}
	feed, err := a.Store.EventFeed(ctx, who.TenantID)
	if err != nil {
		return rest.Response{}, err
	}
	since := atrium.At(a.Store.Now().Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour))
	found, err := a.Store.WebhookHours(ctx, who.TenantID, id, since)
	if err != nil {
		return rest.Response{}, err
	}
	stats := webhookStats{newProgress(w, feed), make([]webhookHour, len(found))}
	for i, h := range found {
		stats.Hours[i] = webhookHour{
			h.StartsAt, h.Attempts, h.Succeeded, (h.Latency / time.Duration(max(1, h.Attempts))).Milliseconds(), h.MaxLatency.Milliseconds(),
		}
	}
	return rest.Response{Body: stats}, nil
}
