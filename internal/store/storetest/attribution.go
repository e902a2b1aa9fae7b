package storetest

import (
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store/engine"
)

var attribution = []guarantee{
	{"an entry goes to the account in its identifier, whatever else it claims", entryGoesToAccountNamed},
	{"an unknown account identifier is NotFound and records nothing", unknownAccount},
	{"all spellings of a domain lead to one account", oneAccountForADomain},
	{"a domain can be as long as a request", longDomains},
	{"domains of any length are changed, taken, exported, imported and erased in full", domainsOfAnyLength},
	{"a name that only one account has leads to it in any letter case", nameOfOneAccount},
	{"a name that no account or several accounts have leads to the unattributed account", nameOfNoneOrSeveral},
	{"after a rename the new name finds the account and the old one does not", nameFollowsRename},
	{"names in a transaction are resolved as before the transaction", namesBeforeDomains},
	{"the account of a name is found before an entry goes to it", accountOfName},
	{"entries without a usable claim go to one unattributed account", unattributedAccount},
	{"the unattributed account is never found by a name", unattributedHasNoName},
	{"an entry never names the unattributed account", unattributedStaysUnnamed},
	{"every combination of claims leads to the right account, in one batch and separately", everyCombination},
	{"an entry stores its claim unchanged", claimsAreKept},
}

func entryGoesToAccountNamed(t *testing.T, e *env) {
	acme := e.record(t, byDomain("acme.example")).AccountID
	r := e.record(t, atrium.Claim{AccountID: acme, Domain: "other.example", Name: "Other"})
	if r.AccountID != acme {
		t.Errorf("the entry went to %s, want %s", r.AccountID, acme)
	}
	if all := e.accounts(t); len(all) != 1 {
		t.Errorf("there are %d accounts, want 1: a domain next to an identifier makes no account", len(all))
	}
}

func unknownAccount(t *testing.T, e *env) {
	theirs := e.as(e.newTenant(t)).record(t, byDomain("acme.example")).AccountID
	unknown := atrium.NewID[atrium.AccountID]()
	outcomes := e.append(t,
		e.draft(t, byID(theirs)), e.draft(t, byID(unknown)),
		e.draft(t, atrium.Claim{AccountID: theirs, Domain: "acme.example", Name: "Acme"}))
	for i, o := range outcomes {
		wantCode(t, o.Err, atrium.CodeNotFound)
		if o.Err.Error() != outcomes[0].Err.Error() || o.Receipt != (atrium.Receipt{}) {
			t.Errorf("draft %d: %+v differs from the first: %+v", i, o, outcomes[0])
		}
	}
	if all := e.records(t); len(all) != 0 {
		t.Errorf("the tenant has %d records, want none", len(all))
	}
}

func oneAccountForADomain(t *testing.T, e *env) {
	written := []string{
		"bücher.example", "BÜCHER.example", "xn--bcher-kva.example", " https://www.Bücher.example:443/a?b#c ",
		"someone@bücher.example", "//bücher.example", "bücher.example.", "bu\u0308cher.example",
	}
	var drafts []*atrium.Draft
	for _, domain := range written {
		drafts = append(drafts, e.draft(t, byDomain(domain)))
	}
	first := receipts(t, e.append(t, drafts...))
	for i, domain := range written {
		if again := e.record(t, byDomain(domain)); first[i].AccountID != first[0].AccountID || again.AccountID != first[0].AccountID {
			t.Errorf("%q went to %s and then to %s, want %s", domain, first[i].AccountID, again.AccountID, first[0].AccountID)
		}
	}
	if a := e.account(t, first[0].AccountID); a.Domain != "xn--bcher-kva.example" {
		t.Errorf("the domain is %q, want its canonical form", a.Domain)
	}
}

