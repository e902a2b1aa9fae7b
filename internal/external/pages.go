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
		body, err := r.EncodeBody(ctx, pageSize(&p), func() (rest.Encoded, error) { return encodePage(&p) })
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
		cursor := ""
		if more {
			last := &pages[len(pages)-1]
			cursor = a.Cursors.SealPosition(atrium.PositionAt(last.CreatedAt, last.ID), binding...)
		}
		body, err := r.EncodeBody(ctx, pagesSize(pages), func() (rest.Encoded, error) {
			return encodePages(pages, limit, cursor)
		})
		return rest.Response{Body: body}, true, err
	})
}
