package manage

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/canonical"
	"atrium/internal/mapping"
	"atrium/internal/provider"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
)

// Limits of a trial.
const (
	maxTrialHeaders = 100
	maxTrialHeader  = 8 << 10 // code points of the value of a header, and of a query
	maxTrialResults = 20      // elements that are listed
)

// A receiverTrial is a request that could be sent to a receiver, a sample of its provider or a delivery in quarantine, and what
// to try it with.
type receiverTrial struct {
	quarantinedID atrium.QuarantinedID // "" for none
	sample        bool
	request       provider.Request
	change        func(*atrium.ReceiverSpec)
	secret        string // instead of those of the receiver; "" for these
}

// A trialResult is what would become of an element of a delivery.
type trialResult struct {
	Filtered       bool             `json:"filtered"`
	Source         string           `json:"source,omitzero"`
	Type           string           `json:"type,omitzero"`
	AccountID      atrium.AccountID `json:"accountId,omitzero"`
	Domain         string           `json:"domain,omitzero"`
	Name           string           `json:"name,omitzero"`
	OccurredAt     *atrium.Time     `json:"occurredAt,omitzero"`
	IdempotencyKey string           `json:"idempotencyKey,omitzero"`
	Account        *trialAccount    `json:"account,omitzero"`
	Fault          string           `json:"fault,omitzero"`
}

// A trialAccount is the account that an entry would go to. It has no identifier if it would be created.
type trialAccount struct {
	AccountID atrium.AccountID `json:"accountId,omitzero"`
	Domain    string           `json:"domain,omitzero"`
	Name      string           `json:"name,omitzero"`
	New       bool             `json:"new"`
}

type trialView struct {
	Verified *bool         `json:"verified,omitzero"` // absent unless a request was tried
	Reason   string        `json:"reason,omitzero"`
	Fault    string        `json:"fault,omitzero"`
	Elements int           `json:"elements"`
	Results  []trialResult `json:"results"`
}

// tryReceiver stores nothing.
func (a *API) tryReceiver(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var trial receiverTrial
	if _, err := r.DecodeChange(who, func(o *strictjson.Object) { trial = decodeTrial(o) }); err != nil {
		return rest.Response{}, err
	}
	found, err := a.findReceiver(ctx, who, r)
	if err != nil {
		return rest.Response{}, err
	}
	trial.change(&found.ReceiverSpec)
	if err := checkVerification(&found.ReceiverSpec); err != nil {
		return rest.Response{}, err
	}
	view := trialView{Results: []trialResult{}}
	sent := &trial.request
	switch {
	case trial.sample:
		sent.Headers, sent.Body = provider.Of(found.Provider).Sample()
	case trial.quarantinedID != "":
		d, err := a.Store.QuarantinedDelivery(ctx, who.TenantID, found.ID, trial.quarantinedID)
		if err != nil {
			return rest.Response{}, err
		}
		sent.Headers, sent.Query, sent.Body = d.Headers, d.Query, d.Body
	default:
		if err := a.verifyTrial(ctx, &found, &trial, &view); err != nil {
			return rest.Response{}, err
		}
	}
	hold, release := r.HoldMemory()
	defer release()
	results, fault, err := a.mapTrial(ctx, r, &found, sent, hold)
	if err != nil {
		return rest.Response{}, err
	}
	view.Fault, view.Elements = fault, len(results)
	for i := range results[:min(len(results), maxTrialResults)] {
		shown, err := a.newTrialResult(ctx, who, &results[i])
		if err != nil {
			return rest.Response{}, err
		}
		view.Results = append(view.Results, shown)
	}
	return rest.Response{Body: view}, nil
}

// verifyTrial says whether the request of a trial is verified, and removes the headers that authenticate it.
func (a *API) verifyTrial(ctx context.Context, found *atrium.Receiver, trial *receiverTrial, view *trialView) error {
	secrets := [][]byte{[]byte(trial.secret)}
	if trial.secret == "" {
		_, stored, err := a.Store.FindReceiver(ctx, found.ID)
		if err != nil {
			return err
		}
		secrets = secrets[:0]
		for _, s := range stored {
			secrets = append(secrets, s.Value)
		}
	}
	sent := &trial.request
	sent.URL, sent.Now = a.PublicURL+"/in/"+string(found.ID), a.Store.Now()
	if sent.Query != "" {
		sent.URL += "?" + sent.Query
	}
	reason := provider.Verify(found.Provider, sent, secrets, &found.Verification)
	view.Verified, view.Reason = new(reason == ""), string(reason)
	sent.Headers = provider.Of(found.Provider).WithoutCredentials(sent.Headers, &found.Verification)
	return nil
}