func longDomains(t *testing.T, e *env) {
	long := strings.Repeat("x", 300_000)
	r := receipts(t, e.append(t, e.draft(t, byDomain(long)), e.draft(t, byDomain(strings.ToUpper(long))), e.draft(t, byDomain(long+"y"))))
	again := e.record(t, byDomain(long+"y"))
	if r[0].AccountID != r[1].AccountID || r[0].AccountID == r[2].AccountID || r[2].AccountID != again.AccountID {
		t.Errorf("accounts %s, %s, %s, %s: want the first two and the last two the same", r[0].AccountID, r[1].AccountID, r[2].AccountID, again.AccountID)
	}
	if a := e.account(t, again.AccountID); a.Domain != long+"y" {
		t.Errorf("the domain came back with %d bytes, want %d", len(a.Domain), len(long)+1)
	}
	e.checkLongDomains(t)
}

// checkLongDomains fails the test if a statement that finds an account reads a long domain, or if
// a long domain has no account.
func (e *env) checkLongDomains(t tb) {
	t.Helper()
	long, tenant := map[atrium.AccountID]bool{}, engine.Args{storedID(e.tenant)}
	if err := e.db.Query(t.Context(), "SELECT account_id, octet_length(domain) FROM accounts WHERE tenant_id = $1", tenant, func(r engine.Row) error {
		if r.Int(1) > 4100 {
			t.Errorf("the row of %s has %d bytes of its domain", storedAccount(r, 0), r.Int(1))
		}
		long[storedAccount(r, 0)] = r.Int(1) > 1024
		return nil
	}); err != nil {
		t.Fatalf("read the accounts: %v", err)
	}
	if err := e.db.Query(t.Context(), "SELECT account_id FROM long_domains WHERE tenant_id = $1", tenant, func(r engine.Row) error {
		if id := storedAccount(r, 0); !long[id] {
			t.Errorf("%s has a long domain and no account for it", id)
		}
		return nil
	}); err != nil {
		t.Fatalf("read the long domains: %v", err)
	}
}

// domainsOfAnyLength changes the domain of an account from each length to each other length.
func domainsOfAnyLength(t *testing.T, e *env) {
	domains := []string{"short", strings.Repeat("a", 1024), strings.Repeat("b", 1025), strings.Repeat("c", 1026), strings.Repeat("ü", 513),
		strings.Repeat("日", 1025), strings.Repeat("日", 1026), "end" + strings.Repeat("𐐨", 2000)}
	a, p := e.record(t, byDomain("start")).AccountID, e.prospect(t, "jane@acme.example")
	e.link(t, a, p.ID)
	had := []string{"start"}
	for range 2 { // the second time, the domain is that of a merged account
		for _, domain := range domains {
			if _, err := e.UpdateAccount(t.Context(), e.change(), a, atrium.AccountUpdate{Domain: domain}, nil); err != nil {
				t.Fatalf("take a domain of %d bytes: %v", len(domain), err)
			}
			if !slices.Contains(had, domain) {
				had = append(had, domain)
			}
			if got := e.account(t, a).Domain; got != domain {
				t.Errorf("the domain has %d bytes, want %d", len(got), len(domain))
			}
			if found, _, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{Domain: domain}, atrium.AccountsNewest, nil, 2); err != nil || len(found) != 1 || found[0].Domain != domain {
				t.Errorf("the list has %d accounts with the domain of %d bytes, %v", len(found), len(domain), err)
			}
			for _, domain := range had {
				if r := e.record(t, byDomain(domain)); r.AccountID != a {
					t.Errorf("the domain of %d bytes leads to %s", len(domain), r.AccountID)
				}
			}
		}
	}
	e.checkLongDomains(t)
	var exported []string
	for _, r := range of[*atrium.Account](e.records(t)) {
		exported = append(exported, r.Domain)
	}
	slices.Sort(had)
	if slices.Sort(exported); !slices.Equal(exported, had) {
		t.Errorf("%d accounts are exported, or their domains differ from the %d", len(exported), len(had))
	}
	e.erase(t, a)
	if n := e.rowsOf(t, "long_domains"); n != 0 {
		t.Errorf("%d long domains are left", n)
	}
	for i, domain := range domains { // all are free
		account := e.newAccount(domain, "")
		e.put(t, account)
		if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(account)); err != nil || added.Added != 0 {
			t.Errorf("imported again: %d, %v", added, err)
		}
		if i%2 == 0 {
			e.rename(t, account.ID, "Named")
		}
		if got := e.account(t, account.ID).Domain; got != domain {
			t.Errorf("the imported domain has %d bytes, want %d", len(got), len(domain))
		}
	}
	e.checkLongDomains(t)
}

