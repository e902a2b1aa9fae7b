package external

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/store"
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

type pageList struct {
	Items      []page `json:"items"`
	HasMore    bool   `json:"hasMore"`
	Limit      int    `json:"limit"`
	NextCursor string `json:"nextCursor,omitzero"`
}

func newPage(p *atrium.Page) page {
	return page{
		PageID: p.ID, TenantID: p.TenantID, BrandID: p.BrandID, Name: p.Name, PageContext: p.Context,
		Actions: p.Actions, Scripts: p.Scripts, FooterLinks: p.FooterLinks, AudiencesCount: p.AudiencesCount,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, DeletedAt: p.DeletedAt, HeaderActionID: p.HeaderActionID,
	}
}

func (a *API) getPage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := pathID[atrium.PageID](r, "page_id")
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
	var after *store.PagePosition
	if cursor, ok := q.Text("cursor"); ok {
		if after = a.openCursor(cursor, who.TenantID, status); after == nil {
			q.Fault("cursor", "is not a nextCursor of this list")
		}
	}
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	pages, more, err := a.Store.Pages(ctx, who.TenantID, status, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	list := pageList{Items: make([]page, len(pages)), HasMore: more, Limit: limit}
	for i := range pages {
		p := &pages[i]
		list.Items[i] = newPage(p)
		list.Items[i].Title, list.Items[i].Status = &p.Title, &p.Status
	}
	if more {
		last := &pages[len(pages)-1]
		list.NextCursor = a.sealCursor(store.PagePosition{CreatedAt: last.CreatedAt, ID: last.ID}, who.TenantID, status)
	}
	return rest.Response{Body: list}, nil
}

// The cursor of a page list holds the creation of the last page, in eight
// bytes, and the characters of its identifier behind the prefix.
const cursorLen = 8 + atrium.SuffixLen

func (a *API) sealCursor(p store.PagePosition, tenant atrium.TenantID, status atrium.PageStatus) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorLen), uint64(p.CreatedAt))
	b = append(b, strings.TrimPrefix(string(p.ID), p.ID.Prefix())...)
	return a.Cursors.Seal(b, string(tenant), "pages", string(status))
}

func (a *API) openCursor(cursor string, tenant atrium.TenantID, status atrium.PageStatus) *store.PagePosition {
	b, ok := a.Cursors.Open(cursor, string(tenant), "pages", string(status))
	if !ok || len(b) != cursorLen {
		return nil
	}
	p := &store.PagePosition{CreatedAt: atrium.Time(binary.BigEndian.Uint64(b))}
	p.ID = atrium.PageID(p.ID.Prefix() + string(b[8:]))
	return p
}
