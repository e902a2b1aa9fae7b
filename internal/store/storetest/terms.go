package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
)

var terms = []guarantee{
	{"an account is found by each word of its domain and its name, and by no other", accountFoundByWords},
	{"search terms match the fields of accounts and prospects after all kinds of changes", termsOfFields},
	{concurrent + "search terms match the fields of accounts after concurrent creations and renames", termsAfterRaces},
	{"the number and length of the search terms of an object are limited", termsBounded},
	{"the words of a draft bound the search terms of its account", termsOfDrafts},
}

// terms returns the tenant's search terms, each with its subject.
func (e *env) terms(t tb) (all []string) {
	t.Helper()
	if err := e.db.Read(t.Context(), func(tx engine.Tx) error {
		all = nil
		return tx.Query("SELECT term, subject_id FROM search_terms WHERE tenant_id = $1 ORDER BY term, subject_id", engine.Args{storedID(e.tenant)},
			func(r engine.Row) error {
				all = append(all, fmt.Sprintf("%s %x", r.Text(0), r.Bytes(1)))
				return nil
			})
	}); err != nil {
		t.Fatalf("read terms: %v", err)
	}
	return all
}

// wantTerms fails the test unless the terms are those of an import of the same accounts and
// prospects.
func (e *env) wantTerms(t tb) {
	t.Helper()
	again := e.as(e.newTenant(t))
	for _, r := range e.records(t) {
		switch r := r.(type) {
		case *atrium.Account:
			again.put(t, r)
		case *atrium.LinkedProspect:
			p := *r
			p.AccountIDs = nil
			again.put(t, &p)
		}
	}
	if got, want := e.terms(t), again.terms(t); !slices.Equal(got, want) {
		t.Errorf("the terms are\n%q, want\n%q", got, want)
	}
}

// found returns the domains of the accounts that a search finds.
func (e *env) found(t tb, query string) (domains []string) {
	t.Helper()
	found, _, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{Words: canonical.QueryWords(query)}, atrium.AccountsWord, nil, 100)
	if err != nil {
		t.Fatalf("search: %v", err)
	}
	for _, a := range found {
		domains = append(domains, a.Domain)
	}
	return domains
}

func accountFoundByWords(t *testing.T, e *env) {
	e.record(t, atrium.Claim{Domain: "shop.acme-tools.example", Name: "Acme O'Brien & Søns"})
	e.record(t, atrium.Claim{Domain: "bücher.example", Name: "Straße 7"})
	for query, want := range map[string]string{
		"acme": "shop.acme-tools.example", "ACME": "shop.acme-tools.example", "acm": "shop.acme-tools.example", "tools sh": "shop.acme-tools.example",
		"shop.acme-t": "shop.acme-tools.example", "acme-tools": "", "o'br": "shop.acme-tools.example", "brien": "shop.acme-tools.example",
		"søns, acme!": "shop.acme-tools.example", "sons": "", "cme": "", "acme straße": "", "SS": "", "strasse": "xn--bcher-kva.example", "7": "xn--bcher-kva.example",
		"Bücher": "xn--bcher-kva.example", "bücher.exam": "xn--bcher-kva.example", "xn--bcher": "xn--bcher-kva.example", "exampl STR": "xn--bcher-kva.example",
	} {
		if got := strings.Join(e.found(t, query), " "); got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
	}
	if got := e.found(t, "example"); len(got) != 2 {
		t.Errorf("words of both accounts find %v", got)
	}
	if got := e.as(e.newTenant(t)).found(t, "acme"); len(got) != 0 {
		t.Errorf("another tenant finds %v", got)
	}
}

func termsOfFields(t *testing.T, e *env) {
	texts := []string{"", "Acme", "acme corp", "Corp ACME", "a.b c@d.example", "ß"}
	rapid.Check(t, func(t *rapid.T) {
		e := e.as(e.newTenant(t))
		made := 0
		text := func() string { return rapid.SampledFrom(texts).Draw(t, "text") }
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0, 1:
				domain := rapid.SampledFrom([]string{"", "acme.example", "b.example", "bücher.example", "not a host"}).Draw(t, "domain")
				e.record(t, atrium.Claim{Domain: domain, Name: text()})
			case 2:
				if all := e.accounts(t); len(all) > 0 {
					e.rename(t, rapid.SampledFrom(all).Draw(t, "account").ID, text())
				}
			case 3:
				made++
				if _, _, err := e.CreateAccount(t.Context(), e.change(), fmt.Sprint(made, ".made.example"), text()); err != nil && atrium.CodeOf(err) != atrium.CodeConflict {
					t.Fatalf("create an account: %v", err)
				}
				a := e.newAccount(fmt.Sprint(made, ".imported.example"), text())
				e.put(t, a)
			case 4:
				p := e.newProspect()
				p.Name, p.Email, p.Domain = pointer(text()), pointer(text()), pointer(text())
				e.put(t, p)
			case 5:
				e.prospectSteps(t, text)
			case 6:
				e.groupSteps(t)
			}
		}
		e.wantTerms(t)
	})
}

