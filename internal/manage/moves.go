package manage

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type move struct {
	MoveID        atrium.MoveID    `json:"moveId"`
	TenantID      atrium.TenantID  `json:"tenantId"`
	FromAccountID atrium.AccountID `json:"fromAccountId"`
	ToAccountID   atrium.AccountID `json:"toAccountId"`
	Rule          jsontext.Value   `json:"rule,omitzero"`
	Moved         int64            `json:"moved"`
	CreatedAt     atrium.Time      `json:"createdAt"`
	UndoneAt      *atrium.Time     `json:"undoneAt,omitzero"`
}

func newMove(m atrium.Move) move {
	return move{m.ID, m.TenantID, m.From, m.To, m.Rule, m.Moved, m.CreatedAt, m.UndoneAt}
}

// decodeAccountID decodes the identifier of an account. It returns "" if there is none.
func decodeAccountID(o *strictjson.Object, name string, presence strictjson.Presence) atrium.AccountID {
	id, _ := o.Text(name, presence, checkID[atrium.AccountID])
	return atrium.AccountID(id)
}

func (a *API) moveAccountLog(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var to atrium.AccountID
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) { to = decodeAccountID(o, "accountId", strictjson.Required) })
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.EntryID](r, "account_log_id")
	if err != nil {
		return rest.Response{}, err
	}
	m, replayed, err := a.Store.MoveEntry(ctx, c, id, to, func(e atrium.TimelineEntry) error {
		body, err := appendAccountLog(nil, e)
		if err != nil {
			return err
		}
		return r.CheckState(rest.Encoded(body))
	})
	return rest.Created(newMove(m), replayed), err
}

// A moveReport is the response to a move by a rule.
type moveReport struct {
	Move       *move  `json:"move,omitzero"`
	Moved      int64  `json:"moved"`
	HasMore    bool   `json:"hasMore"`
	NextCursor string `json:"nextCursor,omitzero"`
}

func (a *API) createMove(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	request := atrium.MoveRequest{Limit: atrium.MaxMoved}
	var binding []string
	check := false
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		request.From = decodeAccountID(o, "from", strictjson.Optional)
		request.To = decodeAccountID(o, "to", strictjson.Required)
		decodeRule(o, &request.Rule)
		if o.Has("limit") {
			request.Limit = int(o.Integer("limit", 1, atrium.MaxMoved))
		}
		check = o.Bool("check")
		binding = []string{string(who.TenantID), "moves", string(request.From), string(request.To), string(request.Rule.Given)}
		o.Text("cursor", strictjson.Optional, func(text string) string {
			after, ok := a.Cursors.OpenPosition(text, binding...)
			if request.After = after; !ok {
				return "is not a nextCursor of the same move"
			}
			return ""
		})
	})
	if err != nil {
		return rest.Response{}, err
	}
	var report atrium.MoveReport
	var replayed bool
	if check {
		report, err = a.Store.CheckMove(ctx, who.TenantID, request)
	} else {
		report, replayed, err = a.Store.Move(ctx, c, request)
	}
	if err != nil {
		return rest.Response{}, err
	}
	body := moveReport{Moved: report.Moved, HasMore: report.Next != nil}
	if body.HasMore {
		body.NextCursor = a.Cursors.SealPosition(report.Next, binding...)
	}
	if report.Move == nil {
		return rest.Response{Body: body}, nil
	}
	made := newMove(*report.Move)
	body.Move = &made
	response := rest.Created(body, replayed)
	response.Tagged = false // it is a report, not the state of the move
	return response, nil
}

// maxPointer is the maximum length of the pointer of a rule, in code points.
const maxPointer = 1024

// decodeRule decodes the member rule and adds its faults to o.
func decodeRule(o *strictjson.Object, rule *atrium.MoveRule) {
	inner := o.Inner("rule", strictjson.Required)
	if inner == nil {
		return
	}
	rule.Given = strictjson.Compact(o.Value("rule"))
	if len(inner.Names()) == 0 {
		inner.WholeFault("must have at least one field")
	}
	rule.Source, _ = inner.Text("source", strictjson.Optional, checkSource)
	rule.Type, _ = inner.Text("type", strictjson.Optional, checkType)
	decodeEntryRule(inner, rule)
}

// decodeEntryRule decodes the members of a rule that select entries. No others may follow.
func decodeEntryRule(o *strictjson.Object, rule *atrium.MoveRule) {
	rule.ClaimedName, _ = o.Text("claimedName", strictjson.Optional, checkName)
	rule.ClaimedDomain, _ = o.Text("claimedDomain", strictjson.Optional, atrium.CheckDomain)
	if payload := o.Inner("payload", strictjson.Optional); payload != nil {
		decodePayloadRule(payload, rule)
	}
	o.RejectUnknown()
}

func decodePayloadRule(o *strictjson.Object, rule *atrium.MoveRule) {
	rule.Pointer, _ = o.Text("pointer", strictjson.Required, func(text string) string {
		if _, ok := canonical.ParsePointer(text); !ok || text == "" {
			return "must be a JSON Pointer to a field"
		}
		return atrium.CheckText(text, 1, maxPointer)
	})
	rule.Equals = o.Value("equals")
	switch {
	case rule.Equals == nil:
		o.Fault("equals", "is required")
	case rule.Equals[0] == '{' || rule.Equals[0] == '[':
		o.Fault("equals", "must be a string, a number, true, false or null")
	}
	o.RejectUnknown()
}

func (a *API) listMoves(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "list of moves"}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Moves(ctx, who.TenantID, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newMove, func(m atrium.Move) *atrium.Position {
		return atrium.PositionAt(m.CreatedAt, m.ID)
	}, binding), nil
}

func (a *API) getMove(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.MoveID](r, "move_id")
	if err != nil {
		return rest.Response{}, err
	}
	m, err := a.Store.FindMove(ctx, who.TenantID, id)
	return rest.Response{Body: newMove(m)}, err
}

type undoReport struct {
	Move     move  `json:"move"`
	Restored int64 `json:"restored"`
	Skipped  int64 `json:"skipped"`
}

func (a *API) undoMove(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.MoveID](r, who, "move_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	report, _, err := a.Store.UndoMove(ctx, c, id, func(m atrium.Move) error { return r.CheckState(newMove(m)) })
	return rest.Response{Body: undoReport{newMove(report.Move), report.Restored, report.Skipped}}, err
}
