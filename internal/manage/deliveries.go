package manage

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/delivery"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type deliveryView struct {
	EventID      atrium.EventID       `json:"eventId"`
	Position     int64                `json:"position"`
	Type         atrium.EventType     `json:"type"`
	Subject      string               `json:"subject,omitzero"`
	AccountLogID atrium.EntryID       `json:"accountLogId,omitzero"`
	State        atrium.DeliveryState `json:"state"`
	Attempts     int64                `json:"attempts"`
	NextAt       *atrium.Time         `json:"nextAt,omitzero"`
	CreatedAt    atrium.Time          `json:"createdAt"`
	FinishedAt   *atrium.Time         `json:"finishedAt,omitzero"`
	Status       int                  `json:"status,omitzero"`
	Error        string               `json:"error,omitzero"`
	LatencyMs    int64                `json:"latencyMs"`
}

func newDelivery(d atrium.Delivery) deliveryView {
	return deliveryView{
		d.EventID, d.Position, d.Type, d.Subject, d.EntryID, d.State, d.Attempts, d.NextAt, d.CreatedAt, d.FinishedAt, d.Status, d.Error, d.Latency.Milliseconds(),
	}
}

type deliveryAttempt struct {
	Number     int64       `json:"number"`
	At         atrium.Time `json:"at"`
	DurationMs int64       `json:"durationMs"`
	Status     int         `json:"status,omitzero"`
	Error      string      `json:"error,omitzero"`
	Response   string      `json:"response,omitzero"`
}

type deliveryDetail struct {
	deliveryView
	Requests []deliveryAttempt `json:"requests"`
}

func (a *API) listDeliveries(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	var f atrium.DeliveryFilter
	f.State = atrium.DeliveryState(textParameter(q, "state", func(text string) string {
		if !slices.Contains(atrium.DeliveryStates(), atrium.DeliveryState(text)) {
			return "must be one of pending, waiting, succeeded, failed, canceled"
		}
		return ""
	}))
	f.EventID = atrium.EventID(textParameter(q, "eventId", checkID[atrium.EventID]))
	f.EntryID = atrium.EntryID(textParameter(q, "accountLogId", checkID[atrium.EntryID]))
	f.Since, f.Until = q.Time("since"), q.Time("until")
	binding := []string{
		string(who.TenantID), "deliveries", r.PathValue("webhook_id"), string(f.State), string(f.EventID), string(f.EntryID), textOf(f.Since), textOf(f.Until),
	}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	id, err := a.findWebhook(ctx, who, r)
	if err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.Deliveries(ctx, who.TenantID, id, f, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponseTo(a.Cursors, found, next, limit, newDelivery, binding), nil
}

// findWebhook returns the identifier of the webhook of the path, or NotFound.
func (a *API) findWebhook(ctx context.Context, who auth.Principal, r *rest.Request) (atrium.WebhookID, error) {
	id, err := rest.PathID[atrium.WebhookID](r, "webhook_id")
	if err == nil {
		_, err = a.Store.Webhook(ctx, who.TenantID, id)
	}
	return id, err
}

// deliveryIDs returns the webhook and the event of the path.
func deliveryIDs(r *rest.Request) (id atrium.WebhookID, event atrium.EventID, err error) {
	if id, err = rest.PathID[atrium.WebhookID](r, "webhook_id"); err == nil {
		event, err = rest.PathID[atrium.EventID](r, "event_id")
	}
	return id, event, err
}

func (a *API) getDelivery(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, event, err := deliveryIDs(r)
	if err != nil {
		return rest.Response{}, err
	}
	d, attempts, err := a.Store.Delivery(ctx, who.TenantID, id, event)
	if err != nil {
		return rest.Response{}, err
	}
	detail := deliveryDetail{newDelivery(d), make([]deliveryAttempt, len(attempts))}
	for i, t := range attempts {
		detail.Requests[i] = deliveryAttempt{
			t.Number, t.At, t.Duration.Milliseconds(), t.Status, t.Error, strings.ToValidUTF8(string(t.Response), "\uFFFD"),
		}
	}
	return rest.Response{Body: detail}, nil
}

func (a *API) redeliverEvent(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	id, event, err := deliveryIDs(r)
	if err != nil {
		return rest.Response{}, err
	}
	d, err := a.Store.Redeliver(ctx, c, id, event)
	return rest.Response{Body: newDelivery(d)}, err
}

type replayView struct {
	ReplayID   atrium.ReplayID  `json:"replayId"`
	WebhookID  atrium.WebhookID `json:"webhookId"`
	From       int64            `json:"from"`
	To         int64            `json:"to"`
	FailedOnly bool             `json:"failedOnly"`
	Rate       int64            `json:"rate"`
	Scheduled  int64            `json:"scheduled"`
	ExaminedTo int64            `json:"examinedTo"`
	CreatedAt  atrium.Time      `json:"createdAt"`
	FinishedAt *atrium.Time     `json:"finishedAt,omitzero"`
}

func newReplay(p atrium.Replay) replayView {
	return replayView{p.ID, p.WebhookID, p.From, p.To, p.FailedOnly, p.Rate, p.Scheduled, p.Cursor, p.CreatedAt, p.FinishedAt}
}

func (a *API) listReplays(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "replays", r.PathValue("webhook_id")}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	id, err := a.findWebhook(ctx, who, r)
	if err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Replays(ctx, who.TenantID, id, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newReplay, func(p atrium.Replay) *atrium.Position { return atrium.PositionAt(0, p.ID) }, binding), nil
}

