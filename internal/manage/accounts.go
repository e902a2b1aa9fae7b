package manage

import (
	"context"
	"net/http"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

type account struct {
	resource.Account
	Merged []mergedAccount `json:"merged"`
}

type mergedAccount struct {
	AccountID  atrium.AccountID `json:"accountId"`
	Domain     string           `json:"domain"`
	Name       *string          `json:"name"`
	MergedInto atrium.AccountID `json:"mergedInto"`
}

func newAccount(d atrium.AccountDetail) account {
	shown := account{resource.NewAccount(d.Account, d.Prospects), make([]mergedAccount, len(d.Merged))}
	for i := range d.Merged {
		m := &d.Merged[i]
		shown.Merged[i] = mergedAccount{AccountID: m.ID, Domain: m.Domain, MergedInto: m.MergedInto}
		if m.Name != "" {
			shown.Merged[i].Name = &m.Name
		}
	}
	return shown
}

func accountTag(d atrium.AccountDetail) resource.AccountTag {
	return resource.NewAccountTag(d.Account, d.Prospects, d.Merged)
}

// accountAnswer answers with an account, unless there was an error.
func accountAnswer(d atrium.AccountDetail, err error) (rest.Response, error) {
	return rest.Response{Body: newAccount(d), ETag: accountTag(d).String()}, err
}

// sameAccount returns what compares an account as it stands with If-Match, if the
// request has it.
func sameAccount(r *rest.Request) func(atrium.AccountDetail) error {
	return func(d atrium.AccountDetail) error { return r.CheckIfMatch(accountTag(d).SameFields) }
}

func (a *API) createAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var domain, name string
	c, err := r.Making(who, func(o *strictjson.Object) {
		domain, _ = o.Text("domain", strictjson.Required, atrium.CheckDomain)
		name, _ = o.Text("name", strictjson.Nullable, checkName)
	})
	if err != nil {
		return rest.Response{}, err
	}
	d, replayed, err := a.Store.CreateAccount(ctx, c, canonical.Domain(domain), name)
	response := rest.Made(newAccount(d), replayed)
	response.ETag = accountTag(d).String()
	return response, err
}

func (a *API) getAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	return accountAnswer(a.Store.AccountDetail(ctx, who.TenantID, id))
}

func (a *API) updateAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var u atrium.AccountUpdate
	c, err := r.Change(who, func(o *strictjson.Object) {
		if o.Has("name") { // null takes it away
			name, _ := o.Text("name", strictjson.Nullable, checkName)
			u.Name = &name
		}
		if domain := textIfGiven(o, "domain", atrium.CheckDomain); domain != nil {
			u.Domain = canonical.Domain(*domain)
		}
		needMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	return accountAnswer(a.Store.UpdateAccount(ctx, c, id, u, func(d atrium.AccountDetail) error {
		return r.RequireIfMatch(accountTag(d).SameFields)
	}))
}

func (a *API) mergeAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	return regroupAccount(ctx, who, r, "into", a.Store.MergeAccounts)
}

func (a *API) splitAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	return regroupAccount(ctx, who, r, "accountId", a.Store.SplitAccount)
}

// regroupAccount does what is done with an account and another one, which a member of
// the body names.
func regroupAccount(ctx context.Context, who auth.Principal, r *rest.Request, member string,
	do func(context.Context, atrium.Change, atrium.AccountID, atrium.AccountID, func(atrium.AccountDetail) error) (atrium.AccountDetail, error),
) (rest.Response, error) {
	var other string
	c, err := r.Change(who, func(o *strictjson.Object) {
		other, _ = o.Text(member, strictjson.Required, checkID[atrium.AccountID])
	})
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	return accountAnswer(do(ctx, c, id, atrium.AccountID(other), sameAccount(r)))
}

// An erasure is the answer to one that goes on.
type erasure struct {
	EntriesDeleted bool `json:"entriesDeleted"`
}

func (a *API) eraseAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, err := r.Change(who, nil)
	if err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	done, err := a.Store.EraseAccount(ctx, c, id, sameAccount(r))
	if done {
		return rest.NoContent, err
	}
	return rest.Response{Status: http.StatusAccepted, Body: erasure{}}, err
}
