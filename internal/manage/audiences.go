package manage

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type audience struct {
	AudienceID       atrium.AudienceID `json:"audienceId"`
	TenantID         atrium.TenantID   `json:"tenantId"`
	PageID           atrium.PageID     `json:"pageId"`
	Name             string            `json:"name"`
	Archived         bool              `json:"archived"`
	PublishedVersion *int64            `json:"publishedVersion"`
	VersionsCount    int64             `json:"versionsCount"`
	CreatedAt        atrium.Time       `json:"createdAt"`
	UpdatedAt        atrium.Time       `json:"updatedAt"`
}

func newAudience(u atrium.Audience) audience {
	view := audience{
		AudienceID: u.ID, TenantID: u.TenantID, PageID: u.PageID, Name: u.Name, Archived: u.Archived,
		VersionsCount: u.VersionsCount, CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt,
	}
	if u.PublishedNumber != 0 {
		view.PublishedVersion = &u.PublishedNumber
	}
	return view
}

// pathAudience returns the page and the audience in the path.
func pathAudience(r *rest.Request) (page atrium.PageID, id atrium.AudienceID, err error) {
	if page, err = rest.PathID[atrium.PageID](r, "page_id"); err != nil {
		return page, id, err
	}
	id, err = rest.PathID[atrium.AudienceID](r, "audience_id")
	return page, id, err
}

func (a *API) listAudiences(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit, archived := q.Limit(), boolParameter(q, "archived")
	which := ""
	if archived != nil {
		which, _ = q.Text("archived")
	}
	binding := []string{string(who.TenantID), "audiences", r.PathValue("page_id"), which}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.Audiences(ctx, who.TenantID, id, archived, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponseTo(a.Cursors, found, next, limit, newAudience, binding), nil
}

func (a *API) createAudience(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name string
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		name, _ = o.Text("name", strictjson.Required, checkName)
	})
	if err != nil {
		return rest.Response{}, err
	}
	page, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	u, replayed, err := a.Store.CreateAudience(ctx, c, page, name)
	return rest.Created(newAudience(u), replayed), err
}

func (a *API) getAudience(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	page, id, err := pathAudience(r)
	if err != nil {
		return rest.Response{}, err
	}
	u, err := a.Store.Audience(ctx, who.TenantID, page, id)
	return rest.Response{Body: newAudience(u)}, err
}

func (a *API) updateAudience(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name *string
	c, err := r.DecodeChange(who, func(o *strictjson.Object) {
		name = optionalText(o, "name", checkName)
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	page, id, err := pathAudience(r)
	if err != nil {
		return rest.Response{}, err
	}
	u, err := a.Store.UpdateAudience(ctx, c, page, id, name, func(u atrium.Audience) error { return r.RequireState(newAudience(u)) })
	return rest.Response{Body: newAudience(u), Tagged: true}, err
}

// archiveAudience returns the handler that archives or restores an audience.
func (a *API) archiveAudience(archived bool) rest.Handler {
	return func(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
		c, err := r.DecodeChange(who, nil)
		if err != nil {
			return rest.Response{}, err
		}
		page, id, err := pathAudience(r)
		if err != nil {
			return rest.Response{}, err
		}
		u, err := a.Store.ArchiveAudience(ctx, c, page, id, archived, func(u atrium.Audience) error { return r.CheckState(newAudience(u)) })
		return rest.Response{Body: newAudience(u), Tagged: true}, err
	}
}
