package external

import (
	"context"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

func (a *API) getAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	return a.Kept.Answer(r, who.TenantID, string(id), func() (rest.Response, bool, error) {
		found, linked, err := a.Store.Account(ctx, who.TenantID, id)
		if err != nil {
			return rest.Response{}, false, err
		}
		return accountResponse(found, linked), found.ID == id, nil // entries change what it leads to
	})
}

func (a *API) updateAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name string
	err := r.DecodeBody(ctx, func() (err error) {
		name, err = decodeAccountUpdate(r.Body)
		return err
	})
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	check := func(current atrium.Account, linked []atrium.Prospect) error {
		return r.CheckIfMatch(resource.NewAccountTag(current, linked, nil).SameFields)
	}
	renamed, linked, err := a.Store.RenameAccount(ctx, r.ChangeBy(who), id, name, check)
	if err != nil {
		return rest.Response{}, err
	}
	return accountResponse(renamed, linked), nil
}

func decodeAccountUpdate(body []byte) (name string, err error) {
	o, err := strictjson.Parse(body)
	if err != nil {
		return "", err
	}
	name, _ = o.Text("name", strictjson.Required, func(text string) string { return atrium.CheckText(text, 1, atrium.MaxName) })
	if faults := o.Faults(); len(faults) > 0 {
		return "", atrium.Invalid(faults...)
	}
	return name, nil
}

func accountResponse(a atrium.Account, linked []atrium.Prospect) rest.Response {
	return rest.Response{Body: &resource.AccountBody{Account: a, Linked: linked}, ETag: resource.NewAccountTag(a, linked, nil).String()}
}
