package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/store/engine/recording"
)

// This file has guarantees of domains that have a legacy form (canonical.DomainForms),
// under which accounts of earlier versions are stored.

var legacyDomains = []guarantee{
	{"all spellings of a new host name with hyphens make one account", hyphenatedHost},
	{"URLs with one slash make an account for each host", oneSlashURLs},
	{"an account that is stored under a legacy form is found by it, and never made", legacyFormFinds},
	{"of the accounts of both forms the oldest takes the entries", oldestFormWins},
	{"a legacy form is that of one tenant", legacyFormOfAnother},
	{"a name that comes with a legacy form becomes the account's", legacyFormIsNamed},
	{"a legacy form of a merged account leads to the survivor", legacyFormMerged},
	{"a later entry for an erased legacy form makes an account of the current form", legacyFormErased},
	{"an account of either form keeps others from taking the domain", legacyFormTaken},
	{"an account of a legacy form takes the current one, and keeps the legacy one", legacyFormUpdated},
	{"no form of a domain makes the unattributed account anybody's", legacyFormUnattributed},
	{"the list of a domain has the account that its entries go to", legacyFormListed},
	{"a rule of moves matches a claimed domain in any spelling", legacyFormMoved},
	{"an account that is stored under a legacy form is imported again as it is", legacyFormImported},
	{"a domain without a legacy form costs no statement for it", legacyFormCostsNothing},
	{"entries for all spellings at once make one account", spellingsTogether},
	{"entries for both forms and erasures at once lose nothing and make no legacy form", legacyFormsTogether},
}

const (
	hostOfForms   = "ab--cd.example"
	legacyURL     = "https://ab--cd.example"
	legacyWWW     = "www.ab--cd.example"
	spelledURL    = "HTTPS://AB--CD.Example"
	spelledURLToo = " https://ab--CD.example "
)

// stored puts an account that has a domain as it is given.
func (e *env) stored(t tb, domain, name string) *atrium.Account {
	t.Helper()
	e.clock.step(1e9)
	a := e.newAccount(domain, name)
	e.put(t, a)
	return a
}

// wantGoes holds to which account entries for a domain go, alone and in one transaction
// with others.
func (e *env) wantGoes(t tb, domain string, want atrium.AccountID) {
	t.Helper()
	together := recorded(t, e.append(t, e.draft(t, byDomain(domain)), e.draft(t, atrium.Claim{}), e.draft(t, byDomain(domain))))
	for _, r := range []atrium.Receipt{e.record(t, byDomain(domain)), together[0], together[2]} {
		if r.AccountID != want {
			t.Errorf("%q went to %s, want %s", domain, r.AccountID, want)
		}
	}
}

// domains returns the domains of all accounts, sorted.
func (e *env) domains(t tb) (all []string) {
	t.Helper()
	for _, a := range e.accounts(t) {
		all = append(all, a.Domain)
	}
	slices.Sort(all)
	return all
}

func (e *env) wantDomains(t tb, want ...string) {
	t.Helper()
	if slices.Sort(want); !slices.Equal(e.domains(t), want) {
		t.Errorf("the accounts have %q, want %q", e.domains(t), want)
	}
}

var spellings = []string{
	legacyURL, legacyWWW, "ab--cd.example:443", "AB--CD.Example", "ab--cd.example.", spelledURL, "jane@ab--cd.example",
	"https:/ab--cd.example", "https:///www.ab--cd.example/x?y#z", hostOfForms,
}

func hyphenatedHost(t *testing.T, e *env) {
	var drafts []*atrium.Draft
	for _, domain := range spellings {
		drafts = append(drafts, e.draft(t, byDomain(domain)))
	}
	together := recorded(t, e.append(t, drafts...))
	for i, domain := range spellings {
		if together[i].AccountID != together[0].AccountID {
			t.Errorf("together %q went to %s, want %s", domain, together[i].AccountID, together[0].AccountID)
		}
		e.wantGoes(t, domain, together[0].AccountID)
	}
	e.wantDomains(t, hostOfForms, atrium.UnattributedDomain)
	for _, domain := range spellings {
		e := e.as(e.newTenant(t))
		first := e.record(t, byDomain(domain)).AccountID
		for _, other := range spellings {
			if r := e.record(t, byDomain(other)); r.AccountID != first {
				t.Errorf("after %q, %q went to another account", domain, other)
			}
		}
		e.wantDomains(t, hostOfForms)
	}
}