func nameOfOneAccount(t *testing.T, e *env) {
	for given, wanted := range map[string]string{
		"ACME": "acme", "Straße": "STRASSE", "ΣΊΣΥΦΟΣ": "σίσυφος", "ﬁne": "FINE", "ȺȾ": "ⱥⱦ", "𐐀": "𐐨", "K\u212a": "kk",
	} {
		e := e.as(e.newTenant(t))
		made := e.record(t, atrium.Claim{Domain: "acme.example", Name: given}).AccountID
		e.record(t, atrium.Claim{Domain: "other.example", Name: "Other"})
		for _, name := range []string{given, wanted} {
			if r := e.record(t, byName(name)); r.AccountID != made {
				t.Errorf("%q did not lead to the account named %q", name, given)
			}
		}
	}
}

func nameOfNoneOrSeveral(t *testing.T, e *env) {
	unattributed := e.record(t, byName("Acme")).AccountID
	a := e.record(t, atrium.Claim{Domain: "a.example", Name: "Acme"}).AccountID
	if r := e.record(t, byName("acme")); r.AccountID != a {
		t.Errorf("a name that one account has led to %s, want %s", r.AccountID, a)
	}
	for _, domain := range []string{"b.example", "c.example"} {
		e.record(t, atrium.Claim{Domain: domain, Name: "ACME"})
		if r := e.record(t, byName("acme")); r.AccountID != unattributed {
			t.Errorf("a name that several accounts have led to %s, want the unattributed %s", r.AccountID, unattributed)
		}
	}
	for _, near := range []string{"Acme ", " Acme", "Acme Inc", "Ácme"} {
		if r := e.as(e.tenant).record(t, byName(near)); r.AccountID != unattributed {
			t.Errorf("%q led to %s, want the unattributed %s", near, r.AccountID, unattributed)
		}
	}
	if d := e.account(t, unattributed).Domain; d != atrium.UnattributedDomain {
		t.Errorf("the account of unattributed entries has domain %q", d)
	}
}

func accountOfName(t *testing.T, e *env) {
	_, err := e.AccountOfName(t.Context(), e.tenant, "Acme")
	wantCode(t, err, atrium.CodeNotFound) // the unattributed account is created by its first entry
	e.as(e.newTenant(t)).record(t, atrium.Claim{Domain: "theirs.example", Name: "Acme"})
	agree := func(name string) atrium.Account {
		t.Helper()
		found, err := e.AccountOfName(t.Context(), e.tenant, name)
		if r := e.record(t, byName(name)); err != nil || r.AccountID != found.ID {
			t.Errorf("%q is of %+v, %v, and its entry went to %s", name, found, err, r.AccountID)
		}
		return found
	}
	e.record(t, byName("Acme"))
	if a := agree("acme"); a.Domain != atrium.UnattributedDomain {
		t.Errorf("a name of no account leads to %s", a.Domain)
	}
	e.record(t, atrium.Claim{Domain: "a.example", Name: "Acme"})
	if a := agree("ACME"); a.Domain != "a.example" {
		t.Errorf("a name of one account leads to %s", a.Domain)
	}
	b := e.record(t, atrium.Claim{Domain: "b.example", Name: "acme"}).AccountID
	if a := agree("Acme"); a.Domain != atrium.UnattributedDomain {
		t.Errorf("a name of two accounts leads to %s", a.Domain)
	}
	e.eraseAccount(t, b)
	if a := agree("Acme"); a.Domain != "a.example" {
		t.Errorf("a name of one account and one that was erased leads to %s", a.Domain)
	}
	agree("")
}

