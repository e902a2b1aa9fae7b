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

// A realm is all that a tenant has, kept in the plainest way: what the store
// answers must be what follows from it.
type realm struct {
	tenant    atrium.TenantID
	accounts  map[atrium.AccountID]atrium.Account   // without their newest activity
	merged    map[atrium.AccountID]atrium.AccountID // into what, directly
	prospects map[atrium.ProspectID]atrium.LinkedProspect
	pages     map[atrium.PageID]atrium.Page
	audiences map[atrium.AudienceID]atrium.Audience
	versions  map[atrium.VersionID]atrium.AudienceVersion
	entries   map[atrium.EntryID]atrium.Entry
	keys      map[string]binding
}

// A binding is what an idempotency key stands for.
type binding struct {
	entry       atrium.EntryID
	fingerprint []byte
}

func newRealm(tenant atrium.TenantID) *realm {
	return &realm{
		tenant: tenant, accounts: map[atrium.AccountID]atrium.Account{}, merged: map[atrium.AccountID]atrium.AccountID{}, prospects: map[atrium.ProspectID]atrium.LinkedProspect{},
		pages: map[atrium.PageID]atrium.Page{}, audiences: map[atrium.AudienceID]atrium.Audience{},
		versions: map[atrium.VersionID]atrium.AudienceVersion{}, entries: map[atrium.EntryID]atrium.Entry{}, keys: map[string]binding{},
	}
}

func (r *realm) clone() *realm {
	return &realm{
		r.tenant, maps.Clone(r.accounts), maps.Clone(r.merged), maps.Clone(r.prospects), maps.Clone(r.pages), maps.Clone(r.audiences),
		maps.Clone(r.versions), maps.Clone(r.entries), maps.Clone(r.keys),
	}
}

// records returns all that the realm has, in no order.
func (r *realm) records() (all []store.Record) {
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
	return all
}

// withDomain returns the account that is stored under a form of a domain.
func (r *realm) withDomain(domain string) (atrium.Account, bool) {
	for _, a := range r.accounts {
		if a.Domain == domain {
			return a, true
		}
	}
	return atrium.Account{}, false
}

// found returns the account that a domain finds, in any spelling: the oldest of those
// that are stored under one of its forms.
func (r *realm) found(domain string) (oldest atrium.Account, ok bool) {
	for _, a := range r.owners(domain) {
		if !ok || a.CreatedAt < oldest.CreatedAt || a.CreatedAt == oldest.CreatedAt && a.ID < oldest.ID {
			oldest, ok = a, true
		}
	}
	return oldest, ok
}

// owners returns the accounts that are stored under one of the forms of a domain.
func (r *realm) owners(domain string) (all []atrium.Account) {
	current, legacy := canonical.DomainForms(domain)
	for _, form := range []string{current, legacy} {
		if a, ok := r.withDomain(form); ok {
			all = append(all, a)
		}
	}
	return all
}

