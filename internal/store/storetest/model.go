package storetest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// A tenantModel has the data of a tenant in simple maps. The store must return the same results.
type tenantModel struct {
	tenant    atrium.TenantID
	accounts  map[atrium.AccountID]atrium.Account   // without their latest activity
	merged    map[atrium.AccountID]atrium.AccountID // the direct target
	prospects map[atrium.ProspectID]atrium.LinkedProspect
	pages     map[atrium.PageID]atrium.Page
	audiences map[atrium.AudienceID]atrium.Audience
	versions  map[atrium.VersionID]atrium.AudienceVersion
	entries   map[atrium.EntryID]atrium.Entry
	erased    map[atrium.EntryID]atrium.Tombstone
	origins   map[atrium.EntryID]atrium.Origin
	keys      map[string]binding
}

// A binding is the entry that an idempotency key is bound to.
type binding struct {
	entry       atrium.EntryID
	fingerprint []byte
}

func newTenantModel(tenant atrium.TenantID) *tenantModel {
	return &tenantModel{
		tenant: tenant, accounts: map[atrium.AccountID]atrium.Account{}, merged: map[atrium.AccountID]atrium.AccountID{}, prospects: map[atrium.ProspectID]atrium.LinkedProspect{},
		pages: map[atrium.PageID]atrium.Page{}, audiences: map[atrium.AudienceID]atrium.Audience{},
		versions: map[atrium.VersionID]atrium.AudienceVersion{}, entries: map[atrium.EntryID]atrium.Entry{}, erased: map[atrium.EntryID]atrium.Tombstone{}, origins: map[atrium.EntryID]atrium.Origin{}, keys: map[string]binding{},
	}
}

func (r *tenantModel) clone() *tenantModel {
	return &tenantModel{
		r.tenant, maps.Clone(r.accounts), maps.Clone(r.merged), maps.Clone(r.prospects), maps.Clone(r.pages), maps.Clone(r.audiences),
		maps.Clone(r.versions), maps.Clone(r.entries), maps.Clone(r.erased), maps.Clone(r.origins), maps.Clone(r.keys),
	}
}

// records returns all records of the model, in no order.
func (r *tenantModel) records() (all []store.Record) {
	for _, v := range r.accounts {
		all = append(all, &v)
	}
	for id, into := range r.merged {
		all = append(all, &atrium.Merge{AccountID: id, Into: into})
	}
	for _, v := range r.prospects {
		all = append(all, &v)
	}
	for _, v := range r.pages {
		all = append(all, &v)
	}
	for _, v := range r.audiences {
		all = append(all, &v)
	}
	for _, v := range r.versions {
		all = append(all, &v)
	}
	for _, v := range r.entries {
		all = append(all, &v)
	}
	for _, v := range r.erased {
		all = append(all, &v)
	}
	return all
}

// withDomain returns the account that is stored under a form of a domain.
func (r *tenantModel) withDomain(domain string) (atrium.Account, bool) {
	for _, a := range r.accounts {
		if a.Domain == domain {
			return a, true
		}
	}
	return atrium.Account{}, false
}

// found returns the account that a domain finds, in any spelling: the oldest one that is stored
// under one of its forms.
func (r *tenantModel) found(domain string) (oldest atrium.Account, ok bool) {
	for _, a := range r.owners(domain) {
		if !ok || a.CreatedAt < oldest.CreatedAt || a.CreatedAt == oldest.CreatedAt && a.ID < oldest.ID {
			oldest, ok = a, true
		}
	}
	return oldest, ok
}

// owners returns the accounts that are stored under a form of a domain.
func (r *tenantModel) owners(domain string) (all []atrium.Account) {
	current, legacy := canonical.DomainForms(domain)
	for _, form := range []string{current, legacy} {
		if a, ok := r.withDomain(form); ok {
			all = append(all, a)
		}
	}
	return all
}

// withName returns the identifier of the only account with a name, or "".
func (r *tenantModel) withName(nameKey string) (only atrium.AccountID) {
	for _, a := range r.accounts {
		if a.Name == "" || r.merged[a.ID] != "" || a.Domain == atrium.UnattributedDomain || canonical.Name(a.Name) != nameKey {
			continue
		}
		if only != "" {
			return ""
		}
		only = a.ID
	}
	return only
}

// receipt returns the receipt of an entry, which may be erased.
func (r *tenantModel) receipt(id atrium.EntryID) atrium.Receipt {
	e, stored := r.entries[id]
	if t, erased := r.erased[id]; erased && !stored {
		return t.Receipt()
	}
	return atrium.Receipt{EntryID: id, AccountID: cmp.Or(e.AcknowledgedID, e.AccountID), CreatedAt: e.CreatedAt, Source: e.Source, Type: e.Type}
}