// A replayRange is what a request wants to replay.
type replayRange struct {
	from, to     int64 // 0 for none
	since, until *atrium.Time
	failedOnly   bool
	rate         int64
	check        bool
}

func decodeReplay(o *strictjson.Object) (p replayRange) {
	p.from, p.to = o.Integer("from", 1, maxLineNumber), o.Integer("to", 1, maxLineNumber)
	p.since, p.until = optionalTime(o, "since"), optionalTime(o, "until")
	if o.Has("from") && o.Has("since") {
		o.Fault("since", "must not be given with from")
	}
	if o.Has("to") && o.Has("until") {
		o.Fault("until", "must not be given with to")
	}
	if p.from > 0 && p.to > 0 && p.from > p.to {
		o.Fault("to", "must not be lower than from")
	}
	p.failedOnly, p.check, p.rate = o.Bool("failedOnly"), o.Bool("check"), atrium.DefaultReplayRate
	if o.Has("rate") {
		p.rate = o.Integer("rate", 1, atrium.MaxReplayRate)
	}
	return p
}

func (a *API) createReplay(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var p replayRange
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) { p = decodeReplay(o) })
	if err != nil {
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
	replay := atrium.Replay{ID: atrium.NewID[atrium.ReplayID](), WebhookID: id, From: p.from, To: p.to, Rate: p.rate, FailedOnly: p.failedOnly}
	if err := a.locateReplay(ctx, who.TenantID, p, &replay); err != nil {
		return rest.Response{}, err
	}
	if p.check {
		return a.checkReplay(ctx, r, w, replay)
	}
	replay, replayed, err := a.Store.CreateReplay(ctx, c, replay)
	if replayed || err != nil {
		return rest.Created(newReplay(replay), replayed), err
	}
	return rest.Response{Status: http.StatusCreated, Body: newReplay(replay), Tagged: true}, nil
}

// locateReplay sets the positions of a replay whose range is given by times, or by nothing.
func (a *API) locateReplay(ctx context.Context, tenant atrium.TenantID, p replayRange, replay *atrium.Replay) (err error) {
	feed, err := a.Store.EventSettings(ctx, tenant)
	if err != nil {
		return err
	}
	if replay.From == 0 {
		replay.From = feed.Oldest
	}
	if p.since != nil {
		if replay.From, err = a.Store.FirstEventSince(ctx, tenant, *p.since); err != nil {
			return err
		}
	}
	if p.until != nil {
		next, err := a.Store.FirstEventSince(ctx, tenant, *p.until)
		if err != nil {
			return err
		}
		replay.To = max(next-1, 1)
	}
	if replay.From < feed.Oldest {
		return expiredEvents(&atrium.ExpiredEventsError{After: replay.From - 1, Oldest: feed.Oldest})
	}
	return nil
}

func (a *API) getReplay(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, replay, err := replayIDs(r)
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.Replay(ctx, who.TenantID, id, replay)
	return rest.Response{Body: newReplay(p)}, err
}

