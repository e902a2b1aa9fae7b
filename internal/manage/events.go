package manage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

func (a *API) eventRoutes() []rest.Route {
	feed := reads(ofEvents(http.MethodGet, "/events", a.listEvents), atrium.ReadList, "")
	feed.Wait, feed.Heavy = maxEventWait, false // it is heavy while it does not wait
	return []rest.Route{
		feed,
		ofEvents(http.MethodGet, "/event_settings", a.getEventSettings),
		ofEvents(http.MethodPatch, "/event_settings", a.updateEventSettings),
	}
}

// maxEventWait is the maximum time that a request waits for an event.
const maxEventWait = 30 * time.Second

// eventPoll is how often a request that waits looks for events of other nodes.
const eventPoll = time.Second

// An erasedEvent is an event without its data.
type erasedEvent struct {
	ID        atrium.EventID   `json:"id"`
	Type      atrium.EventType `json:"type"`
	Timestamp atrium.Time      `json:"timestamp"`
	TenantID  atrium.TenantID  `json:"tenantId"`
	Position  int64            `json:"position"`
	Erased    bool             `json:"erased"`
}

// eventBody returns the JSON of an event, which may be erased.
func eventBody(e *atrium.Event) (jsontext.Value, error) {
	if e.Erased {
		body, err := rest.Encode(erasedEvent{e.ID, e.Type, e.At, e.TenantID, e.Position, true})
		return jsontext.Value(body), err
	}
	return resource.Event(e)
}

// An eventPage is a part of the feed of a tenant.
type eventPage struct {
	Items         []jsontext.Value `json:"items"`
	HasMore       bool             `json:"hasMore"`
	ContinueAfter int64            `json:"continueAfter"`
	Limit         int              `json:"limit"`
	Disabled      bool             `json:"disabled,omitzero"`
}

// An eventQuery is what a reader of the feed asks for.
type eventQuery struct {
	after int64 // -1 for the oldest event that is stored
	since *atrium.Time
	types []atrium.EventType // none for all
	limit int
	wait  time.Duration
}

func decodeEventQuery(q *rest.Query) eventQuery {
	e := eventQuery{after: -1, limit: q.Limit(), since: q.Time("since")}
	if text, ok := q.Text("after"); ok {
		var fault string
		if e.after, fault = positionParameter(text, 0); fault != "" {
			q.Fault("after", fault)
		}
		if e.since != nil {
			q.Fault("since", "must not be given with after")
		}
	}
	if text, ok := q.Text("types"); ok {
		var fault string
		if e.types, fault = eventTypesParameter(text); fault != "" {
			q.Fault("types", fault)
		}
	}
	if text, ok := q.Text("waitSeconds"); ok {
		n, valid := strictjson.Digits(text, int64(maxEventWait/time.Second))
		if !valid {
			q.Fault("waitSeconds", "must be a whole number from 0 to 30, in digits")
		}
		e.wait = time.Duration(n) * time.Second
	}
	return e
}

func (a *API) listEvents(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	e := decodeEventQuery(q)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	var err error
	switch {
	case e.since != nil:
		if err := r.Heavily(ctx, func() error { // a search over all events
			e.after, err = a.Store.FirstEventSince(ctx, who.TenantID, *e.since)
			return err
		}); err != nil {
			return rest.Response{}, err
		}
		e.after--
	case e.after < 0:
		feed, err := a.Store.EventSettings(ctx, who.TenantID)
		if err != nil {
			return rest.Response{}, err
		}
		e.after = feed.Oldest - 1
	}
	page, body, err := a.readEvents(ctx, who, r, e)
	if err == nil && body == nil && e.wait > 0 {
		e.after = page.ContinueAfter
		page, body, err = a.waitForEvents(ctx, who, r, e)
	}
	switch {
	case err != nil:
		return rest.Response{}, err
	case body != nil:
		return rest.Response{Body: body}, nil
	case !page.HasMore:
		feed, err := a.Store.EventSettings(ctx, who.TenantID)
		if err != nil {
			return rest.Response{}, err
		}
		page.Disabled = !feed.Enabled
	}
	return rest.Response{Body: page}, nil
}

// readEvents returns the next events of a query, and the body of the response; no events and no body if all that were
// examined have other types. Both are one piece of heavy work, so that few pages at a time are in memory before they are encoded.
func (a *API) readEvents(ctx context.Context, who auth.Principal, r *rest.Request, e eventQuery) (page eventPage, body rest.Encoded, err error) {
	err = r.Heavily(ctx, func() error {
		if page, err = a.nextEvents(ctx, who, e); err == nil && len(page.Items) > 0 {
			body, err = rest.Encode(page)
		}
		return err
	})
	return page, body, err
}

