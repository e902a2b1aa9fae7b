package external

import (
	"context"
	"errors"
	"io"

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
	return a.Cache.Get(r, who.TenantID, string(id), func() (rest.Response, bool, error) {
		found, linked, err := a.Store.Account(ctx, who.TenantID, id)
		if errors.Is(err, atrium.ErrPartial) {
			return rest.Response{Document: a.readAccount(who.TenantID, id)}, false, nil
		}
		if err != nil {
			return rest.Response{}, false, err
		}
		return accountResponse(found, linked), found.ID == id, nil // entries can change where a merged account leads
	})
}

func (a *API) updateAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var name string
	err := r.DecodeBody(ctx, func() (err error) {
		name, err = decodeAccountUpdate(r)
		return err
	})
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	var check func(atrium.AccountDetail) error
	if len(r.Header("If-Match")) > 0 {
		check = func(current atrium.AccountDetail) error {
			tag, err := resource.DetailTag(&current, nil)
			if err != nil {
				return err
			}
			return r.CheckIfMatch(tag.SameFields)
		}
	}
	renamed, err := a.Store.RenameAccount(ctx, r.NewChange(who), id, name, check)
	if err != nil {
		return rest.Response{}, err
	}
	if renamed.More {
		return rest.Response{Document: func(ctx context.Context, send func(rest.DocumentWriter) error) error {
			return a.Store.ReadChanged(ctx, renamed, sendAccount(send))
		}}, nil
	}
	return accountResponse(renamed.Account, renamed.Prospects), nil
}

// readAccount returns the document of an account.
func (a *API) readAccount(tenant atrium.TenantID, id atrium.AccountID) rest.Document {
	return func(ctx context.Context, send func(rest.DocumentWriter) error) error {
		return a.Store.ReadAccount(ctx, tenant, id, sendAccount(send))
	}
}

// sendAccount returns a function that sends an account.
func sendAccount(send func(rest.DocumentWriter) error) func(atrium.AccountDetail) error {
	return func(d atrium.AccountDetail) error {
		return send(func(w io.Writer) (string, error) {
			tag, err := resource.WriteAccount(w, &d, nil, nil)
			return tag.String(), err
		})
	}
}

func decodeAccountUpdate(r *rest.Request) (name string, err error) {
	o, err := strictjson.Parse(r.Body)
	if err != nil {
		return "", err
	}
	name, _ = o.Text("name", strictjson.Required, func(text string) string {
		return atrium.CheckText(text, 1, atrium.MaxName)
	})
	r.IgnoreUnknown(o)
	if faults := o.Faults(); len(faults) > 0 {
		return "", atrium.Invalid(faults...)
	}
	return name, nil
}

func accountResponse(a atrium.Account, linked []atrium.Prospect) rest.Response {
	return rest.Response{
		Body: resource.NewAccount(a, linked),
		ETag: resource.NewAccountTag(a, linked, nil).String(),
		Rows: 1 + len(linked),
	}
}
