package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine/recording"
)

// Entries for domains that have a legacy form (canonical.DomainForms). Earlier versions stored
// accounts under it.

var legacyDomains = []guarantee{
	{"all spellings of a new host name with hyphens make one account", hyphenatedHost},
	{"URLs with one slash make one account per host", oneSlashURLs},
	{"an account stored under a legacy form is found by it, and no new one is stored under it", legacyFormFinds},
	{"of two accounts with forms of a domain, the older one takes the entries", oldestFormWins},
	{"a legacy form of another tenant finds nothing", legacyFormOfAnother},
	{"an account found by a legacy form takes the claimed name", legacyFormIsNamed},
	{"a legacy form of a merged account leads to the survivor", legacyFormMerged},
	{"a later entry for an erased legacy form makes an account of the current form", legacyFormErased},
	{"a domain without a legacy form takes no additional statement", legacyFormCostsNothing},
	{concurrent + "entries with all spellings make one account", spellingsTogether},
	{concurrent + "entries for both forms and erasures lose nothing and store no legacy form", legacyFormsTogether},
}

const (
	hostOfForms = "ab--cd.example"
	legacyURL   = "https://ab--cd.example"
	legacyWWW   = "www.ab--cd.example"
	spelledURL  = "HTTPS://AB--CD.Example"
	spelledURL2 = " https://ab--CD.example "
)

// importAccount imports an account with a domain exactly as given.
func (e *env) importAccount(t tb, domain, name string) *atrium.Account {
	t.Helper()
	e.clock.step(1e9)
	a := e.newAccount(domain, name)
	e.put(t, a)
	return a
}

