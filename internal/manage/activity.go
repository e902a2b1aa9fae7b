package manage

import (
	"context"
	"fmt"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// An accountLog is an entry without its payload.
type accountLog struct {
	AccountLogID          atrium.EntryID   `json:"accountLogId"`
	AccountID             atrium.AccountID `json:"accountId"`
	AcknowledgedAccountID atrium.AccountID `json:"acknowledgedAccountId,omitzero"`
	CreatedAt             atrium.Time      `json:"createdAt"`
	OccurredAt            *atrium.Time     `json:"occurredAt,omitzero"`
	Source                string           `json:"source"`
	Type                  string           `json:"type"`
	Claimed               claimed          `json:"claimed"`
	IdempotencyKey        string           `json:"idempotencyKey,omitzero"`
	MoveID                atrium.MoveID    `json:"moveId,omitzero"`
	origin
	PayloadBytes int64 `json:"payloadBytes"`
}

// An origin is how an entry came into the database. Members that were not recorded are omitted.
type origin struct {
	Rule        string `json:"rule,omitzero"`
	SubmittedBy string `json:"submittedBy,omitzero"`
	RequestID   string `json:"requestId,omitzero"`
}

func newOrigin(o atrium.Origin) origin { return origin{o.Rule.String(), o.SubmittedBy, o.RequestID} }

type claimed struct {
	AccountID atrium.AccountID `json:"accountId,omitzero"`
	Domain    string           `json:"domain,omitzero"`
	Name      string           `json:"name,omitzero"`
}

func newAccountLog(e atrium.TimelineEntry) accountLog {
	return accountLog{
		e.ID, e.AccountID, e.AcknowledgedID, e.CreatedAt, e.OccurredAt, e.Source, e.Type,
		claimed{e.Claim.AccountID, e.Claim.Domain, e.Claim.Name}, e.IdempotencyKey, e.MoveID, newOrigin(e.Origin), e.PayloadBytes,
	}
}

// appendAccountLog appends the JSON of an entry, with its payload byte for byte as sent.
func appendAccountLog(b []byte, e atrium.TimelineEntry) ([]byte, error) {
	encoded, err := rest.Encode(newAccountLog(e))
	if err != nil {
		return nil, err
	}
	b = append(append(b, encoded[:len(encoded)-1]...), `,"payload":`...)
	return append(append(b, e.Payload...), '}'), nil
}

func (a *API) listActivity(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	f := timelineFilter(q)
	include := inclusionParameter(q)
	limit, binding := q.Limit(), activityBinding(who, r, "activity", &f)
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.Timeline(ctx, who.TenantID, id, f, after, limit, include != includeNothing)
	if err != nil {
		return rest.Response{}, err
	}
	return a.accountLogsResponse(ctx, who, r, found, next, limit, include, binding)
}

// An inclusion is what a list of entries has of their payloads.
type inclusion string

const (
	includeNothing inclusion = ""
	includePayload inclusion = "payload"
	includeSummary inclusion = "summary"
)

// inclusionParameter decodes the parameter include of a list of entries.
func inclusionParameter(q *rest.Query) inclusion {
	include, given := q.Text("include")
	if given && include != string(includePayload) && include != string(includeSummary) {
		q.Fault("include", "must be payload or summary")
	}
	return inclusion(include)
}

// accountLogsResponse returns the response with a page of entries.
func (a *API) accountLogsResponse(ctx context.Context, who auth.Principal, r *rest.Request, found []atrium.TimelineEntry, next *atrium.Position, limit int,
	include inclusion, binding []string,
) (rest.Response, error) {
	switch include {
	case includeNothing:
		return pageResponseTo(a.Cursors, found, next, limit, newAccountLog, binding), nil
	case includeSummary:
		return a.summariesResponse(ctx, who, r, found, next, limit, binding)
	case includePayload:
	}
	// The response begins with the JSON of a list without items.
	list, err := rest.Encode(pageResponseTo(a.Cursors, nil, next, limit, newAccountLog, binding).Body)
	if err != nil {
		return rest.Response{}, err
	}
	const empty = `{"items":[`
	body := []byte(empty)
	for i := range found {
		if i > 0 {
			body = append(body, ',')
		}
		if body, err = appendAccountLog(body, found[i]); err != nil {
			return rest.Response{}, err
		}
	}
	return rest.Response{Body: rest.Encoded(append(body, list[len(empty):]...))}, nil
}

// activityBinding returns the binding of the cursors of an account's list of entries.
func activityBinding(who auth.Principal, r *rest.Request, list string, f *atrium.TimelineFilter) []string {
	return append([]string{string(who.TenantID), list, r.PathValue("account_id")}, timelineBinding(f)...)
}

// timelineFilter decodes the parameters of a TimelineFilter.
func timelineFilter(q *rest.Query) atrium.TimelineFilter {
	f := atrium.TimelineFilter{Since: q.Time("since"), Until: q.Time("until")}
	f.Source, _ = q.Text("source")
	f.Type, _ = q.Text("type")
	return f
}

// timelineBinding returns the part of a binding that has a filter.
func timelineBinding(f *atrium.TimelineFilter) []string {
	binding := []string{f.Source, f.Type}
	for _, t := range []*atrium.Time{f.Since, f.Until} {
		text := ""
		if t != nil {
			text = t.String()
		}
		binding = append(binding, text)
	}
	return binding
}

// The range of counts, in days.
const (
	defaultDays = 30
	maxDays     = 366
)

type dayCount struct {
	Day    string `json:"day"`
	Source string `json:"source"`
	Type   string `json:"type"`
	Count  int64  `json:"count"`
}

func newDayCount(c atrium.DayCount) dayCount {
	return dayCount{c.Day.Std().Format(time.DateOnly), c.Source, c.Type, c.Count}
}

func (a *API) countActivity(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	f := timelineFilter(q)
	limit, binding := q.Limit(), activityBinding(who, r, "counts", &f)
	after := q.Cursor(a.Cursors, binding...)
	if after == nil {
		boundDays(q, &f, a.Store.Now())
	} else if since, err := atrium.ParseTime(after.Text); err == nil {
		f.Since = &since // a cursor keeps the range of the first request
	} else {
		return rest.Response{}, err
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.Counts(ctx, who.TenantID, id, f, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	if next != nil {
		next.Text = f.Since.String()
	}
	return pageResponseTo(a.Cursors, found, next, limit, newDayCount, binding), nil
}

// boundDays sets the default start of the range of counts: the range has defaultDays whole
// days, including the day in which it ends. A range of more than maxDays, without today,
// is a fault.
func boundDays(q *rest.Query, f *atrium.TimelineFilter, now time.Time) {
	const day = 24 * time.Hour
	end := now.UTC().Truncate(day).Add(day)
	if f.Until != nil {
		end = f.Until.Std()
	}
	if f.Since == nil {
		since := atrium.At(end.Add(-1).Truncate(day).Add(-(defaultDays - 1) * day))
		f.Since = &since
		return
	}
	switch since := f.Since.Std(); {
	case f.Until != nil && !since.Before(end):
		q.Fault("until", "must be after since")
	case end.Sub(since) > maxDays*day || end.Year()-since.Year() > 2: // a Duration ends after 292 years
		q.Fault("since", fmt.Sprintf("must be at most %d days before until", maxDays))
	}
}