func oneSlashURLs(t *testing.T, e *env) {
	// Version 1 gave both of them the domain of this account.
	e.stored(t, "https", "")
	a, b := e.record(t, byDomain("https:/a.example")).AccountID, e.record(t, byDomain(`https:\\b.example`)).AccountID
	e.wantDomains(t, "a.example", "b.example", "https")
	e.wantGoes(t, "a.example", a)
	e.wantGoes(t, "http:/b.example", b)
}

func legacyFormFinds(t *testing.T, e *env) {
	old := e.stored(t, legacyURL, "")
	for _, domain := range []string{legacyURL, spelledURL, spelledURLToo} {
		e.wantGoes(t, domain, old.ID)
	}
	if a := e.account(t, old.ID); when(a.LatestActivityAt) != e.clock.shows().String() {
		t.Errorf("its newest activity was %s", when(a.LatestActivityAt))
	}
	e.clock.step(1e9)
	current := e.record(t, byDomain(legacyWWW)).AccountID
	if current == old.ID {
		t.Error("a spelling went to an account that has another legacy form")
	}
	e.wantDomains(t, hostOfForms, legacyURL, atrium.UnattributedDomain)
	e.wantGoes(t, hostOfForms, current)
	e.wantGoes(t, legacyURL, old.ID)
	r := recorded(t, e.append(t, e.draft(t, byDomain(hostOfForms)), e.draft(t, byDomain(legacyURL)), e.draft(t, byDomain(legacyWWW)), e.draft(t, byDomain("c.example")), e.draft(t, byID(old.ID))))
	if r[0].AccountID != current || r[1].AccountID != old.ID || r[2].AccountID != current || r[4].AccountID != old.ID {
		t.Errorf("together they went to %v", r)
	}
	e.wantDomains(t, hostOfForms, legacyURL, "c.example", atrium.UnattributedDomain)
}

func oldestFormWins(t *testing.T, e *env) {
	current := e.stored(t, hostOfForms, "")
	old := e.stored(t, legacyURL, "")
	e.wantGoes(t, legacyURL, current.ID)
	older := e.newAccount(legacyWWW, "")
	older.CreatedAt = current.CreatedAt - 1
	e.put(t, older)
	e.wantGoes(t, legacyWWW, older.ID)
	e.wantGoes(t, hostOfForms, current.ID)
	if n := e.entriesOf(t, old.ID); n != 0 {
		t.Errorf("the younger account has %d entries", n)
	}
	for _, first := range []string{legacyURL, hostOfForms} { // of one instant
		e := e.as(e.newTenant(t))
		a, b := e.newAccount(legacyURL, ""), e.newAccount(hostOfForms, "")
		if (a.ID < b.ID) != (first == legacyURL) {
			a.ID, b.ID = b.ID, a.ID
		}
		e.put(t, a, b)
		e.wantGoes(t, legacyURL, min(a.ID, b.ID))
		e.wantGoes(t, hostOfForms, b.ID)
	}
}

func legacyFormOfAnother(t *testing.T, e *env) {
	theirs := e.as(e.newTenant(t))
	old := theirs.stored(t, legacyURL, "")
	mixed := recorded(t, e.append(t, e.draft(t, byDomain(legacyURL)), theirs.draft(t, byDomain(legacyURL))))
	if mixed[0].AccountID == old.ID || mixed[1].AccountID != old.ID {
		t.Errorf("they went to %v, want the second alone in %s", mixed, old.ID)
	}
	e.wantDomains(t, hostOfForms)
	theirs.wantDomains(t, legacyURL)
}

func legacyFormIsNamed(t *testing.T, e *env) {
	old := e.stored(t, legacyURL, "")
	e.record(t, atrium.Claim{Domain: spelledURL, Name: "Acme"})
	if a := e.account(t, old.ID); a.Name != "Acme" {
		t.Errorf("it is named %q", a.Name)
	}
	if r := e.record(t, byName("acme")); r.AccountID != old.ID {
		t.Errorf("its name led to %s", r.AccountID)
	}
	other := e.record(t, byDomain("other.example")).AccountID
	if r := e.record(t, atrium.Claim{AccountID: other, Domain: legacyURL}); r.AccountID != other {
		t.Errorf("a domain beside an identifier led to %s", r.AccountID)
	}
}