func nameFollowsRename(t *testing.T, e *env) {
	a := e.record(t, atrium.Claim{Domain: "a.example", Name: "Acme"}).AccountID
	b := e.record(t, atrium.Claim{Domain: "b.example", Name: "Acme"}).AccountID
	unattributed := e.record(t, byName("Acme")).AccountID
	e.rename(t, b, "Bolt")
	for name, want := range map[string]atrium.AccountID{"ACME": a, "BOLT": b, "Other": unattributed} {
		if r := e.record(t, byName(name)); r.AccountID != want {
			t.Errorf("%q led to %s, want %s", name, r.AccountID, want)
		}
	}
	e.rename(t, a, "bolt")
	for _, name := range []string{"Acme", "Bolt"} {
		if r := e.record(t, byName(name)); r.AccountID != unattributed {
			t.Errorf("%q led to %s, want the unattributed %s", name, r.AccountID, unattributed)
		}
	}
}

func namesBeforeDomains(t *testing.T, e *env) {
	known := e.record(t, atrium.Claim{Domain: "known.example", Name: "Known"}).AccountID
	unnamed := e.record(t, byDomain("d.example")).AccountID
	r := receipts(t, e.append(t,
		e.draft(t, byName("acme")), e.draft(t, atrium.Claim{Domain: "a.example", Name: "Acme"}),
		e.draft(t, byName("Delta")), e.draft(t, atrium.Claim{AccountID: unnamed, Name: "Delta"}),
		e.draft(t, byName("known")), e.draft(t, atrium.Claim{Domain: "b.example", Name: "Known"}), e.draft(t, atrium.Claim{})))
	unattributed := r[6].AccountID
	if r[0].AccountID != unattributed || r[2].AccountID != unattributed {
		t.Error("a name led to an account that got it in the same transaction")
	}
	if r[4].AccountID != known {
		t.Error("a name did not lead to the only account that had it before the transaction")
	}
	for name, want := range map[string]atrium.AccountID{"Acme": r[1].AccountID, "Delta": unnamed, "Known": unattributed} {
		if got := e.record(t, byName(name)).AccountID; got != want {
			t.Errorf("%q led to %s afterwards, want %s", name, got, want)
		}
	}
}

func unattributedAccount(t *testing.T, e *env) {
	r := receipts(t, e.append(t, e.draft(t, atrium.Claim{}), e.draft(t, byName("Nobody")), e.draft(t, byName("None")),
		e.draft(t, byDomain("https://WWW.Unattributed.INVALID/"))))
	r = append(r, e.record(t, atrium.Claim{}), e.record(t, byName("Nobody")), e.record(t, byID(r[0].AccountID)))
	for i := range r {
		if r[i].AccountID != r[0].AccountID {
			t.Errorf("entry %d went to %s, want %s", i, r[i].AccountID, r[0].AccountID)
		}
	}
	if a := e.account(t, r[0].AccountID); a.Domain != atrium.UnattributedDomain || a.Name != "" || a.CreatedAt != a.UpdatedAt {
		t.Errorf("the unattributed account is %+v", a)
	}
	if theirs := e.as(e.newTenant(t)).record(t, atrium.Claim{}); theirs.AccountID == r[0].AccountID {
		t.Error("two tenants have one unattributed account")
	}
}

