package manage

import (
	"cmp"
	"context"
	"slices"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

type personalRead struct {
	At        atrium.Time     `json:"at"`
	Count     int64           `json:"count"`
	Kind      atrium.ReadKind `json:"kind"`
	Subject   string          `json:"subject,omitzero"`
	Route     string          `json:"route"`
	RequestID string          `json:"requestId"`
	Actor     string          `json:"actor"`
	ActorName string          `json:"actorName,omitzero"`
}

var readKinds = []string{
	string(atrium.ReadAccount), string(atrium.ReadProspect), string(atrium.ReadEntry), string(atrium.ReadDelivery), string(atrium.ReadList), string(atrium.ReadExport),
}

func (a *API) listReads(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	f := atrium.ReadFilter{
		Actor: textParameter(q, "actor", anyText), Subject: textParameter(q, "subject", anyText), Since: q.Time("since"), Until: q.Time("until"),
		Kind: atrium.ReadKind(textParameter(q, "kind", func(text string) string {
			if !slices.Contains(readKinds, text) {
				return "must be one of account, prospect, entry, list, export"
			}
			return ""
		})),
	}
	binding := []string{string(who.TenantID), "reads", f.Actor, f.Subject, string(f.Kind), textOf(f.Since), textOf(f.Until)}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.Reads(ctx, who.TenantID, f, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	actors := make([]string, len(found))
	for i := range found {
		actors[i] = actorOf(found[i])
	}
	names, err := a.actorNames(ctx, who, actors)
	if err != nil {
		return rest.Response{}, err
	}
	view := func(r atrium.Read) personalRead {
		return personalRead{r.At, r.Count, r.Kind, r.Subject, r.Route, r.RequestID, actorOf(r), names[actorOf(r)]}
	}
	return pageResponseTo(a.Cursors, found, next, limit, view, binding), nil
}

// actorOf returns who has sent a read: a user or a key.
func actorOf(r atrium.Read) string { return cmp.Or(string(r.UserID), string(r.KeyID)) }