func legacyFormMerged(t *testing.T, e *env) {
	old := e.stored(t, legacyURL, "")
	a, b, _ := e.three(t)
	e.merged(t, old.ID, a.ID)
	e.wantGoes(t, spelledURL, a.ID)
	e.node().wantGoes(t, spelledURL, a.ID)
	if n := e.entriesOf(t, old.ID); n != 6 {
		t.Errorf("%d entries are those of the merged account, want 6", n)
	}
	e.splitOff(t, a.ID, old.ID)
	e.wantGoes(t, spelledURL, old.ID)
	e.merged(t, b.ID, old.ID)
	e.wantGoes(t, "b.example", old.ID)
	e.wantGoes(t, spelledURL, old.ID)
	e.wantSoundGroups(t)
}

func legacyFormErased(t *testing.T, e *env) {
	old := e.stored(t, legacyURL, "")
	e.record(t, byDomain(legacyURL))
	e.erase(t, old.ID)
	made := e.record(t, byDomain(legacyURL))
	if a := e.account(t, made.AccountID); a.ID == old.ID || a.Domain != hostOfForms {
		t.Errorf("it made %+v", a)
	}
	e.wantDomains(t, hostOfForms)
}

func legacyFormTaken(t *testing.T, e *env) {
	old := e.stored(t, legacyURL, "")
	a, b, _ := e.three(t)
	e.merged(t, old.ID, a.ID)
	wantTaken := func(domain string) {
		t.Helper()
		if _, _, err := e.CreateAccount(t.Context(), e.change(), domain, ""); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("make an account with %s: %v", domain, err)
		}
		if _, err := e.UpdateAccount(t.Context(), e.change(), b.ID, atrium.AccountUpdate{Domain: domain}, agree); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("take %s: %v", domain, err)
		}
	}
	wantTaken(legacyURL)
	wantTaken(spelledURL)
	d, _, err := e.CreateAccount(t.Context(), e.change(), legacyWWW, "") // of which none has the legacy form
	if err != nil || d.Domain != hostOfForms {
		t.Fatalf("made %+v, %v", d, err)
	}
	wantTaken(legacyURL)
	wantTaken(legacyWWW)
	wantTaken(hostOfForms)
	e.wantGoes(t, legacyURL, a.ID)
	e.wantGoes(t, legacyWWW, d.ID)
	e.wantSoundGroups(t)
}

