package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

func (a *API) listAccountLogs(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	f, binding := entryFilter(q)
	include := inclusionParameter(q)
	binding = append([]string{string(who.TenantID), "account_logs"}, binding...)
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.FindEntries(ctx, who.TenantID, f, after, limit, include != includeNothing)
	if err != nil {
		return rest.Response{}, err
	}
	return a.accountLogsResponse(ctx, who, r, found, next, limit, include, binding)
}

// entryFilter decodes the parameters that filter entries. binding is their values as given, which
// cursors are bound to.
func entryFilter(q *rest.Query) (f atrium.EntryFilter, binding []string) {
	f.IdempotencyKey = textParameter(q, "idempotencyKey", func(text string) string { return atrium.CheckText(text, 1, atrium.MaxIdempotencyKey) })
	f.AccountID = atrium.AccountID(textParameter(q, "accountId", checkID[atrium.AccountID]))
	unattributed, _ := q.Text("unattributed")
	if f.Unattributed = unattributed == "true"; unattributed != "" && !f.Unattributed {
		q.Fault("unattributed", "must be true")
	}
	f.ClaimedDomain = textParameter(q, "claimedDomain", atrium.CheckDomain)
	f.ClaimedName = textParameter(q, "claimedName", checkName)
	f.TimelineFilter = timelineFilter(q)
	binding = []string{f.IdempotencyKey, string(f.AccountID), unattributed, f.ClaimedDomain, f.ClaimedName}
	return f, append(binding, timelineBinding(&f.TimelineFilter)...)
}