// groupSteps merges, splits or erases accounts, or changes the domain of one.
func (e *env) groupSteps(t *rapid.T) {
	all := e.accounts(t)
	if len(all) == 0 {
		return
	}
	id, other := rapid.SampledFrom(all).Draw(t, "account").ID, rapid.SampledFrom(all).Draw(t, "other account")
	var err error
	switch rapid.IntRange(0, 4).Draw(t, "how") {
	case 0, 1:
		_, err = e.MergeAccounts(t.Context(), e.change(), id, other.ID, accept)
	case 2:
		_, err = e.SplitAccount(t.Context(), e.change(), id, other.ID, accept)
	case 3:
		domain := rapid.SampledFrom([]string{"acme.example", "new words.example", other.Domain}).Draw(t, "domain")
		_, err = e.UpdateAccount(t.Context(), e.change(), id, atrium.AccountUpdate{Domain: domain}, accept)
	case 4:
		_, err = e.EraseAccount(t.Context(), e.change(), id, accept)
	}
	if code := atrium.CodeOf(err); err != nil && code != atrium.CodeConflict && code != atrium.CodeNotFound {
		t.Fatalf("change a group: %v", err)
	}
}

// prospectSteps creates, changes or deletes a prospect.
func (e *env) prospectSteps(t *rapid.T, text func() string) {
	all := of[*atrium.LinkedProspect](e.records(t))
	if len(all) == 0 || rapid.Bool().Draw(t, "new") {
		if _, _, err := e.CreateProspect(t.Context(), e.change(), atrium.Prospect{Name: pointer(text()), Email: pointer(text())}); err != nil {
			t.Fatalf("create a prospect: %v", err)
		}
		return
	}
	id := rapid.SampledFrom(all).Draw(t, "prospect").ID
	if rapid.Bool().Draw(t, "delete") {
		if _, err := e.DeleteProspect(t.Context(), e.change(), id, accept); err != nil {
			t.Fatalf("delete a prospect: %v", err)
		}
		return
	}
	if _, err := e.UpdateProspect(t.Context(), e.change(), id, func(p *atrium.Prospect) { p.Name, p.Domain = nil, pointer(text()) }, accept); err != nil {
		t.Fatalf("update a prospect: %v", err)
	}
}

func termsAfterRaces(t *testing.T, e *env) {
	known := e.record(t, byDomain("known.example")).AccountID
	e.onTwoNodes(t, func(e *env, i int) {
		for n := range 4 {
			e.record(t, byDomain(fmt.Sprintf("d%d.example", n)))
			e.record(t, atrium.Claim{Domain: fmt.Sprintf("d%d.example", n), Name: fmt.Sprintf("Name %d", i)})
			e.rename(t, known, fmt.Sprint("Name ", i, n))
			e.record(t, atrium.Claim{AccountID: known, Name: "Other"})
		}
	})
	e.wantTerms(t)
	for n := range 4 {
		if got := e.found(t, fmt.Sprintf("d%d name", n)); len(got) != 1 {
			t.Errorf("account %d is found as %v", n, got)
		}
	}
}

func termsOfDrafts(t *testing.T, e *env) {
	parts := rapid.SampledFrom([]string{"acme", "tools", "bücher", "例え", "a-b", "x.y", " ", ".", "!", "7"})
	rapid.Check(t, func(rt *rapid.T) {
		text := func(what string) string { return strings.Join(rapid.SliceOfN(parts, 0, 50).Draw(rt, what), "") }
		e := e.as(e.newTenant(rt))
		d := e.draft(rt, atrium.Claim{Domain: text("domain") + ".example", Name: text("name")})
		receipts(rt, e.append(rt, d))
		if n := len(e.terms(rt)); n > d.Words+1 { // one for the whole name or domain
			rt.Errorf("there are %d terms, but %d words", n, d.Words)
		}
	})
}

func termsBounded(t *testing.T, e *env) {
	var words strings.Builder
	for i := range 200 {
		fmt.Fprintf(&words, "w%d.x ", i)
	}
	e.record(t, byDomain(strings.Repeat("x", 300_000)))
	e.record(t, byDomain(words.String()))
	p := e.newProspect()
	p.Name, p.Email, p.Domain = pointer(words.String()), pointer(words.String()), pointer(strings.Repeat("é", 200_000))
	e.put(t, e.newAccount(strings.Repeat("long.", 1000)+"example", words.String()), p)
	all := e.terms(t)
	for _, term := range all {
		if len(term) > len("aw: ")+100+36 {
			t.Errorf("there is a term of %d bytes: %q", len(term), term)
		}
	}
	if len(all) > 4*32 {
		t.Errorf("four things are found by %d terms", len(all))
	}
	if got := e.found(t, strings.Repeat("x", 1000)); len(got) != 1 {
		t.Errorf("a long word finds %d accounts", len(got))
	}
}
