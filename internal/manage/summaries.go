package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
	"atrium/internal/summary"
)

type summaryTemplate struct {
	Source   string `json:"source"`
	Type     string `json:"type,omitzero"`
	Template string `json:"template"`
}

type summaryTemplates struct {
	TenantID  atrium.TenantID   `json:"tenantId"`
	Templates []summaryTemplate `json:"templates"`
}

func newSummaryTemplates(tenant atrium.TenantID, all atrium.SummaryTemplates) summaryTemplates {
	list := summaryTemplates{tenant, make([]summaryTemplate, len(all))}
	for i, t := range all {
		list.Templates[i] = summaryTemplate(t)
	}
	return list
}

func checkSource(text string) string { return atrium.CheckText(text, 1, atrium.MaxSource) }

func checkType(text string) string { return atrium.CheckText(text, 1, atrium.MaxType) }

func (a *API) listSummaryTemplates(ctx context.Context, who auth.Principal, _ *rest.Request) (rest.Response, error) {
	all, err := a.Store.SummaryTemplates(ctx, who.TenantID)
	return rest.Response{Body: newSummaryTemplates(who.TenantID, all)}, err
}

func (a *API) putSummaryTemplate(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var t atrium.SummaryTemplate
	c, err := r.DecodeChange(who, func(o *strictjson.Object) {
		t.Source, _ = o.Text("source", strictjson.Required, checkSource)
		t.Type, _ = o.Text("type", strictjson.Optional, checkType)
		t.Template, _ = o.Text("template", strictjson.Required, func(text string) string {
			_, fault := summary.Parse(text)
			return fault
		})
	})
	if err != nil {
		return rest.Response{}, err
	}
	all, err := a.Store.PutSummaryTemplate(ctx, c, t, checkTemplates(who, r))
	return rest.Response{Body: newSummaryTemplates(who.TenantID, all), Tagged: true}, err
}

func (a *API) deleteSummaryTemplate(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	q := r.Query()
	source, entryType := textParameter(q, "source", checkSource), textParameter(q, "type", checkType)
	if source == "" && q.Err() == nil {
		q.Fault("source", "is required")
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.DeleteSummaryTemplate(ctx, c, source, entryType, checkTemplates(who, r))
}

// A summarizedLog is an entry with its summary.
type summarizedLog struct {
	accountLog
	Summary string `json:"summary"`
}

// summariesResponse returns the response with a page of entries and their summaries.
func (a *API) summariesResponse(ctx context.Context, who auth.Principal, r *rest.Request, found []atrium.TimelineEntry, next *atrium.Position, limit int,
	binding []string,
) (rest.Response, error) {
	all, err := a.Store.SummaryTemplates(ctx, who.TenantID)
	if err != nil {
		return rest.Response{}, err
	}
	size := 0
	for i := range found {
		size += len(found[i].Payload)
	}
	body, err := r.EncodeBody(ctx, size, func() (rest.Encoded, error) {
		templates := summary.New(all)
		return rest.Encode(pageResponseTo(a.Cursors, found, next, limit, func(e atrium.TimelineEntry) summarizedLog {
			return summarizedLog{newAccountLog(e), templates.Of(e.Source, e.Type, e.Payload)}
		}, binding).Body)
	})
	return rest.Response{Body: body}, err
}

// checkTemplates returns a check that compares all templates with the If-Match header of a request.
func checkTemplates(who auth.Principal, r *rest.Request) func(atrium.SummaryTemplates) error {
	return func(all atrium.SummaryTemplates) error { return r.CheckState(newSummaryTemplates(who.TenantID, all)) }
}
