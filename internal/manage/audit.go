package manage

import (
	"bufio"
	"context"
	"encoding/hex"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type auditRow struct {
	Number    int64          `json:"number"`
	At        atrium.Time    `json:"at"`
	Actor     string         `json:"actor"`
	ActorName string         `json:"actorName,omitzero"`
	Action    string         `json:"action"`
	Subject   string         `json:"subject"`
	RequestID string         `json:"requestId,omitzero"`
	Detail    jsontext.Value `json:"detail,omitzero"`
	Redacted  bool           `json:"redacted,omitzero"`
	Hash      string         `json:"hash"`
}

func newAuditRow(r atrium.AuditRow) auditRow {
	return auditRow{
		Number: r.Number, At: r.At, Actor: r.Actor, Action: r.Action, Subject: r.Subject, RequestID: r.RequestID, Detail: r.Detail,
		Redacted: r.Redacted(), Hash: hex.EncodeToString(r.Hash),
	}
}

// actorNames returns the names of those actors that are keys and users. Only operators see the
// names of those that are not of the tenant.
func (a *API) actorNames(ctx context.Context, who auth.Principal, all []string) (map[string]string, error) {
	keys, users := actorsOf[atrium.KeyID](all), actorsOf[atrium.UserID](all)
	names := map[string]string{}
	if len(keys) > 0 {
		if err := a.Store.EachKey(ctx, keys, func(k atrium.APIKey, _, _ []byte) {
			if k.TenantID == who.TenantID || who.Operator {
				names[string(k.ID)] = k.Name
			}
		}); err != nil {
			return nil, err
		}
	}
	if len(users) == 0 {
		return names, nil
	}
	err := a.Store.EachUserName(ctx, users, func(id atrium.UserID, tenant atrium.TenantID, name string) {
		if tenant == who.TenantID || who.Operator {
			names[string(id)] = name
		}
	})
	return names, err
}

// actorsOf returns the actors that are identifiers of one type, each once.
func actorsOf[T atrium.Identifier](all []string) (ids []T) {
	for _, actor := range all {
		if id, ok := atrium.ParseID[T](actor); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

type auditHead struct {
	Number int64  `json:"number"`
	Hash   string `json:"hash"`
}

// chain returns the audit chain of a request: the operators' chain for an operator who
// names no tenant.
func chain(who auth.Principal) atrium.TenantID {
	if who.TenantID == "" {
		return atrium.OperatorChain
	}
	return who.TenantID
}

func (a *API) listAudit(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	var f atrium.AuditFilter
	f.Subject, f.Actor, f.Action = textParameter(q, "subject", anyText), textParameter(q, "actor", anyText), textParameter(q, "action", anyText)
	f.PageID = atrium.PageID(textParameter(q, "page", checkID[atrium.PageID]))
	f.Since, f.Until = q.Time("since"), q.Time("until")
	binding := []string{string(chain(who)), "audit", f.Subject, f.Actor, f.Action, textOf(f.Since), textOf(f.Until), string(f.PageID)}
	var below int64
	if after := q.Cursor(a.Cursors, binding...); after != nil {
		below = after.Key
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.AuditRows(ctx, chain(who), f, below, limit)
	if err != nil {
		return rest.Response{}, err
	}
	actors := make([]string, len(found))
	for i := range found {
		actors[i] = found[i].Actor
	}
	names, err := a.actorNames(ctx, who, actors)
	if err != nil {
		return rest.Response{}, err
	}
	named := func(r atrium.AuditRow) auditRow {
		row := newAuditRow(r)
		row.ActorName = names[r.Actor]
		return row
	}
	var position *atrium.Position
	if next > 0 {
		position = atrium.PositionAt(atrium.Time(next), atrium.OperatorChain) // the position needs only a number
	}
	return pageResponseTo(a.Cursors, found, position, limit, named, binding), nil
}

func textOf(t *atrium.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

func (a *API) getAuditHead(ctx context.Context, who auth.Principal, _ *rest.Request) (rest.Response, error) {
	head, err := a.Store.AuditHead(ctx, chain(who))
	return rest.Response{Body: auditHead{head.Number, hex.EncodeToString(head.Hash)}}, err
}

func (a *API) exportAudit(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	from := numberParameter(q, "from")
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	return rest.Response{Open: a.Exports, Stream: func(w io.Writer) error {
		out := bufio.NewWriterSize(w, streamBuffer)
		var line []byte
		err := a.Store.ExportAudit(ctx, chain(who), from, func(row *atrium.AuditRow) (err error) {
			if line, err = auditlog.AppendLine(line[:0], row); err == nil {
				_, err = out.Write(line)
			}
			return err
		})
		if err == nil {
			err = out.Flush()
		}
		return err
	}}, nil
}

// streamBuffer is the buffer size of a streamed response, in bytes.
const streamBuffer = 64 << 10

// maxLineNumber is the highest integer that every JSON parser reads exactly.
const maxLineNumber = atrium.MaxVersionNumber

// numberParameter decodes a number from 1. The default is 1.
func numberParameter(q *rest.Query, name string) int64 {
	text, ok := q.Text(name)
	if !ok {
		return 1
	}
	n, ok := strictjson.Digits(text, maxLineNumber)
	if !ok || n < 1 {
		q.Fault(name, "must be a whole number from 1, in digits")
		return 1
	}
	return n
}

// auditRoutes return the tenant's chain or, for an operator who names no tenant, the
// operators' chain.
func (a *API) auditRoutes() []rest.Route {
	routes := []rest.Route{
		reads(read("/audit", "", a.listAudit), atrium.ReadList, ""),
		read("/audit/head", "", a.getAuditHead),
		reads(stream("/audit/export", a.exportAudit), atrium.ReadExport, ""),
	}
	for i := range routes {
		routes[i].For = rest.Either
	}
	return routes
}
