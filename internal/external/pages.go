package external

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// A page in full is what one page looks like; a page in a list has its title
// and status too, and no metadata.
type page struct {
	PageID         atrium.PageID      `json:"pageId"`
	TenantID       atrium.TenantID    `json:"tenantId"`
	BrandID        string             `json:"brandId"`
	Name           string             `json:"name"`
	PageContext    string             `json:"pageContext"`
	Title          *string            `json:"title,omitzero"`
	Status         *atrium.PageStatus `json:"status,omitzero"`
	Actions        jsontext.Value     `json:"actions"`
	Scripts        jsontext.Value     `json:"scripts"`
	FooterLinks    jsontext.Value     `json:"footerLinks"`
	AudiencesCount int64              `json:"audiencesCount"`
	CreatedAt      atrium.Time        `json:"createdAt"`
	UpdatedAt      atrium.Time        `json:"updatedAt"`
	DeletedAt      *atrium.Time       `json:"deletedAt"`
	HeaderActionID *string            `json:"headerActionId,omitzero"`
	Metadata       jsontext.Value     `json:"metadata,omitzero"`
}

func newPage(p *atrium.Page) page {
	return page{
		PageID: p.ID, TenantID: p.TenantID, BrandID: p.BrandID, Name: p.Name, PageContext: p.Context,
		Actions: p.Actions, Scripts: p.Scripts, FooterLinks: p.FooterLinks, AudiencesCount: p.AudiencesCount,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, DeletedAt: p.DeletedAt, HeaderActionID: p.HeaderActionID,
	}
}

func (a *API) getPage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.Page(ctx, who.TenantID, id)
	if err != nil {
		return rest.Response{}, err
	}
	body := newPage(&p)
	body.Metadata = p.Metadata
	return rest.Response{Body: body}, nil
}

func (a *API) listPages(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	text, filtered := q.Text("status")
	status := atrium.PageStatus(text)
	if filtered && !status.Valid() {
		q.Fault("status", "must be one of archived, draft, published")
	}
	binding := []string{string(who.TenantID), "pages", string(status)}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	pages, more, err := a.Store.Pages(ctx, who.TenantID, status, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	list := rest.List[page]{Items: make([]page, len(pages)), HasMore: more, Limit: limit}
	for i := range pages {
		p := &pages[i]
		list.Items[i] = newPage(p)
		list.Items[i].Title, list.Items[i].Status = &p.Title, &p.Status
	}
	if more {
		last := &pages[len(pages)-1]
		list.NextCursor = a.Cursors.SealPosition(atrium.PositionAt(last.CreatedAt, last.ID), binding...)
	}
	return rest.Response{Body: list}, nil
}
