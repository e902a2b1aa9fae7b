package storetest

import (
	"fmt"
	"slices"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// Changes, lists, moves and imports of accounts whose domains have a legacy form.

var legacyDomainChanges = []guarantee{
	{"an account with either form makes the domain taken", legacyFormTaken},
	{"an account of a legacy form can take the current form and keeps the legacy one", legacyFormUpdated},
	{"no form of a domain leads to the unattributed account", legacyFormUnattributed},
	{"listing a domain returns the account that its entries go to", legacyFormListed},
	{"a move rule matches a claimed domain in any spelling", legacyFormMoved},
	{"an account stored under a legacy form can be imported again", legacyFormImported},
}

func legacyFormTaken(t *testing.T, e *env) {
	old := e.importAccount(t, legacyURL, "")
	a, b, _ := e.threeAccounts(t)
	e.merge(t, old.ID, a.ID)
	wantTaken := func(domain string) {
		t.Helper()
		if _, _, err := e.CreateAccount(t.Context(), e.change(), domain, ""); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("make an account with %s: %v", domain, err)
		}
		if _, err := e.UpdateAccount(t.Context(), e.change(), b.ID, atrium.AccountUpdate{Domain: domain}, accept); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("take %s: %v", domain, err)
		}
	}
	wantTaken(legacyURL)
	wantTaken(spelledURL)
	d, _, err := e.CreateAccount(t.Context(), e.change(), legacyWWW, "") // no account has the legacy form
	if err != nil || d.Domain != hostOfForms {
		t.Fatalf("made %+v, %v", d, err)
	}
	wantTaken(legacyURL)
	wantTaken(legacyWWW)
	wantTaken(hostOfForms)
	e.wantAccountFor(t, legacyURL, a.ID)
	e.wantAccountFor(t, legacyWWW, d.ID)
	e.wantSoundGroups(t)
}

func legacyFormUpdated(t *testing.T, e *env) {
	old := e.importAccount(t, legacyURL, "Old")
	e.clock.step(1e9)
	update := func(u atrium.AccountUpdate) atrium.AccountDetail {
		t.Helper()
		d, err := e.UpdateAccount(t.Context(), e.change(), old.ID, u, accept)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := update(atrium.AccountUpdate{Domain: legacyURL}); d.Domain != legacyURL || d.UpdatedAt != old.UpdatedAt {
		t.Errorf("its own domain changed it to %+v", d)
	}
	if d := update(atrium.AccountUpdate{Domain: spelledURL, Name: pointer("New")}); d.Domain != legacyURL || d.Name != "New" {
		t.Errorf("its own domain and another name changed it to %+v", d)
	}
	d := update(atrium.AccountUpdate{Domain: legacyWWW})
	if d.Domain != hostOfForms || len(d.Merged) != 1 || d.Merged[0].Domain != legacyURL {
		t.Errorf("the current form changed it to %+v", d)
	}
	for _, domain := range spellings {
		e.wantAccountFor(t, domain, old.ID)
	}
	e.changeDomain(t, old.ID, "new.example")
	if d := update(atrium.AccountUpdate{Domain: legacyURL}); d.Domain != hostOfForms || len(d.Merged) != 2 {
		t.Errorf("taking back its domain changed it to %+v", d)
	}
	for _, domain := range append(spellings, "new.example") {
		e.wantAccountFor(t, domain, old.ID)
	}
	e.wantSoundGroups(t)
}

func legacyFormUnattributed(t *testing.T, e *env) {
	unattributed := e.record(t, atrium.Claim{}).AccountID
	b := e.record(t, byDomain("b.example")).AccountID
	const spelled = "http:///www.Unattributed.invalid"
	for _, domain := range []string{spelled, "https:/unattributed.invalid", "UNATTRIBUTED.invalid."} {
		if _, _, err := e.CreateAccount(t.Context(), e.change(), domain, ""); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("make an account with %s: %v", domain, err)
		}
		if _, err := e.UpdateAccount(t.Context(), e.change(), b, atrium.AccountUpdate{Domain: domain}, accept); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("take %s: %v", domain, err)
		}
		e.record(t, atrium.Claim{Domain: domain, Name: "Nobody"})
	}
	if a := e.account(t, unattributed); a.Name != "" {
		t.Errorf("the unattributed account is named %q", a.Name)
	}
	e.wantDomains(t, "b.example", atrium.UnattributedDomain)
	// An account of an earlier version with this domain is an ordinary account.
	e = e.as(e.newTenant(t))
	_, legacy := canonical.DomainForms(spelled)
	old := e.importAccount(t, legacy, "Old")
	if r := e.record(t, byDomain(spelled)); r.AccountID != old.ID {
		t.Errorf("it went to %s, want %s", r.AccountID, old.ID)
	}
	if r := e.record(t, atrium.Claim{}); r.AccountID == old.ID {
		t.Error("an entry without a claim went to an account with a legacy form")
	}
}