func unattributedHasNoName(t *testing.T, e *env) {
	unattributed := e.record(t, atrium.Claim{}).AccountID
	e.rename(t, unattributed, "Acme")
	acme := e.record(t, atrium.Claim{Domain: "acme.example", Name: "Acme"}).AccountID
	if r := e.record(t, byName("Acme")); r.AccountID != acme {
		t.Errorf("a name that one account and the unattributed one have led to %s, want %s", r.AccountID, acme)
	}

	imported := e.as(e.newTenant(t))
	a, b := imported.newAccount(atrium.UnattributedDomain, "Bolt"), imported.newAccount("bolt.example", "Bolt")
	imported.put(t, a, b)
	if r := imported.record(t, byName("BOLT")); r.AccountID != b.ID {
		t.Errorf("a name that one account and an imported unattributed one have led to %s, want %s", r.AccountID, b.ID)
	}
	if r := imported.record(t, atrium.Claim{}); r.AccountID != a.ID {
		t.Errorf("an entry without a claim went to %s, want the imported %s", r.AccountID, a.ID)
	}
}

func unattributedStaysUnnamed(t *testing.T, e *env) {
	made := e.record(t, atrium.Claim{Domain: "unattributed.invalid", Name: "First"})
	e.clock.step(1e9)
	e.append(t, e.draft(t, byName("Second")), e.draft(t, atrium.Claim{AccountID: made.AccountID, Name: "Third"}),
		e.draft(t, atrium.Claim{Domain: "unattributed.invalid", Name: "Fourth"}))
	if a := e.account(t, made.AccountID); a.Name != "" || a.UpdatedAt != made.CreatedAt {
		t.Errorf("the unattributed account has name %q and was updated at %s, made at %s", a.Name, a.UpdatedAt, made.CreatedAt)
	}
}

// everyCombination gives an account of its own to the identifier, the domain and the name of a
// claim, so that the account shows which one was used.
func everyCombination(t *testing.T, e *env) {
	a := e.record(t, byDomain("a.example")).AccountID
	b := e.record(t, byDomain("b.example")).AccountID
	c := e.record(t, atrium.Claim{Domain: "c.example", Name: "C"}).AccountID
	none := e.record(t, atrium.Claim{}).AccountID
	claims := []atrium.Claim{
		{}, {Name: "c"}, {Domain: "b.example"}, {Domain: "b.example", Name: "c"}, {AccountID: a}, {AccountID: a, Name: "c"},
		{AccountID: a, Domain: "b.example"}, {AccountID: a, Domain: "b.example", Name: "c"},
	}
	want := []atrium.AccountID{none, c, b, b, a, a, a, a}
	drafts := make([]*atrium.Draft, len(claims))
	for i, claim := range claims {
		drafts[i] = e.draft(t, claim)
	}
	for i, r := range receipts(t, e.append(t, drafts...)) {
		if r.AccountID != want[i] {
			t.Errorf("in one batch: %+v went to %s, want %s", claims[i], r.AccountID, want[i])
		}
	}
	e.rename(t, a, "A") // the batch has also named a and b
	e.rename(t, b, "B")
	for i, claim := range claims {
		if r := e.record(t, claim); r.AccountID != want[i] {
			t.Errorf("separately: %+v went to %s, want %s", claim, r.AccountID, want[i])
		}
	}
}

func claimsAreKept(t *testing.T, e *env) {
	a := e.record(t, byDomain("a.example")).AccountID
	claims := map[atrium.EntryID]atrium.Claim{}
	for _, claim := range []atrium.Claim{
		{}, {Name: " Nobody "}, {Domain: " HTTPS://B.example/x "}, {Domain: "b.example", Name: "B"}, {AccountID: a},
		{AccountID: a, Name: "A"}, {AccountID: a, Domain: "not a host"}, {AccountID: a, Domain: "WWW.C.example", Name: "C"},
	} {
		claims[e.record(t, claim).EntryID] = claim
	}
	for _, entry := range e.entries(t) {
		if claim, ok := claims[entry.ID]; ok && entry.Claim != claim {
			t.Errorf("the entry has %+v, want the claim %+v", entry.Claim, claim)
		}
		delete(claims, entry.ID)
	}
	if len(claims) > 0 {
		t.Errorf("%d entries were not found", len(claims))
	}
}
