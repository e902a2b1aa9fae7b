package storetest

import (
	"slices"

	"atrium"
	"atrium/internal/canonical"
)

// newest returns the latest createdAt of the entries of an account's group.
func (r *tenantModel) newest(id atrium.AccountID) (at *atrium.Time) {
	for _, e := range r.entries {
		if r.root(e.AccountID) == r.root(id) && (at == nil || e.CreatedAt > *at) {
			at = pointer(e.CreatedAt)
		}
	}
	return at
}

// group returns all accounts with the same survivor, including the survivor.
func (r *tenantModel) group(id atrium.AccountID) (all []atrium.AccountID) {
	for other := range r.accounts {
		if r.root(other) == r.root(id) {
			all = append(all, other)
		}
	}
	return all
}

// mayMerge reports whether an account that is not merged can be merged into another one.
func (r *tenantModel) mayMerge(id, into atrium.AccountID) bool {
	_, ok := r.accounts[into]
	return ok && r.root(id) != r.root(into) &&
		r.accounts[id].Domain != atrium.UnattributedDomain && r.accounts[r.root(into)].Domain != atrium.UnattributedDomain
}

// touch sets updatedAt of accounts.
func (r *tenantModel) touch(now atrium.Time, ids ...atrium.AccountID) {
	for _, id := range ids {
		a := r.accounts[id]
		a.UpdatedAt = max(a.UpdatedAt, now)
		r.accounts[id] = a
	}
}

// Steps that change groups of accounts. want is the code of the expected error, "" for success.

func (p *pair) wantStep(what string, err error, want atrium.Code) (made bool) {
	if want == "" && err == nil {
		return true
	}
	if want == "" || err == nil || atrium.CodeOf(err) != want {
		p.t.Fatalf("%s: %v, want %q", what, err, want)
	}
	return false
}

func (p *pair) mergeStep(side int) {
	r := p.models[side]
	id, into := p.anyAccount(), p.anyAccount()
	_, first := r.accounts[id]
	_, second := r.accounts[into]
	from, to := r.root(id), r.root(into)
	want, again := atrium.Code(""), false
	switch {
	case !first || !second:
		want = atrium.CodeNotFound
	case from == to && r.merged[id] != "" && (r.merged[id] == into || to == into):
		again = true
	case !r.mayMerge(from, to):
		want = atrium.CodeConflict
	}
	d, err := p.MergeAccounts(p.t.Context(), p.as(r.tenant).change(), id, into, accept)
	if !p.wantStep("merge", err, want) {
		return
	}
	if !again {
		a := r.accounts[to]
		if a.Name == "" {
			a.Name = r.accounts[from].Name
		}
		r.accounts[to], r.merged[from] = a, to
		r.touch(p.clock.instant(), to)
	}
	p.wantDetail(r, d, to)
}

// wantDetail checks the account in a response.
func (p *pair) wantDetail(r *tenantModel, d atrium.AccountDetail, id atrium.AccountID) {
	var want []atrium.MergedAccount
	for _, member := range r.group(id) {
		if a := r.accounts[member]; member != id {
			want = append(want, atrium.MergedAccount{ID: member, Domain: a.Domain, Name: a.Name, MergedInto: r.merged[member]})
		}
	}
	slices.SortFunc(want, func(a, b atrium.MergedAccount) int { return slices.Compare([]byte(a.ID), []byte(b.ID)) })
	if a := r.accounts[id]; describe(&d.Account) != describe(&a) || !slices.Equal(d.Merged, want) {
		p.t.Fatalf("got %+v, want %+v with %+v", d, a, want)
	}
	var linked []atrium.Prospect
	linked = append(linked, d.Prospects...)
	p.compareLinked(r, id, linked)
}

func (p *pair) splitStep(side int) {
	r := p.models[side]
	id, account := p.anyAccount(), p.anyAccount()
	_, known := r.accounts[id]
	from, want := r.root(id), atrium.Code("")
	if !known || r.merged[account] == "" || r.root(account) != from {
		want = atrium.CodeNotFound
	}
	d, err := p.SplitAccount(p.t.Context(), p.as(r.tenant).change(), id, account, accept)
	if !p.wantStep("split", err, want) {
		return
	}
	delete(r.merged, account)
	r.touch(p.clock.instant(), from, account)
	p.wantDetail(r, d, from)
}