// bound returns the outcome of a draft whose key is bound, and whether it is. A draft without a
// key is bound if its entry exists.
func (r *tenantModel) bound(d *atrium.Draft) (o atrium.Outcome, ok bool) {
	if d.IdempotencyKey == "" {
		_, ok = r.entries[d.ID]
		return atrium.Outcome{Receipt: r.receipt(d.ID)}, ok
	}
	b, ok := r.keys[d.IdempotencyKey]
	switch {
	case !ok:
		return o, false
	case b.entry != d.ID && !bytes.Equal(b.fingerprint, d.Fingerprint):
		o.Err = atrium.Errorf(atrium.CodeIdempotencyKeyReused, "")
	default:
		o.Receipt = r.receipt(b.entry)
		o.Replayed = b.entry != d.ID
	}
	return o, true
}

// append returns the outcomes of the drafts, all of this tenant. Where the store may choose, the
// model adopts its choice: the identifiers of new accounts from got, and which of several names
// claimed at once was used from nameOf.
func (r *tenantModel) append(drafts []*atrium.Draft, now atrium.Time, got []atrium.Outcome, nameOf func(atrium.AccountID) string) []atrium.Outcome {
	want := make([]atrium.Outcome, len(drafts))
	pending := make([]int, len(drafts))
	for i := range drafts {
		pending[i] = i
	}
	for len(pending) > 0 {
		// The first draft with each free key is processed first. The others depend on its
		// outcome.
		var first, later []int
		taken := map[string]bool{}
		for _, i := range pending {
			k := drafts[i].IdempotencyKey
			o, ok := r.bound(drafts[i])
			switch {
			case ok:
				want[i] = o
			case k != "" && taken[k]:
				later = append(later, i)
			default:
				taken[k] = true
				first = append(first, i)
			}
		}
		r.settle(drafts, first, now, got, want, nameOf)
		pending = later
	}
	return want
}

// settle records the drafts whose account is found or made.
func (r *tenantModel) settle(drafts []*atrium.Draft, which []int, now atrium.Time, got, want []atrium.Outcome, nameOf func(atrium.AccountID) string) {
	claimed := map[atrium.AccountID][]string{}
	goes := func(i int, id atrium.AccountID, rule atrium.Rule) {
		d := drafts[i]
		shown := r.root(id)
		if d.Claim.Name != "" {
			claimed[shown] = append(claimed[shown], d.Claim.Name)
		}
		e := atrium.Entry{ID: d.ID, TenantID: r.tenant, AccountID: id, CreatedAt: now, Submission: d.Submission}
		if shown != id {
			e.AcknowledgedID = shown
		}
		r.entries[d.ID], r.origins[d.ID] = e, atrium.Origin{Rule: rule, SubmittedBy: d.SubmittedBy, RequestID: d.RequestID}
		if d.IdempotencyKey != "" {
			r.keys[d.IdempotencyKey] = binding{d.ID, d.Fingerprint}
		}
		want[i].Receipt = r.receipt(d.ID)
	}
	domain := func(i int, domain string, rule atrium.Rule) {
		a, ok := r.found(domain)
		if !ok {
			a = atrium.Account{ID: got[i].AccountID, TenantID: r.tenant, Domain: canonical.Domain(domain), CreatedAt: now, UpdatedAt: now}
			if _, taken := r.accounts[a.ID]; taken {
				a.ID = "an identifier that no account has"
			}
			r.accounts[a.ID] = a
		}
		goes(i, a.ID, rule)
	}
	named := map[int]atrium.AccountID{} // by the names from before the transaction
	for _, i := range which {
		named[i] = r.withName(canonical.Name(drafts[i].Claim.Name))
	}
	for _, i := range which {
		switch d := drafts[i]; {
		case d.Claim.AccountID != "":
			if _, ok := r.accounts[d.Claim.AccountID]; ok {
				goes(i, d.Claim.AccountID, atrium.RuleAccountID)
			} else {
				want[i].Err = atrium.NotFound()
			}
		case d.Claim.Domain != "":
			domain(i, d.Claim.Domain, atrium.RuleDomain)
		case named[i] != "":
			goes(i, named[i], atrium.RuleName)
		default:
			domain(i, atrium.UnattributedDomain, atrium.RuleUnattributed)
		}
	}
	for id, names := range claimed {
		a := r.accounts[id]
		if a.Name == "" && a.Domain != atrium.UnattributedDomain {
			if a.Name = nameOf(id); !slices.Contains(names, a.Name) {
				a.Name = names[0] // the store used a name that was not claimed
			}
			a.UpdatedAt = max(a.UpdatedAt, now)
			r.accounts[id] = a
		}
	}
}

// root returns the survivor of an account.
func (r *tenantModel) root(id atrium.AccountID) atrium.AccountID {
	for r.merged[id] != "" {
		id = r.merged[id]
	}
	return id
}

// rename renames an account, and reports whether it exists.
func (r *tenantModel) rename(id atrium.AccountID, name string, now atrium.Time) bool {
	a, ok := r.accounts[r.root(id)]
	if ok && a.Name != name {
		a.Name, a.UpdatedAt = name, max(a.UpdatedAt, now)
		r.accounts[a.ID] = a
	}
	return ok
}