// replayIDs returns the webhook and the replay of the path.
func replayIDs(r *rest.Request) (id atrium.WebhookID, replay atrium.ReplayID, err error) {
	if id, err = rest.PathID[atrium.WebhookID](r, "webhook_id"); err == nil {
		replay, err = rest.PathID[atrium.ReplayID](r, "replay_id")
	}
	return id, replay, err
}

func (a *API) cancelReplay(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	id, replay, err := replayIDs(r)
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.CancelReplay(ctx, c, id, replay)
	return rest.Response{Body: newReplay(p)}, err
}

type replayCheck struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Events  int   `json:"events"`
	HasMore bool  `json:"hasMore"`
}

// maxCheckedEvents is the number of events of a range that a check examines.
const maxCheckedEvents = 10_000

// maxCheckTime is how long a check takes, with what it waits for.
const maxCheckTime = 5 * time.Second

// checkSlice is how long a check occupies a processor before others of its tenant, and other tenants, may.
const checkSlice = 50 * time.Millisecond

// checkReplay counts the events of a range that a replay would deliver, without delivering any.
func (a *API) checkReplay(ctx context.Context, r *rest.Request, w atrium.Webhook, p atrium.Replay) (rest.Response, error) {
	if p.To == 0 || p.To > w.Cursor {
		p.To = w.Cursor
	}
	if p.From > p.To {
		return rest.Response{Body: replayCheck{From: p.From, To: p.To}}, nil
	}
	count := a.countSelected
	if p.FailedOnly {
		count = a.countFailed
	}
	found, more, err := count(ctx, r, w, p)
	return rest.Response{Body: replayCheck{p.From, p.To, found, more}}, err
}

// countSelected counts the events of a range that a webhook selects.
func (a *API) countSelected(ctx context.Context, r *rest.Request, w atrium.Webhook, p atrium.Replay) (n int, more bool, err error) {
	ends, page := time.Now().Add(maxCheckTime), int64(atrium.MaxEventPage)
	for at, examined := p.From-1, 0; at < p.To; {
		if examined >= maxCheckedEvents || time.Now().After(ends) { // the filter is costly
			return n, true, nil
		}
		count := 0
		err := r.Heavily(ctx, func() error {
			began := time.Now()
			selection := delivery.NewSelection(&w) // each time: checks that wait would each keep a compiled filter
			events, err := a.Store.Events(ctx, w.TenantID, at, int(min(p.To-at, page)))
			if err != nil {
				return expiredEvents(err)
			}
			for i := range events {
				if events[i].Position > p.To { // after positions that no event has
					at = p.To
					break
				}
				if i > 0 && time.Since(began) > checkSlice {
					break
				}
				body, err := eventBody(&events[i])
				if err != nil {
					return err
				}
				if selected, _ := selection.Selects(&events[i], body); selected {
					n++
				}
				count, at = count+1, events[i].Position
			}
			if page = min(2*page, atrium.MaxEventPage); count < len(events) {
				page = int64(count)
			}
			return nil
		})
		if err != nil || count == 0 {
			return n, false, err
		}
		examined += count
	}
	return n, false, nil
}

// countFailed counts the deliveries of a range whose last attempt has failed.
func (a *API) countFailed(ctx context.Context, r *rest.Request, w atrium.Webhook, p atrium.Replay) (n int, more bool, err error) {
	examined := 0
	for _, state := range []atrium.DeliveryState{atrium.DeliveryFailed, atrium.DeliveryPending} {
		after := &atrium.Position{Key: p.To + 1}
		for after != nil {
			if examined >= maxCheckedEvents {
				return n, true, nil
			}
			var found []atrium.Delivery
			if err := r.Heavily(ctx, func() (err error) {
				found, after, err = a.Store.Deliveries(ctx, w.TenantID, w.ID, atrium.DeliveryFilter{State: state}, after, atrium.MaxEventPage)
				return err
			}); err != nil {
				return n, false, err
			}
			for _, d := range found {
				if d.Position < p.From {
					after = nil
					break
				}
				if d.Attempts > d.Earlier {
					n++
				}
			}
			examined += len(found)
		}
	}
	return n, false, nil
}
