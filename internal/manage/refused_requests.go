package manage

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type refusedRequest struct {
	At        atrium.Time   `json:"at"`
	Count     int64         `json:"count"`
	RequestID string        `json:"requestId"`
	Method    string        `json:"method"`
	Route     string        `json:"route"`
	Status    int           `json:"status"`
	Code      atrium.Code   `json:"code"`
	Detail    string        `json:"detail"`
	Errors    []rest.Fault  `json:"errors,omitempty"`
	KeyID     atrium.KeyID  `json:"keyId,omitzero"`
	UserID    atrium.UserID `json:"userId,omitzero"`
	ActorName string        `json:"actorName,omitzero"`
	UserAgent string        `json:"userAgent,omitzero"`
}

type refusedCounts struct {
	Since atrium.Time    `json:"since"`
	Count int64          `json:"count"`
	Codes []refusedCount `json:"codes"`
}

type refusedCount struct {
	Code   atrium.Code `json:"code"`
	Status int         `json:"status"`
	Title  string      `json:"title"`
	Count  int64       `json:"count"`
}

func (a *API) listRefusedRequests(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	f := atrium.RefusedRequestFilter{
		Status: statusParameter(q), Code: atrium.Code(textParameter(q, "code", anyText)), Route: textParameter(q, "route", anyText),
		KeyID:     atrium.KeyID(textParameter(q, "keyId", checkID[atrium.KeyID])),
		RequestID: textParameter(q, "requestId", anyText), SentBy: senderParameter(q), Since: q.Time("since"), Until: q.Time("until"),
	}
	binding := []string{
		string(who.TenantID), "refused requests", strconv.FormatInt(f.Status, 10), string(f.Code), f.Route, string(f.KeyID), f.RequestID,
		string(f.SentBy), textOf(f.Since), textOf(f.Until),
	}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.RefusedRequests(ctx, who.TenantID, f, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	actors := make([]string, len(found))
	for i := range found {
		actors[i] = cmp.Or(string(found[i].KeyID), string(found[i].UserID))
	}
	names, err := a.actorNames(ctx, who, actors)
	if err != nil {
		return rest.Response{}, err
	}
	view := func(f atrium.RefusedRequest) refusedRequest {
		return refusedRequest{
			f.At, f.Count, f.RequestID, f.Method, f.Route, f.Status, f.Code, f.Detail, rest.Faults(f.Faults),
			f.KeyID, f.UserID, names[cmp.Or(string(f.KeyID), string(f.UserID))], f.UserAgent,
		}
	}
	return pageResponse(a.Cursors, found, more, limit, view,
		func(f atrium.RefusedRequest) *atrium.Position { return atrium.PositionAt(f.At, f.ID) }, binding), nil
}

// countedRefused is how far the counts of refused requests go back by default.
const countedRefused = 24 * time.Hour

func (a *API) countRefusedRequests(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	since := atrium.At(a.Store.Now().Add(-countedRefused))
	if given := q.Time("since"); given != nil {
		since = *given
	}
	sender := senderParameter(q)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, err := a.Store.CountRefusedRequests(ctx, who.TenantID, sender, since)
	if err != nil {
		return rest.Response{}, err
	}
	body := refusedCounts{Since: found.Since, Codes: make([]refusedCount, len(found.Codes))}
	for i, c := range found.Codes {
		info := rest.Info(c.Code)
		body.Codes[i] = refusedCount{c.Code, info.Status, info.Title, c.Count}
		body.Count += c.Count
	}
	return rest.Response{Body: body}, nil
}

// senderParameter decodes the parameter sentBy. It returns "" if it is absent.
func senderParameter(q *rest.Query) atrium.Sender {
	return atrium.Sender(textParameter(q, "sentBy", func(text string) string {
		if sender := atrium.Sender(text); sender != atrium.SentByPeople && sender != atrium.SentByPrograms {
			return "must be people or programs"
		}
		return ""
	}))
}

// statusParameter decodes the parameter status. It returns 0 if it is absent.
func statusParameter(q *rest.Query) int64 {
	text, ok := q.Text("status")
	if !ok {
		return 0
	}
	status, ok := strictjson.Digits(text, 599)
	if !ok || status < 200 {
		q.Fault("status", "must be a status from 200 to 599, in digits")
	}
	return status
}
