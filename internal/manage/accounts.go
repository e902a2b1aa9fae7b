package manage

import (
	"context"
	"errors"
	"io"
	"net/http"

	"atrium"
	"atrium/internal/auth"
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

func newAccount(d *atrium.AccountDetail) account {
	return account{resource.NewAccount(d.Account, d.Prospects), mergedAccounts(d)}
}

func mergedAccounts(d *atrium.AccountDetail) []mergedAccount {
	shown := make([]mergedAccount, len(d.Merged))
	for i := range d.Merged {
		shown[i] = newMergedAccount(&d.Merged[i])
	}
	return shown
}

func newMergedAccount(m *atrium.MergedAccount) mergedAccount {
	shown := mergedAccount{AccountID: m.ID, Domain: m.Domain, MergedInto: m.MergedInto}
	if m.Name != "" {
		shown.Name = &m.Name
	}
	return shown
}

// changedAccount returns the response to a change, with the account as it was committed.
func (a *API) changedAccount(d atrium.AccountDetail, err error) (rest.Response, error) {
	if err != nil {
		return rest.Response{}, err
	}
	if d.Partial() {
		return rest.Response{Document: func(ctx context.Context, send func(rest.DocumentWriter) error) error {
			return a.Store.ReadChanged(ctx, d, sendAccount(send))
		}}, nil
	}
	return accountResponse(&d), nil
}

func accountResponse(d *atrium.AccountDetail) rest.Response {
	return rest.Response{Body: newAccount(d), ETag: resource.NewAccountTag(d.Account, d.Prospects, d.Merged).String()}
}

// sendAccount returns a function that streams an account in the form of newAccount.
func sendAccount(send func(rest.DocumentWriter) error) func(atrium.AccountDetail) error {
	return func(d atrium.AccountDetail) error {
		return send(func(w io.Writer) (string, error) {
			tag, err := resource.WriteAccount(w, &d, d.EachMerged, func(m *atrium.MergedAccount) ([]byte, error) {
				return rest.Encode(newMergedAccount(m))
			})
			return tag.String(), err
		})
	}
}

// checkAccount returns a function that checks an account against If-Match, or nil if the
// request has no such header.
func checkAccount(r *rest.Request) func(atrium.AccountDetail) error {
	if len(r.Header("If-Match")) == 0 {
		return nil
	}
	return func(d atrium.AccountDetail) error {
		tag, err := resource.DetailTag(&d, d.EachMerged)
		if err != nil {
			return err
		}
		return r.CheckIfMatch(tag.SameFields)
	}
}

func (a *API) createAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var domain, name string
	c, err := r.DecodeCreate(who, func(o *strictjson.Object) {
		domain, _ = o.Text("domain", strictjson.Required, atrium.CheckDomain)
		name, _ = o.Text("name", strictjson.Nullable, checkName)
	})
	if err != nil {
		return rest.Response{}, err
	}
	d, replayed, err := a.Store.CreateAccount(ctx, c, domain, name)
	response, err := a.changedAccount(d, err)
	made := rest.Created(response.Body, replayed)
	response.Status, response.Header = made.Status, made.Header
	return response, err
}

// An accountSummary is an account without its prospects.
type accountSummary struct {
	accountItem
	Merged []mergedAccount `json:"merged,omitzero"` // nil if their domains are too large
}

func (a *API) getAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	q := r.Query()
	prospects := boolParameter(q, "linkedProspects")
	if err := q.Err(); err != nil {
		return rest.Response{}, err
	}
	id, err := rest.PathID[atrium.AccountID](r, "account_id")
	if err != nil {
		return rest.Response{}, err
	}
	if prospects != nil && !*prospects {
		d, err := a.Store.AccountGroup(ctx, who.TenantID, id)
		summary := accountSummary{accountItem: newAccountItem(d.Account)}
		if !d.MoreMerged {
			summary.Merged = mergedAccounts(&d)
		}
		return rest.Response{Body: summary}, err
	}
	d, err := a.Store.AccountDetail(ctx, who.TenantID, id)
	if errors.Is(err, atrium.ErrPartial) {
		return rest.Response{Document: func(ctx context.Context, send func(rest.DocumentWriter) error) error {
			return a.Store.ReadAccount(ctx, who.TenantID, id, sendAccount(send))
		}}, nil
	}
	return accountResponse(&d), err
}

func (a *API) updateAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var u atrium.AccountUpdate
	c, id, err := rest.DecodeChangeOf[atrium.AccountID](r, who, "account_id", func(o *strictjson.Object) {
		if o.Has("name") { // null removes the name
			name, _ := o.Text("name", strictjson.Nullable, checkName)
			u.Name = &name
		}
		if domain := optionalText(o, "domain", atrium.CheckDomain); domain != nil {
			u.Domain = *domain
		}
		requireMember(o)
	})
	if err != nil {
		return rest.Response{}, err
	}
	check := checkAccount(r)
	if check == nil { // without If-Match, the account must still exist
		check = func(atrium.AccountDetail) error { return r.RequireIfMatch(nil) }
	}
	return a.changedAccount(a.Store.UpdateAccount(ctx, c, id, u, check))
}

func (a *API) mergeAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	return a.regroupAccount(ctx, who, r, "into", a.Store.MergeAccounts)
}

func (a *API) splitAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	return a.regroupAccount(ctx, who, r, "accountId", a.Store.SplitAccount)
}

// regroupAccount calls do with the account in the path and the account that a member of
// the body names.
func (a *API) regroupAccount(ctx context.Context, who auth.Principal, r *rest.Request, member string,
	do func(context.Context, atrium.Change, atrium.AccountID, atrium.AccountID, func(atrium.AccountDetail) error) (atrium.AccountDetail, error),
) (rest.Response, error) {
	var other string
	c, id, err := rest.DecodeChangeOf[atrium.AccountID](r, who, "account_id", func(o *strictjson.Object) {
		other, _ = o.Text(member, strictjson.Required, checkID[atrium.AccountID])
	})
	if err != nil {
		return rest.Response{}, err
	}
	return a.changedAccount(do(ctx, c, id, atrium.AccountID(other), checkAccount(r)))
}

// An accountErasure is the response to an erasure that is not complete yet.
type accountErasure struct {
	EntriesDeleted bool `json:"entriesDeleted"`
}

func (a *API) eraseAccount(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	c, id, err := rest.DecodeChangeOf[atrium.AccountID](r, who, "account_id", nil)
	if err != nil {
		return rest.Response{}, err
	}
	done, err := a.Store.EraseAccount(ctx, c, id, checkAccount(r))
	if done {
		return rest.NoContent, err
	}
	return rest.Response{Status: http.StatusAccepted, Body: accountErasure{}}, err
}
