package manage

import (
	"context"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// A page in a list has neither its metadata nor its schedule.
//
// The entity tag covers audiencesCount and the schedule. Only operators change them, and
// rarely: a concurrent edit of the page then fails with 412, and its client reads again.
type page struct {
	PageID         atrium.PageID     `json:"pageId"`
	TenantID       atrium.TenantID   `json:"tenantId"`
	BrandID        string            `json:"brandId"`
	Name           string            `json:"name"`
	Title          string            `json:"title"`
	PageContext    string            `json:"pageContext"`
	Status         atrium.PageStatus `json:"status"`
	Actions        jsontext.Value    `json:"actions"`
	Scripts        jsontext.Value    `json:"scripts"`
	FooterLinks    jsontext.Value    `json:"footerLinks"`
	Public         bool              `json:"public"`
	MaxAgeSeconds  int64             `json:"maxAgeSeconds"`
	AudiencesCount int64             `json:"audiencesCount"`
	CreatedAt      atrium.Time       `json:"createdAt"`
	UpdatedAt      atrium.Time       `json:"updatedAt"`
	DeletedAt      *atrium.Time      `json:"deletedAt"`
	HeaderActionID *string           `json:"headerActionId,omitzero"`
	Metadata       jsontext.Value    `json:"metadata,omitzero"`
	Schedule       *schedule         `json:"schedule,omitzero"`
}

type schedule struct {
	PublishAt   *atrium.Time `json:"publishAt,omitzero"`
	UnpublishAt *atrium.Time `json:"unpublishAt,omitzero"`
}

func newListedPage(p atrium.Page) page {
	return page{
		PageID: p.ID, TenantID: p.TenantID, BrandID: p.BrandID, Name: p.Name, Title: p.Title, PageContext: p.Context, Status: p.Status,
		Actions: p.Actions, Scripts: p.Scripts, FooterLinks: p.FooterLinks, Public: p.Public, MaxAgeSeconds: p.MaxAge, AudiencesCount: p.AudiencesCount,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt, DeletedAt: p.DeletedAt, HeaderActionID: p.HeaderActionID,
	}
}

func newPage(p atrium.ScheduledPage) page {
	view := newListedPage(p.Page)
	view.Metadata = p.Metadata
	view.Schedule = &schedule{p.Schedule.PublishAt, p.Schedule.UnpublishAt}
	return view
}

func (a *API) listPages(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	limit := q.Limit()
	var filter atrium.PageFilter
	if text, ok := q.Text("status"); ok {
		if filter.Status = atrium.PageStatus(text); !filter.Status.Valid() {
			q.Fault("status", "must be one of archived, draft, published")
		}
	}
	if text, ok := q.Text("brandId"); ok {
		filter.BrandID = atrium.BrandID(text)
		if fault := checkID[atrium.BrandID](text); fault != "" {
			q.Fault("brandId", fault)
		}
	}
	if deleted := boolParameter(q, "deleted"); deleted != nil {
		filter.Deleted = *deleted
	}
	binding := []string{string(who.TenantID), "manage pages", string(filter.Status), string(filter.BrandID), strconv.FormatBool(filter.Deleted)}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.FilteredPages(ctx, who.TenantID, filter, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponseTo(a.Cursors, found, next, limit, newListedPage, binding), nil
}

// pageEdit decodes the members of a new page or of a change.
func pageEdit(o *strictjson.Object, presence strictjson.Presence) (edit atrium.PageEdit) {
	if text, ok := o.Text("brandId", presence, checkID[atrium.BrandID]); ok {
		id := atrium.BrandID(text)
		edit.BrandID = &id
	}
	if text, ok := o.Text("name", presence, checkName); ok {
		edit.Name = &text
	}
	edit.Title = optionalText(o, "title", func(text string) string { return atrium.CheckText(text, 0, atrium.MaxName) })
	edit.Context = optionalText(o, "pageContext", func(text string) string { return atrium.CheckText(text, 0, atrium.Unbounded) })
	edit.Actions = compactJSON(o.Array("actions", strictjson.Optional))
	edit.Scripts = compactJSON(o.Array("scripts", strictjson.Optional))
	edit.FooterLinks = compactJSON(o.Array("footerLinks", strictjson.Optional))
	if text, _ := o.Text("headerActionId", strictjson.Nullable, checkName); o.Has("headerActionId") {
		edit.HeaderActionID = &text
	}
	edit.Metadata = compactJSON(o.Value("metadata"))
	if o.Has("public") {
		public := o.Bool("public")
		edit.Public = &public
	}
	if o.Has("maxAgeSeconds") {
		seconds := o.Integer("maxAgeSeconds", 0, atrium.MaxMaxAge)
		edit.MaxAge = &seconds
	}
	return edit
}

func (a *API) createPage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	p := atrium.Page{Actions: []byte("[]"), Scripts: []byte("[]"), FooterLinks: []byte("[]"), MaxAge: atrium.DefaultMaxAge}
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		edit := pageEdit(o, strictjson.Required)
		edit.Apply(&p)
	})
	if err != nil {
		return rest.Response{}, err
	}
	made, replayed, err := a.Store.CreatePage(ctx, c, p)
	return rest.Created(newPage(made), replayed), err
}