// mapTrial returns what the elements of a delivery become, or why it cannot be mapped. hold counts the memory of both, also while
// this waits for a processor.
func (a *API) mapTrial(
	ctx context.Context, r *rest.Request, found *atrium.Receiver, sent *provider.Request, hold func(bytes int64) error,
) (results []mapping.Result, fault string, err error) {
	uses := func(memory int) error { return hold(int64(len(sent.Body)+memory) - rest.FreeMemory) }
	if err := uses(0); err != nil {
		return nil, "", err
	}
	err = r.HeavilyPausing(ctx, func(pause func() error) error {
		compiled, err := mapping.Compile(found.ID, &found.ReceiverSpec)
		if err == nil {
			results, err = compiled.Map(&mapping.Delivery{Headers: sent.Headers, Query: sent.Query, Body: sent.Body}, a.maxPayload(), func(memory int) (*mapping.Mapping, error) {
				if err := uses(memory); err != nil {
					return nil, err
				}
				if err := pause(); err != nil {
					return nil, err
				}
				return mapping.Compile(found.ID, &found.ReceiverSpec)
			})
		}
		_, uncompiled := errors.AsType[*mapping.Error](err)
		if _, unmapped := errors.AsType[*mapping.Fault](err); unmapped || uncompiled {
			fault, err = err.Error(), nil
		}
		return cmp.Or(err, uses(mapping.Memory(results)))
	})
	return results, fault, err
}

// newTrialResult returns what would become of an element.
func (a *API) newTrialResult(ctx context.Context, who auth.Principal, m *mapping.Result) (trialResult, error) {
	if m.Filtered {
		return trialResult{Filtered: true}, nil
	}
	v := trialResult{
		Source: m.Source, Type: m.Type, AccountID: m.Claim.AccountID, Domain: m.Claim.Domain, Name: m.Claim.Name, OccurredAt: m.OccurredAt, IdempotencyKey: m.IdempotencyKey,
	}
	found, err := a.accountOf(ctx, who.TenantID, &m.Claim)
	switch {
	case err == nil:
		v.Account = &trialAccount{AccountID: found.ID, Domain: found.Domain, Name: found.Name}
	case atrium.CodeOf(err) != atrium.CodeNotFound:
		return v, err
	case v.AccountID != "":
		v.AccountID, v.Fault = "", "accountId: there is no such account"
	case v.Domain != "":
		v.Account = &trialAccount{Domain: canonical.Domain(v.Domain), Name: v.Name, New: true}
	default:
		v.Account = &trialAccount{Domain: atrium.UnattributedDomain, New: true}
	}
	return v, nil
}

// accountOf returns the account that an entry with a claim goes to, or NotFound if it is not stored.
func (a *API) accountOf(ctx context.Context, tenant atrium.TenantID, claim *atrium.Claim) (atrium.Account, error) {
	switch {
	case claim.AccountID != "":
		d, err := a.Store.AccountGroup(ctx, tenant, claim.AccountID)
		return d.Account, err
	case claim.Domain != "":
		found, _, err := a.Store.Accounts(ctx, tenant, atrium.AccountFilter{Domain: claim.Domain}, atrium.AccountsNewest, nil, 1)
		if err != nil || len(found) == 0 {
			return atrium.Account{}, cmp.Or(err, error(atrium.NotFound()))
		}
		return found[0], nil
	default:
		return a.Store.AccountOfName(ctx, tenant, claim.Name)
	}
}

func decodeTrial(o *strictjson.Object) (t receiverTrial) {
	id, _ := o.Text("quarantinedId", strictjson.Optional, checkID[atrium.QuarantinedID])
	t.quarantinedID = atrium.QuarantinedID(id)
	t.sample = o.Bool("sample")
	given := 0
	for _, is := range []bool{o.Has("request"), o.Has("quarantinedId"), t.sample} {
		if is {
			given++
		}
	}
	switch inner := o.Inner("request", strictjson.Optional); {
	case given != 1:
		o.WholeFault("must have one of request, sample and quarantinedId")
	case inner != nil:
		t.request = decodeTrialRequest(inner)
	}
	t.secret = decodeReceiverSecret(o)
	t.change = decodeReceiverChange(o)
	return t
}

func decodeTrialRequest(o *strictjson.Object) (r provider.Request) {
	r.Method = "POST"
	upTo := func(text string) string { return atrium.CheckText(text, 0, maxTrialHeader) }
	if headers := o.Inner("headers", strictjson.Optional); headers != nil {
		names := headers.Names()
		if len(names) > maxTrialHeaders {
			headers.WholeFault("must have at most 100 headers")
			names = nil
		}
		for _, name := range names {
			value, _ := headers.Text(name, strictjson.Required, upTo)
			r.Headers = append(r.Headers, atrium.Header{Name: strings.ToLower(name), Value: value})
		}
		slices.SortStableFunc(r.Headers, func(a, b atrium.Header) int { return strings.Compare(a.Name, b.Name) })
	}
	r.Query, _ = o.Text("query", strictjson.Optional, upTo)
	body, _ := o.Text("body", strictjson.Optional, nil)
	r.Body = []byte(body)
	o.Text("bodyBase64", strictjson.Optional, func(text string) string {
		decoded, err := base64.StdEncoding.DecodeString(text)
		if r.Body = decoded; err != nil {
			return "must be Base64"
		}
		return ""
	})
	if o.Has("body") && o.Has("bodyBase64") {
		o.WholeFault("must not have both body and bodyBase64")
	}
	o.RejectUnknown()
	return r
}
