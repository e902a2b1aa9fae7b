package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type erasure struct {
	ErasureID   atrium.ErasureID `json:"erasureId"`
	TenantID    atrium.TenantID  `json:"tenantId"`
	AccountID   atrium.AccountID `json:"accountId,omitzero"`
	Status      string           `json:"status"`
	AccountLogs int64            `json:"accountLogs"`
	Prospects   int64            `json:"prospects"`
	Quarantined int64            `json:"quarantined"`
	CreatedAt   atrium.Time      `json:"createdAt"`
	CompletedAt *atrium.Time     `json:"completedAt,omitzero"`
}

func newErasure(e atrium.Erasure) erasure {
	status := "running"
	if e.CompletedAt != nil {
		status = "completed"
	}
	return erasure{e.ID, e.TenantID, e.AccountID, status, e.Entries, e.Prospects, e.Quarantined, e.CreatedAt, e.CompletedAt}
}

// A match is an item of a check: an entry, a prospect or a delivery in quarantine.
type match struct {
	AccountLogID  atrium.EntryID       `json:"accountLogId,omitzero"`
	AccountID     atrium.AccountID     `json:"accountId,omitzero"`
	Source        string               `json:"source,omitzero"`
	Type          string               `json:"type,omitzero"`
	CreatedAt     *atrium.Time         `json:"createdAt,omitzero"`
	ProspectID    atrium.ProspectID    `json:"prospectId,omitzero"`
	Name          *string              `json:"name,omitzero"`
	Email         *string              `json:"email,omitzero"`
	QuarantinedID atrium.QuarantinedID `json:"quarantinedId,omitzero"`
	ReceiverID    atrium.ReceiverID    `json:"receiverId,omitzero"`
}

func newMatch(m atrium.Match) match {
	switch {
	case m.ProspectID != "":
		return match{ProspectID: m.ProspectID, Name: m.Name, Email: m.Email}
	case m.QuarantinedID != "":
		return match{QuarantinedID: m.QuarantinedID, ReceiverID: m.ReceiverID, CreatedAt: &m.CreatedAt}
	}
	return match{AccountLogID: m.EntryID, AccountID: m.AccountID, Source: m.Source, Type: m.Type, CreatedAt: &m.CreatedAt}
}

// maxCheckLimit is the maximum number of items on a page of a check, and the default.
const maxCheckLimit = 100

func (a *API) createErasure(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var request atrium.ErasureRequest
	var after *atrium.Position
	var binding []string
	check, limit := false, maxCheckLimit
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		decodeErasureRequest(o, &request)
		check = o.Bool("check")
		for _, name := range []string{"limit", "cursor"} {
			if o.Has(name) && !o.Has("check") {
				o.Fault(name, "must be omitted without check")
			}
		}
		if o.Has("limit") {
			limit = int(o.Integer("limit", 1, maxCheckLimit))
		}
		binding = []string{string(who.TenantID), "erasures", string(request.AccountID), string(strictjson.Compact(o.Value("rule")))}
		o.Text("cursor", strictjson.Optional, func(text string) (fault string) {
			var ok bool
			if after, ok = a.Cursors.OpenPosition(text, binding...); !ok {
				return "is not a nextCursor of the same check"
			}
			return ""
		})
	})
	if err != nil {
		return rest.Response{}, err
	}
	if check {
		found, next, err := a.Store.CheckErasure(ctx, who.TenantID, request, after, limit)
		if err != nil {
			return rest.Response{}, err
		}
		return pageResponseTo(a.Cursors, found, next, limit, newMatch, binding), nil
	}
	made, replayed, err := a.Store.CreateErasure(ctx, c, request)
	return rest.Created(newErasure(made), replayed), err
}

// decodeErasureRequest decodes the members accountId and rule, and adds their faults to o.
func decodeErasureRequest(o *strictjson.Object, request *atrium.ErasureRequest) {
	request.AccountID = decodeAccountID(o, "accountId", strictjson.Optional)
	rule := &request.Rule
	inner := o.Inner("rule", strictjson.Required)
	if inner == nil {
		return
	}
	if len(inner.Names()) == 0 {
		inner.WholeFault("must have at least one field")
	}
	rule.Text, _ = inner.Text("text", strictjson.Optional, checkPersonal)
	rule.TextContains, _ = inner.Text("textContains", strictjson.Optional, func(text string) string {
		return atrium.CheckText(text, atrium.MinTextContains, atrium.MaxProspectText)
	})
	for _, id := range inner.Texts("accountLogIds", strictjson.Optional, atrium.MaxErasureEntries, checkID[atrium.EntryID]) {
		rule.EntryIDs = append(rule.EntryIDs, atrium.EntryID(id))
	}
	rule.ProspectEmail, _ = inner.Text("prospectEmail", strictjson.Optional, checkPersonal)
	decodeEntryRule(inner, &rule.MoveRule)
}

// checkPersonal returns the fault of a text by which a person is found, or "".
func checkPersonal(text string) string { return atrium.CheckText(text, 1, atrium.MaxProspectText) }

func (a *API) listErasures(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "list of erasures"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Erasures(ctx, who.TenantID, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newErasure, func(e atrium.Erasure) *atrium.Position {
		return atrium.PositionAt(e.CreatedAt, e.ID)
	}, binding), nil
}

func (a *API) getErasure(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.ErasureID](r, "erasure_id")
	if err != nil {
		return rest.Response{}, err
	}
	e, err := a.Store.FindErasure(ctx, who.TenantID, id)
	return rest.Response{Body: newErasure(e)}, err
}
