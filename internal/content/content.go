// Package content is the API with which sites read published pages, described in api/content.yaml.
package content

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/store"
)

// Previews verify preview tokens: an *auth.Authenticator.
type Previews interface {
	Preview(ctx context.Context, from netip.Addr, token string, find auth.FindPreview) (atrium.Preview, error)
}

// An API serves published content from a store.
type API struct {
	Store    *store.Store
	Previews Previews
	Cache    *rest.ResponseCache // nil for none
}

// Routes returns the operations.
func (a *API) Routes() []rest.Route {
	const page = "/content/v0/{tenant_id}/pages/{page_id}"
	route := func(pattern string, handle rest.Handler) rest.Route {
		return rest.Route{Method: http.MethodGet, Pattern: pattern, Scope: atrium.ScopeContentRead, ForSites: true, Handle: handle}
	}
	return []rest.Route{
		route(page, a.getPage),
		route(page+"/audiences/{audience_id}", a.getAudience),
	}
}

// A page leaves out what is meant for operators: its name, context and metadata. Every member is
// published content, so the entity tag changes only when that does.
type page struct {
	PageID           atrium.PageID  `json:"pageId"`
	BrandID          string         `json:"brandId"`
	Title            string         `json:"title"`
	Actions          jsontext.Value `json:"actions"`
	Scripts          jsontext.Value `json:"scripts"`
	FooterLinks      jsontext.Value `json:"footerLinks"`
	HeaderActionID   *string        `json:"headerActionId,omitzero"`
	Audiences        []audience     `json:"audiences"`
	HasMore          bool           `json:"hasMore"`
	PreviewExpiresAt *atrium.Time   `json:"previewExpiresAt,omitzero"`
}

type audience struct {
	AudienceID       atrium.AudienceID `json:"audienceId"`
	VersionID        atrium.VersionID  `json:"versionId"`
	VersionNumber    int64             `json:"versionNumber"`
	Content          jsontext.Value    `json:"content,omitzero"`
	PreviewExpiresAt *atrium.Time      `json:"previewExpiresAt,omitzero"`
}

func newAudience(u atrium.AudienceContent) audience {
	return audience{AudienceID: u.AudienceID, VersionID: u.VersionID, VersionNumber: u.Number, Content: u.Content}
}

func newPage(c *atrium.Content) page {
	view := page{
		PageID: c.PageID, BrandID: c.BrandID, Title: c.Title, Actions: c.Actions, Scripts: c.Scripts, FooterLinks: c.FooterLinks,
		HeaderActionID: c.HeaderActionID, Audiences: make([]audience, len(c.Audiences)), HasMore: c.More,
	}
	for i, u := range c.Audiences {
		view.Audiences[i] = newAudience(u)
	}
	return view
}

// size returns the approximate size of a page in bytes.
func size(c *atrium.Content) int {
	bytes := len(c.Title) + len(c.Actions) + len(c.Scripts) + len(c.FooterLinks)
	for i := range c.Audiences {
		bytes += len(c.Audiences[i].Content)
	}
	return bytes
}

func (a *API) getPage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	preview, err := a.preview(ctx, who, r, id)
	switch {
	case err != nil:
		return rest.Response{}, err
	case preview != nil:
		return a.showPreview(ctx, r, preview, func(c *atrium.Content) any {
			view := newPage(c)
			view.PreviewExpiresAt = &preview.ExpiresAt
			return view
		})
	}
	return a.Cache.GetByKey(who.TenantID, string(id), func() (rest.Response, error) {
		c, err := a.Store.PublishedContent(ctx, who.TenantID, id, who.KeyID == "")
		if err != nil {
			return rest.Response{}, err
		}
		body, err := r.EncodeBody(ctx, size(&c), func() (rest.Encoded, error) { return rest.Encode(newPage(&c)) })
		return rest.Response{Body: body, Rows: 1 + len(c.Audiences), MaxAge: maxAge(c.Public, c.MaxAge)}, err
	})
}

func (a *API) getAudience(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	audienceID, err := rest.PathID[atrium.AudienceID](r, "audience_id")
	if err != nil {
		return rest.Response{}, err
	}
	preview, err := a.preview(ctx, who, r, id)
	switch {
	case err != nil:
		return rest.Response{}, err
	case preview != nil && preview.AudienceID != audienceID:
		return rest.Response{}, atrium.NotFound()
	case preview != nil:
		return a.showPreview(ctx, r, preview, func(c *atrium.Content) any {
			view := newAudience(c.Audiences[0])
			view.PreviewExpiresAt = &preview.ExpiresAt
			return view
		})
	}
	return a.Cache.GetByKey(who.TenantID, string(id)+string(audienceID), func() (rest.Response, error) {
		u, err := a.Store.PublishedAudience(ctx, who.TenantID, id, audienceID, who.KeyID == "")
		if err != nil {
			return rest.Response{}, err
		}
		body, err := r.EncodeBody(ctx, len(u.Content), func() (rest.Encoded, error) { return rest.Encode(newAudience(u)) })
		return rest.Response{Body: body, MaxAge: maxAge(u.Public, u.MaxAge)}, err
	})
}

// maxAge returns how long caches may keep a response; nil if it is not public.
func maxAge(public bool, seconds int64) *time.Duration {
	if !public {
		return nil
	}
	d := time.Duration(seconds) * time.Second
	return &d
}

// preview returns the preview of a page whose token is in the query; nil if there is no token.
func (a *API) preview(ctx context.Context, who auth.Principal, r *rest.Request, page atrium.PageID) (*atrium.Preview, error) {
	q := r.Query()
	token, ok := q.Text("preview")
	if err := q.Err(); err != nil || !ok {
		return nil, err
	}
	r.UseToken()
	p, err := a.Previews.Preview(ctx, r.Client(), token, func(ctx context.Context, id atrium.PreviewID) (atrium.Preview, []byte, error) {
		return a.Store.Preview(ctx, who.TenantID, page, id)
	})
	return &p, err
}

// showPreview returns what view makes of the content of a preview.
func (a *API) showPreview(ctx context.Context, r *rest.Request, p *atrium.Preview, view func(*atrium.Content) any) (rest.Response, error) {
	c, err := a.Store.PreviewedContent(ctx, *p)
	if err != nil {
		return rest.Response{}, err
	}
	body, err := r.EncodeBody(ctx, size(&c), func() (rest.Encoded, error) { return rest.Encode(view(&c)) })
	return rest.Response{Body: body}, err
}
