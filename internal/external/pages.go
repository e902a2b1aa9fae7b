package external

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

func (a *API) getPage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	return a.Cache.Get(r, who.TenantID, "", func() (rest.Response, bool, error) {
		p, err := a.Store.Page(ctx, who.TenantID, id)
		if err != nil {
			return rest.Response{}, false, err
		}
		body, err := r.EncodeBody(ctx, pageSize(&p), (*fullPage)(&p))
		return rest.Response{Body: body}, true, err
	})
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
	return a.Cache.Get(r, who.TenantID, "", func() (rest.Response, bool, error) {
		pages, more, err := a.Store.Pages(ctx, who.TenantID, status, after, limit)
		if err != nil {
			return rest.Response{}, false, err
		}
		list := &pageList{pages: pages, more: more, limit: limit}
		if more {
			last := &pages[len(pages)-1]
			list.cursor = a.Cursors.SealPosition(atrium.PositionAt(last.CreatedAt, last.ID), binding...)
		}
		size := 0
		for i := range pages {
			size += pageSize(&pages[i])
		}
		body, err := r.EncodeBody(ctx, size, list)
		return rest.Response{Body: body}, true, err
	})
}

// pageSize returns about how many bytes a page has.
func pageSize(p *atrium.Page) int {
	return len(p.Name) + len(p.Title) + len(p.Context) + len(p.Actions) + len(p.Scripts) + len(p.FooterLinks) + len(p.Metadata)
}