func legacyFormUpdated(t *testing.T, e *env) {
	old := e.stored(t, legacyURL, "Old")
	e.clock.step(1e9)
	update := func(u atrium.AccountUpdate) atrium.AccountDetail {
		t.Helper()
		d, err := e.UpdateAccount(t.Context(), e.change(), old.ID, u, agree)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := update(atrium.AccountUpdate{Domain: legacyURL}); d.Domain != legacyURL || d.UpdatedAt != old.UpdatedAt {
		t.Errorf("what it had made it %+v", d)
	}
	if d := update(atrium.AccountUpdate{Domain: spelledURL, Name: pointer("New")}); d.Domain != legacyURL || d.Name != "New" {
		t.Errorf("what it had and another name made it %+v", d)
	}
	d := update(atrium.AccountUpdate{Domain: legacyWWW})
	if d.Domain != hostOfForms || len(d.Merged) != 1 || d.Merged[0].Domain != legacyURL {
		t.Errorf("the current form made it %+v", d)
	}
	for _, domain := range spellings {
		e.wantGoes(t, domain, old.ID)
	}
	e.takeDomain(t, old.ID, "new.example")
	if d := update(atrium.AccountUpdate{Domain: legacyURL}); d.Domain != hostOfForms || len(d.Merged) != 2 {
		t.Errorf("taking back its domain made it %+v", d)
	}
	for _, domain := range append(spellings, "new.example") {
		e.wantGoes(t, domain, old.ID)
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
		if _, err := e.UpdateAccount(t.Context(), e.change(), b, atrium.AccountUpdate{Domain: domain}, agree); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("take %s: %v", domain, err)
		}
		e.record(t, atrium.Claim{Domain: domain, Name: "Nobody"})
	}
	if a := e.account(t, unattributed); a.Name != "" {
		t.Errorf("the unattributed account is named %q", a.Name)
	}
	e.wantDomains(t, "b.example", atrium.UnattributedDomain)
	// An account of an earlier version that has the text is one like any other.
	e = e.as(e.newTenant(t))
	_, legacy := canonical.DomainForms(spelled)
	old := e.stored(t, legacy, "Old")
	if r := e.record(t, byDomain(spelled)); r.AccountID != old.ID {
		t.Errorf("it went to %s, want %s", r.AccountID, old.ID)
	}
	if r := e.record(t, atrium.Claim{}); r.AccountID == old.ID {
		t.Error("what names nothing went to an account with a legacy form")
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
	old := e.stored(t, legacyURL, "")
	wantListed(spelledURL, old.ID)
	wantListed(hostOfForms)
	current := e.stored(t, hostOfForms, "")
	wantListed(spelledURL, old.ID)
	for _, domain := range []string{hostOfForms, legacyWWW, " " + hostOfForms + ":443"} {
		wantListed(domain, current.ID)
	}
	e.merged(t, old.ID, current.ID)
	wantListed(spelledURL, current.ID)
}

func legacyFormMoved(t *testing.T, e *env) {
	to := e.record(t, byDomain("to.example")).AccountID
	old := e.stored(t, legacyURL, "")
	e.wantGoes(t, spelledURL, old.ID)
	for _, domain := range []string{hostOfForms, legacyURL, legacyWWW} {
		request := atrium.MoveRequest{From: old.ID, To: to, Limit: 10, Rule: atrium.MoveRule{ClaimedDomain: domain}}
		if report, err := e.CheckMove(t.Context(), e.tenant, request); err != nil || report.Moved != 3 {
			t.Errorf("the rule for %s matches %d entries, %v, want 3", domain, report.Moved, err)
		}
	}
}

func legacyFormImported(t *testing.T, e *env) {
	old := e.stored(t, legacyURL, "")
	spelled := func(id atrium.AccountID, domain string) []store.Import { // a line that is not one of an export
		current, legacy := canonical.DomainForms(domain)
		a := *old
		a.ID, a.Domain = id, current
		chunk := items(&a)
		chunk[0].LegacyDomain = legacy
		return chunk
	}
	_, err := e.tried(t, spelled(atrium.NewID[atrium.AccountID](), spelledURL))
	wantRefused(t, err, 0, "domain")
	current := e.stored(t, hostOfForms, "")
	if added, err := e.tried(t, append(items(old, current), spelled(old.ID, spelledURL)...)); err != nil || added != 0 {
		t.Errorf("imported again: %d, %v", added, err)
	}
	_, err = e.tried(t, spelled(current.ID, legacyURL))
	wantRefused(t, err, 0, "anything")
	_, err = e.tried(t, spelled(atrium.NewID[atrium.AccountID](), legacyURL))
	wantRefused(t, err, 0, "domain")
	e.wantDomains(t, hostOfForms, legacyURL)

	empty := e.as(e.newTenant(t))
	empty.put(t, e.records(t)...)
	empty.wantDomains(t, hostOfForms, legacyURL)
	empty.wantGoes(t, legacyURL, old.ID)

	other := e.as(e.newTenant(t))
	a := other.newAccount(legacyURL, "")
	b := atrium.NewID[atrium.AccountID]()
	_, err = other.tried(t, append(items(a), spelled(b, spelledURL)...))
	wantRefused(t, err, 1, "domain")
	if added, err := other.tried(t, append(spelled(b, spelledURL), items(a)...)); err != nil || added != 2 {
		t.Errorf("the other way round: %d, %v", added, err)
	}
	other.wantDomains(t, hostOfForms, legacyURL)
}

// tried imports a chunk, of which a trial must have said the same before.
func (e *env) tried(t tb, chunk []store.Import) (added int, err error) {
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

func legacyFormCostsNothing(t *testing.T, e *env) {
	var ran []string
	e.Store = store.New(recording.New(e.db, recording.Server, func(sql string) { ran = append(ran, sql) }), e.clock.now)
	statements := func(drafts ...*atrium.Draft) []string {
		ran = nil
		recorded(t, e.append(t, drafts...))
		return ran
	}
	for _, domain := range []string{"a.example", "b.example", hostOfForms} {
		e.record(t, byDomain(domain))
	}
	for _, domain := range []string{"a.example", hostOfForms, "AB--CD.example"} {
		if got, want := statements(e.draft(t, byDomain(domain))), statements(e.draft(t, byDomain("b.example"))); !slices.Equal(got, want) {
			t.Errorf("an entry for %s ran %q, want %q", domain, got, want)
		}
	}
	plain := statements(e.draft(t, byDomain("b.example")))
	ran = nil
	recorded(t, e.append(t, e.draft(t, byDomain(legacyURL)), e.draft(t, byDomain(legacyWWW)), e.draft(t, byDomain("b.example"))))
	tries := len(slices.DeleteFunc(slices.Clone(ran), func(sql string) bool { return sql != ran[0] }))
	added := slices.DeleteFunc(ran, func(sql string) bool { return slices.Contains(plain, sql) })
	if len(added) != tries || len(slices.Compact(added)) != 1 {
		t.Errorf("in %d tries, entries for legacy forms also ran %q, want one statement each", tries, added)
	}
}

func spellingsTogether(t *testing.T, e *env) {
	for n := range 3 {
		e := e.as(e.newTenant(t))
		goes := make([]atrium.AccountID, 2*writers)
		e.both(func(e *env, i int) {
			goes[i] = e.record(t, byDomain(spellings[(n+i)%len(spellings)])).AccountID
		})
		if slices.Sort(goes); goes[0] != goes[len(goes)-1] {
			t.Errorf("they went to %v", slices.Compact(goes))
		}
		e.wantDomains(t, hostOfForms)
	}
}

// legacyFormsTogether has two nodes append for accounts of both forms, each in another
// order, while some of them are made and one is erased.
func legacyFormsTogether(t *testing.T, e *env) {
	var deadlocks atomic.Int64
	for range 3 {
		two := []*env{e.as(e.newTenant(t)), nil}
		e := two[0]
		two[1] = e.node()
		for _, e := range two {
			e.Store = store.New(waiting{e.db, &deadlocks}, e.clock.now)
		}
		var lasting, all []string
		var old []atrium.AccountID
		for i := range 4 {
			lasting = append(lasting, fmt.Sprintf("https://ll--%d.example", i))
			old = append(old, e.stored(t, lasting[i], "").ID)
			all = append(all, lasting[i], fmt.Sprintf("ll--%d.example", i))
		}
		gone := e.stored(t, legacyURL, "").ID
		all = append(all, legacyURL, hostOfForms, legacyWWW)
		var appended atomic.Int64
		parallel(2*writers, func(i int) {
			e := two[i%2]
			for n := range 5 {
				if i == 0 && n == 2 {
					if _, err := e.EraseAccount(t.Context(), e.change(), gone, agree); err != nil {
						t.Errorf("erase: %v", err)
					}
					continue
				}
				var drafts []*atrium.Draft
				for k := range all {
					drafts = append(drafts, e.draft(t, byDomain(all[(i+k)%len(all)])))
				}
				if i%2 == 1 {
					slices.Reverse(drafts)
				}
				drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("new%d.example", n))))
				for k, r := range recorded(t, e.append(t, drafts...)) {
					if at := slices.Index(lasting, drafts[k].Claim.Domain); at >= 0 && r.AccountID != old[at] {
						t.Errorf("%s went to %s, want %s", lasting[at], r.AccountID, old[at])
					}
					if d := drafts[k].Claim.Domain; d != legacyURL {
						appended.Add(1)
					}
				}
			}
		})
		e.eraseAll(t)
		kept := int64(0)
		for _, entry := range e.entries(t) {
			if _, _, err := e.Account(t.Context(), e.tenant, entry.AccountID); err != nil {
				t.Errorf("an entry has an account that is not there: %v", err)
			}
			if entry.Claim.Domain != legacyURL { // some of these were erased
				kept++
			}
		}
		if kept != appended.Load() {
			t.Errorf("there are %d entries, want %d", kept, appended.Load())
		}
		if slices.Contains(e.domains(t), legacyURL) {
			t.Error("an account was made under a legacy form")
		}
		if _, _, err := e.Account(t.Context(), e.tenant, gone); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("what was erased is still there: %v", err)
		}
		e.wantSoundGroups(t)
	}
	if n := deadlocks.Load(); n > 0 {
		t.Errorf("%d transactions waited for one that waited for them", n)
	}
}
