package manage

import (
	"context"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type preview struct {
	PreviewID     atrium.PreviewID  `json:"previewId"`
	TenantID      atrium.TenantID   `json:"tenantId"`
	PageID        atrium.PageID     `json:"pageId"`
	AudienceID    atrium.AudienceID `json:"audienceId"`
	VersionNumber int64             `json:"versionNumber"`
	CreatedAt     atrium.Time       `json:"createdAt"`
	ExpiresAt     atrium.Time       `json:"expiresAt"`
	Token         string            `json:"token,omitzero"` // only in the response that creates it
}

func newPreview(p atrium.Preview) preview {
	return preview{p.ID, p.TenantID, p.PageID, p.AudienceID, p.Number, p.CreatedAt, p.ExpiresAt, ""}
}

// The lifetime of a preview.
const (
	defaultPreviewLife = 24 * time.Hour
	maxPreviewLife     = 7 * 24 * time.Hour
)

func (a *API) createPreview(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var p atrium.Preview
	life := defaultPreviewLife
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		audience, _ := o.Text("audienceId", strictjson.Required, checkID[atrium.AudienceID])
		p.AudienceID = atrium.AudienceID(audience)
		if p.Number = o.Integer("versionNumber", 1, atrium.MaxVersionNumber); !o.Has("versionNumber") {
			o.Fault("versionNumber", "is required")
		}
		if o.Has("expiresInSeconds") {
			life = time.Duration(o.Integer("expiresInSeconds", 1, int64(maxPreviewLife/time.Second))) * time.Second
		}
	})
	if err != nil {
		return rest.Response{}, err
	}
	if p.PageID, err = rest.PathID[atrium.PageID](r, "page_id"); err != nil {
		return rest.Response{}, err
	}
	id, token, hash := auth.NewPreviewToken()
	p.ID, p.ExpiresAt = id, atrium.At(a.Store.Now().Add(life))
	p, replayed, err := a.Store.CreatePreview(ctx, c, p, hash)
	view := newPreview(p)
	if !replayed {
		view.Token = token
	}
	return rest.Created(view, replayed), err
}

func (a *API) listPreviews(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, binding := q.Limit(), []string{string(who.TenantID), "previews", r.PathValue("page_id")}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	page, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	found, more, err := a.Store.Previews(ctx, who.TenantID, page, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponse(a.Cursors, found, more, limit, newPreview,
		func(p atrium.Preview) *atrium.Position { return atrium.PositionAt(0, p.ID) }, binding), nil
}

// pathPreview returns the page and the preview in the path.
func pathPreview(r *rest.Request) (page atrium.PageID, id atrium.PreviewID, err error) {
	if page, err = rest.PathID[atrium.PageID](r, "page_id"); err != nil {
		return page, id, err
	}
	id, err = rest.PathID[atrium.PreviewID](r, "preview_id")
	return page, id, err
}

func (a *API) getPreview(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	page, id, err := pathPreview(r)
	if err != nil {
		return rest.Response{}, err
	}
	p, _, err := a.Store.Preview(ctx, who.TenantID, page, id)
	return rest.Response{Body: newPreview(p)}, err
}

func (a *API) revokePreview(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	page, id, err := pathPreview(r)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.RevokePreview(ctx, c, page, id, func(p atrium.Preview) error { return r.CheckState(newPreview(p)) })
}