func (a *API) nextEvents(ctx context.Context, who auth.Principal, e eventQuery) (page eventPage, err error) {
	page = eventPage{Items: []jsontext.Value{}, ContinueAfter: e.after, Limit: e.limit}
	count := e.limit
	if len(e.types) > 0 {
		count = atrium.MaxEventPage
	}
	events, err := a.Store.Events(ctx, who.TenantID, e.after, count)
	if err != nil {
		return page, expiredEvents(err)
	}
	page.HasMore = len(events) > 0
	for i := range events {
		if len(page.Items) == e.limit {
			return page, nil
		}
		page.ContinueAfter = events[i].Position
		if len(e.types) > 0 && !slices.Contains(e.types, events[i].Type) {
			continue
		}
		body, err := eventBody(&events[i])
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, body)
	}
	if page.HasMore {
		feed, err := a.Store.EventSettings(ctx, who.TenantID)
		if err != nil {
			return page, err
		}
		page.HasMore = page.ContinueAfter < feed.Last
	}
	return page, nil
}

// waitForEvents waits for an event of a query, and returns an empty page if none is stored in time.
func (a *API) waitForEvents(ctx context.Context, who auth.Principal, r *rest.Request, e eventQuery) (page eventPage, body rest.Encoded, err error) {
	if err := a.Waits.Acquire(ctx, who.TenantID); err != nil {
		return page, nil, atrium.Unavailable(err)
	}
	defer a.Waits.Release(who.TenantID)
	ctx, cancel := r.UntilClosed(ctx)
	defer cancel()
	deadline := time.NewTimer(e.wait)
	defer deadline.Stop()
	for {
		changed := a.Store.EventsChanged(who.TenantID)
		if page, body, err = a.readEvents(ctx, who, r, e); err != nil || body != nil {
			return page, body, err
		}
		if e.after = page.ContinueAfter; page.HasMore {
			changed = alreadyChanged
		}
		if err := a.waitForChange(ctx, r, changed, deadline); err != nil {
			return page, nil, nil
		}
	}
}

// alreadyChanged is closed.
var alreadyChanged = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

var errNoEvent = errors.New("no event in time")

// waitForChange waits until there may be an event. It returns an error if the request must end: its time is over, its
// key no longer works, the client has gone, or the server stops.
func (a *API) waitForChange(ctx context.Context, r *rest.Request, changed <-chan struct{}, deadline *time.Timer) error {
	poll := time.NewTimer(eventPoll)
	defer poll.Stop()
	select {
	case <-deadline.C: // first: there may always be more events of other types
		return errNoEvent
	default:
	}
	select {
	case <-changed:
	case <-poll.C:
	case <-deadline.C:
		return errNoEvent
	case <-r.Stopping():
		return rest.ErrStopping
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.Recheck(ctx)
}

// expiredEvents returns the public error for an atrium.ExpiredEventsError, and any other one as it is.
func expiredEvents(err error) error {
	expired, ok := errors.AsType[*atrium.ExpiredEventsError](err)
	if !ok {
		return err
	}
	why := fmt.Sprintf("The events before position %d have expired.", expired.Oldest)
	if expired.Lost {
		why = fmt.Sprintf("The feed has no event at position %d. If the database was restored from a backup, later events were lost.", expired.After)
	}
	return atrium.Errorf(atrium.CodeGone, "%s Continue after %d.", why, expired.Oldest-1).Because(err)
}

type eventSettings struct {
	TenantID  atrium.TenantID `json:"tenantId"`
	Enabled   bool            `json:"enabled"`
	EnabledAt *atrium.Time    `json:"enabledAt,omitzero"`
}

func newEventSettings(s atrium.EventSettings) eventSettings {
	return eventSettings{s.TenantID, s.Enabled, s.EnabledAt}
}

func (a *API) getEventSettings(ctx context.Context, who auth.Principal, _ *rest.Request) (rest.Response, error) {
	s, err := a.Store.EventSettings(ctx, who.TenantID)
	return rest.Response{Body: newEventSettings(s)}, err
}

func (a *API) updateEventSettings(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var enabled bool
	c, err := r.DecodeChange(who, func(o *strictjson.Object) {
		if enabled = o.Bool("enabled"); !o.Has("enabled") {
			o.Fault("enabled", "is required")
		}
	})
	if err != nil {
		return rest.Response{}, err
	}
	s, err := a.Store.SetEventSettings(ctx, c, enabled, func(s atrium.EventSettings) error { return r.RequireState(newEventSettings(s)) })
	return rest.Response{Body: newEventSettings(s), Tagged: true}, err
}

// maxEventTypes is the maximum number of types in a parameter.
const maxEventTypes = 50

// eventTypesParameter decodes a parameter with types of events, separated by commas.
func eventTypesParameter(text string) (types []atrium.EventType, fault string) {
	for part := range strings.SplitSeq(text, ",") {
		t := atrium.EventType(part)
		if !slices.Contains(atrium.EventTypes(), t) {
			return nil, "must be types of events, separated by commas"
		}
		if len(types) == maxEventTypes {
			return nil, fmt.Sprintf("must have at most %d types", maxEventTypes)
		}
		types = append(types, t)
	}
	return types, ""
}

// positionParameter decodes a position, from least on. It returns least and false if it is absent.
func positionParameter(text string, least int64) (n int64, fault string) {
	n, ok := strictjson.Digits(text, maxLineNumber)
	if !ok || n < least {
		return least, "must be a whole number from " + strconv.FormatInt(least, 10) + ", in digits"
	}
	return n, ""
}