var wantedDomains = []string{"a.example", "b.example", "c.example", "ab--cd.example", "https://AB--cd.example", atrium.UnattributedDomain}

func (p *pair) domainStep(side int) {
	r := p.models[side]
	id, given := p.anyAccount(), draw(p, "wanted", wantedDomains...)
	domain, legacy := canonical.DomainForms(given)
	_, known := r.accounts[id]
	a := r.accounts[r.root(id)]
	if a.Domain == legacy {
		domain = legacy // unchanged
	}
	owner, taken := r.withDomain(domain)
	others := slices.ContainsFunc(r.owners(given), func(owner atrium.Account) bool { return r.root(owner.ID) != a.ID })
	want := atrium.Code("")
	switch {
	case !known:
		want = atrium.CodeNotFound
	case a.Domain == atrium.UnattributedDomain, domain == atrium.UnattributedDomain, a.Domain != domain && others:
		want = atrium.CodeConflict
	}
	d, err := p.UpdateAccount(p.t.Context(), p.as(r.tenant).change(), id, atrium.AccountUpdate{Domain: given}, accept)
	if !p.wantStep("change the domain", err, want) {
		return
	}
	if a.Domain != domain {
		now := p.clock.instant()
		former := atrium.Account{TenantID: r.tenant, Domain: a.Domain, CreatedAt: now, UpdatedAt: now}
		if taken {
			owner.Domain, former = a.Domain, owner
			former.Domain = a.Domain
		} else {
			for _, m := range d.Merged { // the store chose its identifier
				if _, known := r.accounts[m.ID]; !known {
					former.ID = m.ID
				}
			}
			r.merged[former.ID] = a.ID
		}
		r.accounts[former.ID] = former
		a.Domain = domain
		r.accounts[a.ID] = a
		r.touch(now, a.ID)
	}
	p.wantDetail(r, d, a.ID)
}

func (p *pair) createStep(side int) {
	r := p.models[side]
	given, name := draw(p, "wanted", wantedDomains...), draw(p, "name", names3...)
	domain, want := canonical.Domain(given), atrium.Code("")
	if len(r.owners(given)) > 0 || domain == atrium.UnattributedDomain {
		want = atrium.CodeConflict
	}
	d, _, err := p.CreateAccount(p.t.Context(), p.as(r.tenant).change(), given, name)
	if !p.wantStep("create", err, want) {
		return
	}
	if _, known := r.accounts[d.ID]; known {
		p.t.Fatalf("created %s twice", d.ID)
	}
	now := p.clock.instant()
	r.accounts[d.ID] = atrium.Account{ID: d.ID, TenantID: r.tenant, Domain: domain, Name: name, CreatedAt: now, UpdatedAt: now}
	p.wantDetail(r, d, d.ID)
}

func (p *pair) eraseStep(side int) {
	r := p.models[side]
	id, want := p.anyAccount(), atrium.Code("")
	if _, known := r.accounts[id]; !known {
		want = atrium.CodeNotFound
	}
	_, err := p.EraseAccount(p.t.Context(), p.as(r.tenant).change(), id, accept) // the database may be too large to be purged within the request
	if !p.wantStep("erase", err, want) {
		return
	}
	gone := r.group(id)
	for _, id := range gone {
		if p.as(r.tenant).entriesOf(p.t, id) > 0 {
			p.t.Fatalf("a few entries are left for later")
		}
	}
	for entry, e := range r.entries {
		if slices.Contains(gone, e.AccountID) {
			if _, again := r.erased[entry]; !again {
				receipt := r.receipt(entry)
				r.erased[entry] = atrium.Tombstone{EntryID: entry, AccountID: receipt.AccountID, CreatedAt: e.CreatedAt, Source: e.Source, Type: e.Type}
			}
			delete(r.entries, entry)
		}
	}
	for prospect, linked := range r.prospects {
		linked.AccountIDs = slices.DeleteFunc(slices.Clone(linked.AccountIDs), func(id atrium.AccountID) bool { return slices.Contains(gone, id) })
		r.prospects[prospect] = linked
	}
	for _, id := range gone {
		delete(r.accounts, id)
		delete(r.merged, id)
	}
}