// withName returns the identifier of the account that alone has a name, or "".
func (r *realm) withName(nameKey string) (only atrium.AccountID) {
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

// receipt returns what acknowledges an entry.
func (r *realm) receipt(id atrium.EntryID) atrium.Receipt {
	e := r.entries[id]
	return atrium.Receipt{EntryID: id, AccountID: cmp.Or(e.AcknowledgedID, e.AccountID), CreatedAt: e.CreatedAt, Source: e.Source, Type: e.Type}
}

// bound returns what becomes of a draft whose key is bound, or false if it is
// not. A draft without a key is found if it is there itself.
func (r *realm) bound(d *atrium.Draft) (o atrium.Outcome, ok bool) {
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

// append returns what becomes of the drafts, all of this realm's tenant. What
// the store is free to choose is taken from it: the identifiers of new accounts
// from got, and which of several names claimed at once it gave from nameOf.
func (r *realm) append(drafts []*atrium.Draft, now atrium.Time, got []atrium.Outcome, nameOf func(atrium.AccountID) string) []atrium.Outcome {
	want := make([]atrium.Outcome, len(drafts))
	pending := make([]int, len(drafts))
	for i := range drafts {
		pending[i] = i
	}
	for len(pending) > 0 {
		// The first with each key that is free goes ahead; the others see what
		// became of it.
		var ahead, behind []int
		taken := map[string]bool{}
		for _, i := range pending {
			k := drafts[i].IdempotencyKey
			o, ok := r.bound(drafts[i])
			switch {
			case ok:
				want[i] = o
			case k != "" && taken[k]:
				behind = append(behind, i)
			default:
				taken[k] = true
				ahead = append(ahead, i)
			}
		}
		r.settle(drafts, ahead, now, got, want, nameOf)
		pending = behind
	}
	return want
}

// settle records those of the drafts whose account is found or made.
func (r *realm) settle(drafts []*atrium.Draft, which []int, now atrium.Time, got, want []atrium.Outcome, nameOf func(atrium.AccountID) string) {
	claimed := map[atrium.AccountID][]string{}
	goes := func(i int, id atrium.AccountID) {
		d := drafts[i]
		shown := r.root(id)
		if d.Claim.Name != "" {
			claimed[shown] = append(claimed[shown], d.Claim.Name)
		}
		e := atrium.Entry{ID: d.ID, TenantID: r.tenant, AccountID: id, CreatedAt: now, Submission: d.Submission}
		if shown != id {
			e.AcknowledgedID = shown
		}
		r.entries[d.ID] = e
		if d.IdempotencyKey != "" {
			r.keys[d.IdempotencyKey] = binding{d.ID, d.Fingerprint}
		}
		want[i].Receipt = r.receipt(d.ID)
	}
	domain := func(i int, domain string) {
		a, ok := r.found(domain)
		if !ok {
			a = atrium.Account{ID: got[i].AccountID, TenantID: r.tenant, Domain: canonical.Domain(domain), CreatedAt: now, UpdatedAt: now}
			if _, taken := r.accounts[a.ID]; taken {
				a.ID = "an identifier that no account has"
			}
			r.accounts[a.ID] = a
		}
		goes(i, a.ID)
	}
	named := map[int]atrium.AccountID{} // by names as they are before all of this
	for _, i := range which {
		named[i] = r.withName(canonical.Name(drafts[i].Claim.Name))
	}
	for _, i := range which {
		switch d := drafts[i]; {
		case d.Claim.AccountID != "":
			if _, ok := r.accounts[d.Claim.AccountID]; ok {
				goes(i, d.Claim.AccountID)
			} else {
				want[i].Err = atrium.NotFound()
			}
		case d.Claim.Domain != "":
			domain(i, d.Claim.Domain)
		case named[i] != "":
			goes(i, named[i])
		default:
			domain(i, atrium.UnattributedDomain)
		}
	}
	for id, names := range claimed {
		a := r.accounts[id]
		if a.Name == "" && a.Domain != atrium.UnattributedDomain {
			if a.Name = nameOf(id); !slices.Contains(names, a.Name) {
				a.Name = names[0] // the store has chosen what was not there to choose
			}
			a.UpdatedAt = max(a.UpdatedAt, now)
			r.accounts[id] = a
		}
	}
}

// root returns what an account leads to.
func (r *realm) root(id atrium.AccountID) atrium.AccountID {
	for r.merged[id] != "" {
		id = r.merged[id]
	}
	return id
}

// rename gives an account a name, and reports whether there is such an account.
func (r *realm) rename(id atrium.AccountID, name string, now atrium.Time) bool {
	a, ok := r.accounts[r.root(id)]
	if ok && a.Name != name {
		a.Name, a.UpdatedAt = name, max(a.UpdatedAt, now)
		r.accounts[a.ID] = a
	}
	return ok
}