// wantAccountFor checks the account that entries for a domain go to, alone and in a batch with
// others.
func (e *env) wantAccountFor(t tb, domain string, want atrium.AccountID) {
	t.Helper()
	together := receipts(t, e.append(t, e.draft(t, byDomain(domain)), e.draft(t, atrium.Claim{}), e.draft(t, byDomain(domain))))
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
	together := receipts(t, e.append(t, drafts...))
	for i, domain := range spellings {
		if together[i].AccountID != together[0].AccountID {
			t.Errorf("in one batch %q went to %s, want %s", domain, together[i].AccountID, together[0].AccountID)
		}
		e.wantAccountFor(t, domain, together[0].AccountID)
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
	// Version 1 stored both under the domain of this account.
	e.importAccount(t, "https", "")
	a, b := e.record(t, byDomain("https:/a.example")).AccountID, e.record(t, byDomain(`https:\\b.example`)).AccountID
	e.wantDomains(t, "a.example", "b.example", "https")
	e.wantAccountFor(t, "a.example", a)
	e.wantAccountFor(t, "http:/b.example", b)
}

func legacyFormFinds(t *testing.T, e *env) {
	old := e.importAccount(t, legacyURL, "")
	for _, domain := range []string{legacyURL, spelledURL, spelledURL2} {
		e.wantAccountFor(t, domain, old.ID)
	}
	if a := e.account(t, old.ID); when(a.LatestActivityAt) != e.clock.instant().String() {
		t.Errorf("its newest activity was %s", when(a.LatestActivityAt))
	}
	e.clock.step(1e9)
	current := e.record(t, byDomain(legacyWWW)).AccountID
	if current == old.ID {
		t.Error("a spelling went to an account with another legacy form")
	}
	e.wantDomains(t, hostOfForms, legacyURL, atrium.UnattributedDomain)
	e.wantAccountFor(t, hostOfForms, current)
	e.wantAccountFor(t, legacyURL, old.ID)
	r := receipts(t, e.append(t, e.draft(t, byDomain(hostOfForms)), e.draft(t, byDomain(legacyURL)), e.draft(t, byDomain(legacyWWW)), e.draft(t, byDomain("c.example")), e.draft(t, byID(old.ID))))
	if r[0].AccountID != current || r[1].AccountID != old.ID || r[2].AccountID != current || r[4].AccountID != old.ID {
		t.Errorf("in one batch they went to %v", r)
	}
	e.wantDomains(t, hostOfForms, legacyURL, "c.example", atrium.UnattributedDomain)
}

func oldestFormWins(t *testing.T, e *env) {
	current := e.importAccount(t, hostOfForms, "")
	old := e.importAccount(t, legacyURL, "")
	e.wantAccountFor(t, legacyURL, current.ID)
	older := e.newAccount(legacyWWW, "")
	older.CreatedAt = current.CreatedAt - 1
	e.put(t, older)
	e.wantAccountFor(t, legacyWWW, older.ID)
	e.wantAccountFor(t, hostOfForms, current.ID)
	if n := e.entriesOf(t, old.ID); n != 0 {
		t.Errorf("the younger account has %d entries", n)
	}
	for _, first := range []string{legacyURL, hostOfForms} { // created at one instant
		e := e.as(e.newTenant(t))
		a, b := e.newAccount(legacyURL, ""), e.newAccount(hostOfForms, "")
		if (a.ID < b.ID) != (first == legacyURL) {
			a.ID, b.ID = b.ID, a.ID
		}
		e.put(t, a, b)
		e.wantAccountFor(t, legacyURL, min(a.ID, b.ID))
		e.wantAccountFor(t, hostOfForms, b.ID)
	}
}

func legacyFormOfAnother(t *testing.T, e *env) {
	theirs := e.as(e.newTenant(t))
	old := theirs.importAccount(t, legacyURL, "")
	mixed := receipts(t, e.append(t, e.draft(t, byDomain(legacyURL)), theirs.draft(t, byDomain(legacyURL))))
	if mixed[0].AccountID == old.ID || mixed[1].AccountID != old.ID {
		t.Errorf("they went to %v, want only the second in %s", mixed, old.ID)
	}
	e.wantDomains(t, hostOfForms)
	theirs.wantDomains(t, legacyURL)
}

func legacyFormIsNamed(t *testing.T, e *env) {
	old := e.importAccount(t, legacyURL, "")
	e.record(t, atrium.Claim{Domain: spelledURL, Name: "Acme"})
	if a := e.account(t, old.ID); a.Name != "Acme" {
		t.Errorf("it is named %q", a.Name)
	}
	if r := e.record(t, byName("acme")); r.AccountID != old.ID {
		t.Errorf("its name led to %s", r.AccountID)
	}
	other := e.record(t, byDomain("other.example")).AccountID
	if r := e.record(t, atrium.Claim{AccountID: other, Domain: legacyURL}); r.AccountID != other {
		t.Errorf("a domain next to an identifier led to %s", r.AccountID)
	}
}

func legacyFormMerged(t *testing.T, e *env) {
	old := e.importAccount(t, legacyURL, "")
	a, b, _ := e.threeAccounts(t)
	e.merge(t, old.ID, a.ID)
	e.wantAccountFor(t, spelledURL, a.ID)
	e.node().wantAccountFor(t, spelledURL, a.ID)
	if n := e.entriesOf(t, old.ID); n != 6 {
		t.Errorf("%d entries are those of the merged account, want 6", n)
	}
	e.split(t, a.ID, old.ID)
	e.wantAccountFor(t, spelledURL, old.ID)
	e.merge(t, b.ID, old.ID)
	e.wantAccountFor(t, "b.example", old.ID)
	e.wantAccountFor(t, spelledURL, old.ID)
	e.wantSoundGroups(t)
}

func legacyFormErased(t *testing.T, e *env) {
	old := e.importAccount(t, legacyURL, "")
	e.record(t, byDomain(legacyURL))
	e.erase(t, old.ID)
	made := e.record(t, byDomain(legacyURL))
	if a := e.account(t, made.AccountID); a.ID == old.ID || a.Domain != hostOfForms {
		t.Errorf("it made %+v", a)
	}
	e.wantDomains(t, hostOfForms)
}

func legacyFormCostsNothing(t *testing.T, e *env) {
	var ran []string
	e.Store = store.New(recording.New(e.db, recording.Server, func(sql string) { ran = append(ran, sql) }), e.clock.now)
	statements := func(drafts ...*atrium.Draft) []string {
		ran = nil
		receipts(t, e.append(t, drafts...))
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
	receipts(t, e.append(t, e.draft(t, byDomain(legacyURL)), e.draft(t, byDomain(legacyWWW)), e.draft(t, byDomain("b.example"))))
	tries := len(slices.DeleteFunc(slices.Clone(ran), func(sql string) bool { return !strings.HasPrefix(sql, "SELECT batch.tenant_id, (SELECT s.secrets") }))
	added := slices.DeleteFunc(ran, func(sql string) bool { return slices.Contains(plain, sql) })
	if len(added) != tries || len(slices.Compact(added)) != 1 {
		t.Errorf("in %d tries, entries for legacy forms also ran %q, want one statement each", tries, added)
	}
}

func spellingsTogether(t *testing.T, e *env) {
	for n := range 3 {
		e := e.as(e.newTenant(t))
		goes := make([]atrium.AccountID, 2*writers)
		e.onTwoNodes(t, func(e *env, i int) {
			goes[i] = e.record(t, byDomain(spellings[(n+i)%len(spellings)])).AccountID
		})
		if slices.Sort(goes); goes[0] != goes[len(goes)-1] {
			t.Errorf("they went to %v", slices.Compact(goes))
		}
		e.wantDomains(t, hostOfForms)
	}
}

// legacyFormsTogether has two nodes append entries for accounts of both forms, in different
// orders, while some of the accounts are created and one is erased.
func legacyFormsTogether(t *testing.T, e *env) {
	var deadlocks atomic.Int64
	for range 3 {
		two := []*env{e.as(e.newTenant(t)), nil}
		e := two[0]
		two[1] = e.node()
		for _, e := range two {
			e.Store = store.New(deadlockCounter{e.db, &deadlocks}, e.clock.now)
		}
		var lasting, all []string
		var old []atrium.AccountID
		for i := range 4 {
			lasting = append(lasting, fmt.Sprintf("https://ll--%d.example", i))
			old = append(old, e.importAccount(t, lasting[i], "").ID)
			all = append(all, lasting[i], fmt.Sprintf("ll--%d.example", i))
		}
		gone := e.importAccount(t, legacyURL, "").ID
		all = append(all, legacyURL, hostOfForms, legacyWWW)
		var appended atomic.Int64
		parallel(t, 2*writers, func(i int) {
			e := two[i%2]
			for n := range 5 {
				if i == 0 && n == 2 {
					if _, err := e.EraseAccount(t.Context(), e.change(), gone, accept); err != nil {
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
				for k, r := range receipts(t, e.append(t, drafts...)) {
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
				t.Errorf("the account of an entry is missing: %v", err)
			}
			if entry.Claim.Domain != legacyURL { // some entries for legacyURL were erased
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
			t.Errorf("erased data is left: %v", err)
		}
		e.wantSoundGroups(t)
	}
	if n := deadlocks.Load(); n > 0 {
		t.Errorf("%d transactions were in a deadlock", n)
	}
}
