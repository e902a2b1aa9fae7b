package manage

import (
	"context"
	"net/http"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// A prospectItem is a prospect as lists show it.
type prospectItem struct {
	ProspectID         atrium.ProspectID `json:"prospectId"`
	TenantID           atrium.TenantID   `json:"tenantId"`
	Name               *string           `json:"name,omitzero"`
	Email              *string           `json:"email,omitzero"`
	Domain             *string           `json:"domain,omitzero"`
	Slug               *string           `json:"slug,omitzero"`
	PhoneNumber        *string           `json:"phoneNumber,omitzero"`
	LinkedinProfileURL *string           `json:"linkedinProfileUrl,omitzero"`
	CreatedAt          atrium.Time       `json:"createdAt"`
	UpdatedAt          atrium.Time       `json:"updatedAt"`
	Warnings           []warning         `json:"warnings"`
}

type warning struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

func newProspectItem(p atrium.Prospect) prospectItem {
	item := prospectItem{
		p.ID, p.TenantID, p.Name, p.Email, p.Domain, p.Slug, p.PhoneNumber, p.LinkedinProfileURL, p.CreatedAt, p.UpdatedAt, nil,
	}
	for _, w := range p.Warnings() {
		item.Warnings = append(item.Warnings, warning{w.Where, w.Detail})
	}
	return item
}

// A prospect has the accounts that it is linked to.
type prospect struct {
	prospectItem
	AccountIDs        []atrium.AccountID `json:"accountIds"`
	AccountIDsHasMore bool               `json:"accountIdsHasMore"`
}

func newProspect(p atrium.LinkedProspect) prospect {
	return prospect{newProspectItem(p.Prospect), p.AccountIDs, p.More}
}

func (a *API) listProspects(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	var f atrium.ProspectFilter
	limit := q.Limit()
	words, given := wordsParameter(q)
	f.Words = words
	f.AccountID = atrium.AccountID(textParameter(q, "accountId", checkID[atrium.AccountID]))
	binding := []string{string(who.TenantID), "prospects", given, string(f.AccountID)}
	after := q.Cursor(a.Cursors, binding...)
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	found, next, err := a.Store.Prospects(ctx, who.TenantID, f, after, limit)
	if err != nil {
		return rest.Response{}, err
	}
	return pageResponseTo(a.Cursors, found, next, limit, newProspectItem, binding), nil
}

// prospectTexts are the members of a prospect that operators can set.
var prospectTexts = []struct {
	name string
	of   func(*atrium.Prospect) **string
}{
	{"name", func(p *atrium.Prospect) **string { return &p.Name }},
	{"email", func(p *atrium.Prospect) **string { return &p.Email }},
	{"domain", func(p *atrium.Prospect) **string { return &p.Domain }},
	{"slug", func(p *atrium.Prospect) **string { return &p.Slug }},
	{"phoneNumber", func(p *atrium.Prospect) **string { return &p.PhoneNumber }},
	{"linkedinProfileUrl", func(p *atrium.Prospect) **string { return &p.LinkedinProfileURL }},
}

// decodeProspect decodes the texts of a prospect and returns a function that sets the
// given ones. null removes a text.
func decodeProspect(o *strictjson.Object) (edit func(*atrium.Prospect)) {
	given := map[string]*string{}
	for _, text := range prospectTexts {
		if !o.Has(text.name) {
			continue
		}
		given[text.name] = nil
		if value, ok := o.Text(text.name, strictjson.Nullable, func(s string) string { return atrium.CheckText(s, 0, atrium.MaxProspectText) }); ok {
			given[text.name] = &value
		}
	}
	requireMember(o)
	return func(p *atrium.Prospect) {
		for _, text := range prospectTexts {
			if value, ok := given[text.name]; ok {
				*text.of(p) = value
			}
		}
	}
}

func (a *API) createProspect(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var given atrium.Prospect
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) { decodeProspect(o)(&given) })
	if err != nil {
		return rest.Response{}, err
	}
	p, replayed, err := a.Store.CreateProspect(ctx, c, given)
	return rest.Created(newProspect(p), replayed), err
}

func (a *API) getProspect(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.ProspectID](r, "prospect_id")
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.Prospect(ctx, who.TenantID, id)
	return rest.Response{Body: newProspect(p)}, err
}

func (a *API) updateProspect(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var edit func(*atrium.Prospect)
	c, err := r.DecodeChange(who, func(o *strictjson.Object) { edit = decodeProspect(o) })
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.ProspectID](r, "prospect_id")
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.UpdateProspect(ctx, c, id, edit, func(p atrium.LinkedProspect) error { return r.RequireState(newProspect(p)) })
	return rest.Response{Body: newProspect(p), Tagged: true}, err
}

// A deletion is the response to a deletion whose data is not purged yet.
type deletion struct {
	Purged bool `json:"purged"`
}

func (a *API) deleteProspect(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.ProspectID](r, who, "prospect_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	done, err := a.Store.DeleteProspect(ctx, c, id, checkProspect(r))
	if done {
		return rest.NoContent, err
	}
	return rest.Response{Status: http.StatusAccepted, Body: deletion{}}, err
}

func (a *API) linkProspect(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, account, id, err := decodeLink(who, r)
	if err != nil {
		return rest.Response{}, err
	}
	p, err := a.Store.LinkProspect(ctx, c, account, id, checkProspect(r))
	return rest.Response{Body: newProspect(p), Tagged: true}, err
}

func (a *API) unlinkProspect(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, account, id, err := decodeLink(who, r)
	if err != nil {
		return rest.Response{}, err
	}
	return rest.NoContent, a.Store.UnlinkProspect(ctx, c, account, id, checkProspect(r))
}

// decodeLink decodes a request about a link.
func decodeLink(who auth.Principal, r *rest.Request) (c atrium.Change, account atrium.AccountID, id atrium.ProspectID, err error) {
	if c, err = r.DecodeChange(who, nil); err != nil {
		return c, "", "", err
	}
	if account, err = rest.PathID[atrium.AccountID](r, "account_id"); err != nil {
		return c, "", "", err
	}
	id, err = rest.PathID[atrium.ProspectID](r, "prospect_id")
	return c, account, id, err
}

// checkProspect returns a function that checks a prospect against If-Match, if the request
// has it.
func checkProspect(r *rest.Request) func(atrium.LinkedProspect) error {
	return func(p atrium.LinkedProspect) error { return r.CheckState(newProspect(p)) }
}