func legacyFormListed(t *testing.T, e *env) {
	wantListed := func(domain string, want ...atrium.AccountID) {
		t.Helper()
		found, _, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{Domain: domain}, atrium.AccountsNewest, nil, 10)
		var got []atrium.AccountID
		for _, a := range found {
			got = append(got, a.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the list of %s has %v, %v, want %v", domain, got, err, want)
		}
	}
	wantListed(spelledURL)
	old := e.importAccount(t, legacyURL, "")
	wantListed(spelledURL, old.ID)
	wantListed(hostOfForms)
	current := e.importAccount(t, hostOfForms, "")
	wantListed(spelledURL, old.ID)
	for _, domain := range []string{hostOfForms, legacyWWW, " " + hostOfForms + ":443"} {
		wantListed(domain, current.ID)
	}
	e.merge(t, old.ID, current.ID)
	wantListed(spelledURL, current.ID)
}

func legacyFormMoved(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	old := e.importAccount(t, legacyURL, "")
	e.wantAccountFor(t, spelledURL, old.ID)
	for _, domain := range []string{hostOfForms, legacyURL, legacyWWW} {
		request := atrium.MoveRequest{From: old.ID, To: to, Limit: 10, Rule: atrium.MoveRule{ClaimedDomain: domain}}
		if report, err := e.CheckMove(t.Context(), e.tenant, request); err != nil || report.Moved != 3 {
			t.Errorf("the rule for %s matches %d entries, %v, want 3", domain, report.Moved, err)
		}
	}
}

func legacyFormImported(t *testing.T, e *env) {
	old := e.importAccount(t, legacyURL, "")
	spelled := func(id atrium.AccountID, domain string) []store.Import { // a record that is not from an export
		current, legacy := canonical.DomainForms(domain)
		a := *old
		a.ID, a.Domain = id, current
		chunk := items(&a)
		chunk[0].LegacyDomain = legacy
		return chunk
	}
	_, err := e.importAfterTrial(t, spelled(atrium.NewID[atrium.AccountID](), spelledURL))
	wantRefused(t, err, 0, "domain")
	current := e.importAccount(t, hostOfForms, "")
	if added, err := e.importAfterTrial(t, append(items(old, current), spelled(old.ID, spelledURL)...)); err != nil || added.Added != 0 {
		t.Errorf("imported again: %d, %v", added, err)
	}
	_, err = e.importAfterTrial(t, spelled(current.ID, legacyURL))
	wantRefused(t, err, 0, "anything")
	_, err = e.importAfterTrial(t, spelled(atrium.NewID[atrium.AccountID](), legacyURL))
	wantRefused(t, err, 0, "domain")
	e.wantDomains(t, hostOfForms, legacyURL)

	empty := e.as(e.newTenant(t))
	empty.put(t, e.records(t)...)
	empty.wantDomains(t, hostOfForms, legacyURL)
	empty.wantAccountFor(t, legacyURL, old.ID)

	other := e.as(e.newTenant(t))
	a := other.newAccount(legacyURL, "")
	b := atrium.NewID[atrium.AccountID]()
	_, err = other.importAfterTrial(t, append(items(a), spelled(b, spelledURL)...))
	wantRefused(t, err, 1, "domain")
	if added, err := other.importAfterTrial(t, append(spelled(b, spelledURL), items(a)...)); err != nil || added.Added != 2 {
		t.Errorf("the other way round: %d, %v", added, err)
	}
	other.wantDomains(t, hostOfForms, legacyURL)
}

// importAfterTrial imports a chunk and checks that a trial returned the same result before.
func (e *env) importAfterTrial(t tb, chunk []store.Import) (added store.Imported, err error) {
	t.Helper()
	trial, err := e.NewTrial(t.Context(), e.tenant, always)
	if err != nil {
		t.Fatalf("start a trial: %v", err)
	}
	defer trial.Close()
	wouldAdd, refusal := trial.Import(t.Context(), chunk)
	added, err = e.Import(t.Context(), atrium.CommandLine(e.tenant), chunk)
	if added != wouldAdd || fmt.Sprint(err) != fmt.Sprint(refusal) {
		t.Errorf("the import: %d, %v, and its trial: %d, %v", added, err, wouldAdd, refusal)
	}
	return added, err
}