func (a *API) getPage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.PageID](r, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.ScheduledPage(ctx, who.TenantID, id)
	return rest.Response{Body: newPage(p)}, err
}

func (a *API) updatePage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var edit atrium.PageEdit
	c, id, err := rest.DecodeChangeOf[atrium.PageID](r, who, "page_id", func(o *strictjson.Object) {
		edit = pageEdit(o, strictjson.Optional)
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.UpdatePage(ctx, c, id, edit, func(p atrium.ScheduledPage) error { return r.RequireState(newPage(p)) })
	return rest.Response{Body: newPage(p), Tagged: true}, err
}

// checkPage returns a function that checks a page against If-Match, if the request has it.
func checkPage(r *rest.Request) func(atrium.ScheduledPage) error {
	return func(p atrium.ScheduledPage) error { return r.CheckState(newPage(p)) }
}

// transitionPage returns the handler of a transition.
func (a *API) transitionPage(t atrium.PageTransition) rest.Handler {
	return func(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
		c, id, err := commandFor[atrium.PageID](r, who, "page_id")
		if err != nil {
			return rest.Response{}, err
		}
		p, err := a.Store.TakePage(ctx, c, id, t, checkPage(r))
		return rest.Response{Body: newPage(p), Tagged: true}, err
	}
}

// commandFor decodes a request with an empty body and the identifier in its path.
func commandFor[T atrium.Identifier](r *rest.Request, who auth.Principal, name string) (atrium.Change, T, error) {
	c, err := r.DecodeChange(who, nil)
	if err != nil {
		return c, "", err
	}
	id, err := rest.PathID[T](r, name)
	return c, id, err
}

func (a *API) deletePage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := commandFor[atrium.PageID](r, who, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.DeletePage(ctx, c, id, checkPage(r))
}

func (a *API) undeletePage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := commandFor[atrium.PageID](r, who, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.UndeletePage(ctx, c, id, checkPage(r))
	return rest.Response{Body: newPage(p), Tagged: true}, err
}

func (a *API) schedulePage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var s atrium.Schedule
	c, id, err := rest.DecodeChangeOf[atrium.PageID](r, who, "page_id", func(o *strictjson.Object) {
		s.PublishAt, s.UnpublishAt = optionalTime(o, "publishAt"), optionalTime(o, "unpublishAt")
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.SchedulePage(ctx, c, id, s, checkPage(r))
	return rest.Response{Body: newPage(p), Tagged: true}, err
}

func (a *API) unschedulePage(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := commandFor[atrium.PageID](r, who, "page_id")
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.UnschedulePage(ctx, c, id, checkPage(r))
}
