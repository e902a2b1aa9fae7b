package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
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
	{"entries without a usable claim go to one unattributed account", unattributedAccount},
	{"the unattributed account is never found by a name", unattributedHasNoName},
	{"an entry never names the unattributed account", unattributedStaysUnnamed},
	{"every combination of claims leads to the right account, in one batch and separately", everyCombination},
	{"an entry stores its claim unchanged", claimsAreKept},
	{"an append writes a bounded number of rows for new accounts and names", accountRowsBounded},
	{"an entry leaves the row of its account unchanged", entryLeavesAccountRow},
	{"the list by activity follows entries after an update", listFollowsEntries},
	{"an update of the activity that fails is repeated", failedActivityUpdate},
	{"an update of the activity includes what commits during it", lateActivity},
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

func entryLeavesAccountRow(t *testing.T, e *env) {
	var id atrium.AccountID
	row := func() (columns [2]int64) {
		if err := e.db.Query(t.Context(), "SELECT latest_activity_at, active_minute FROM accounts WHERE tenant_id = $1 AND account_id = $2",
			engine.Args{storedID(e.tenant), storedID(id)}, func(r engine.Row) error {
				columns = [2]int64{r.Int(0), r.Int(1)}
				return nil
			}); err != nil {
			t.Fatal(err)
		}
		return columns
	}
	id = e.record(t, byDomain("acme.example")).AccountID
	before := row()
	for _, claim := range []atrium.Claim{byDomain("acme.example"), {AccountID: id}, byDomain("www.acme.example")} {
		e.clock.step(time.Minute)
		r := e.record(t, claim)
		if got := e.account(t, id).LatestActivityAt; got == nil || *got != r.CreatedAt {
			t.Errorf("after an entry with %+v the latest activity is %v, want %v", claim, got, r.CreatedAt)
		}
		if after := row(); after != before {
			t.Errorf("after an entry with %+v the row has %v, want %v", claim, after, before)
		}
	}
}

func listFollowsEntries(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	e.merge(t, e.record(t, byDomain("merged.example")).AccountID, b)
	e.sweepActivity(t)
	want := func(what string, ids ...atrium.AccountID) {
		t.Helper()
		found, _, err := e.Accounts(t.Context(), e.tenant, atrium.AccountFilter{}, atrium.AccountsActivity, nil, 9)
		var got []atrium.AccountID
		for i := range found {
			got = append(got, found[i].ID)
		}
		if err != nil || !slices.Equal(got, ids) {
			t.Errorf("%s: %s, %v, want %s", what, got, err, ids)
		}
	}
	update := func(e *env) {
		t.Helper()
		if err := e.UpdateActivity(t.Context()); err != nil {
			t.Error(err)
		}
	}
	e.clock.step(time.Minute)
	for _, c := range []struct {
		what  string
		claim atrium.Claim
		order []atrium.AccountID // afterwards
	}{
		{"by domain", byDomain("a.example"), []atrium.AccountID{a, b}},
		{"by a merged domain", byDomain("merged.example"), []atrium.AccountID{b, a}},
		{"by identifier", byID(a), []atrium.AccountID{a, b}},
	} {
		e.record(t, c.claim)
		want(c.what+", before an update", c.order[1], c.order[0])
		update(e.node()) // which has appended nothing
		want(c.what+", after an update of another process", c.order[1], c.order[0])
		update(e)
		want(c.what, c.order...)
		if e.record(t, c.claim); e.rowsOf(t, "active_accounts") != 0 {
			t.Errorf("%s: the next entry within the minute asks for an update", c.what)
		}
		e.clock.step(time.Minute)
	}

	// What a process has left behind.
	node := e.node()
	node.record(t, byID(b))
	e.sweepActivity(t)
	want("after a sweep", b, a)

	// The newest entry is moved away before the update.
	e.clock.step(time.Minute)
	moved := e.record(t, byID(a)).EntryID
	e.move(t, moved, b)
	e.clock.step(time.Minute)
	e.record(t, byID(b))
	update(e)
	want("after a move", b, a)
	e.wantSoundGroups(t)
	if n := e.rowsOf(t, "active_accounts"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A hookedWrites calls before with the number of each write transaction, from 1, and after it has
// run fails it with the error.
type hookedWrites struct {
	engine.DB
	n      *int
	before func(n int) error
}

func (db hookedWrites) Write(ctx context.Context, f func(engine.Tx) error) error {
	*db.n++
	failure := db.before(*db.n)
	return db.DB.Write(ctx, func(tx engine.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return failure
	})
}

func (e *env) hooked(before func(n int) error) *env {
	other := *e
	other.Store = store.New(hookedWrites{e.db, new(int), before}, e.clock.now)
	return &other
}

func lateActivity(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	e.clock.step(time.Minute)
	hooked := e.hooked(func(n int) error {
		if n != 2 { // after an append, the update
			return nil
		}
		e.node().record(t, byID(b))
		var newest []byte
		if err := e.db.Query(t.Context(), "SELECT batch_id FROM active_accounts WHERE tenant_id = $1 ORDER BY batch_id DESC LIMIT 1",
			engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
				newest = r.Bytes(0)
				return nil
			}); err != nil {
			return err
		}
		// As if it had begun before the others.
		e.sql(t, "UPDATE active_accounts SET batch_id = $1 WHERE tenant_id = $2 AND batch_id = $3", make([]byte, 18), storedID(e.tenant), newest)
		return nil
	})
	hooked.record(t, byID(a))
	if err := hooked.UpdateActivity(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := e.rowsOf(t, "active_accounts"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	e.wantSoundGroups(t)
}

func failedActivityUpdate(t *testing.T, e *env) {
	var drafts []*atrium.Draft
	for i := range 600 {
		drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("a%d.example", i))))
	}
	e.append(t, drafts...)
	e.clock.step(time.Minute)
	minute := int64(e.clock.instant()) / 60_000_000
	for i, d := range drafts {
		drafts[i] = e.draft(t, d.Claim)
	}
	failing := e.hooked(func(n int) error {
		if n == 4 { // the second update
			return errors.New("on purpose")
		}
		return nil
	})
	if err := failing.appendAll(t, drafts[:300], drafts[300:]); err != nil {
		t.Fatal(err)
	}
	if err := failing.UpdateActivity(t.Context()); err == nil {
		t.Error("a failed transaction is not reported")
	}
	if err := failing.UpdateActivity(t.Context()); err != nil {
		t.Error(err)
	}
	updated := 0
	if err := e.db.Query(t.Context(), "SELECT active_minute FROM accounts WHERE tenant_id = $1", engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
		if r.Int(0) == minute {
			updated++
		}
		return nil
	}); err != nil || updated != 600 || e.rowsOf(t, "active_accounts") != 0 {
		t.Errorf("%d accounts are up to date, %v; %d rows are left", updated, err, e.rowsOf(t, "active_accounts"))
	}
}

// appendAll appends batches of drafts, which must not fail.
func (e *env) appendAll(t tb, batches ...[]*atrium.Draft) error {
	for _, drafts := range batches {
		outcomes, err := e.Append(t.Context(), drafts)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			if o.Err != nil {
				return o.Err
			}
		}
	}
	return nil
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
		if added, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(account)); err != nil || added != 0 {
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

// wantDeferred appends the drafts with TryAppend until all are stored. It fails the test unless each
// call stores the next of them, at most most, and the others are deferred.
func (e *env) wantDeferred(t tb, most int, drafts ...*atrium.Draft) (receipts []atrium.Receipt) {
	t.Helper()
	for calls := 1; len(drafts) > 0; calls++ {
		outcomes, err := e.TryAppend(t.Context(), drafts)
		if err != nil {
			t.Fatalf("append: %v", err)
		}
		stored := 0
		for i, o := range outcomes {
			switch {
			case o.Err == nil && i == stored:
				stored++
				receipts = append(receipts, o.Receipt)
			case !errors.Is(o.Err, atrium.ErrDeferred):
				t.Fatalf("call %d, draft %d: %v after %d stored ones", calls, i, o.Err, stored)
			}
		}
		if stored == 0 || stored > most {
			t.Fatalf("call %d stores %d drafts, want 1 to %d", calls, stored, most)
		}
		drafts = drafts[stored:]
	}
	return receipts
}

func accountRowsBounded(t *testing.T, e *env) {
	known := e.record(t, byDomain("known.example")).AccountID
	long := strings.TrimSpace(strings.Repeat("word ", 32))
	var plain, words, names []*atrium.Draft
	for i := range 100 {
		plain = append(plain, e.draft(t, byDomain(fmt.Sprintf("plain%d.example", i)), key(fmt.Sprint("plain", i))))
	}
	for i := range 20 {
		words = append(words, e.draft(t, atrium.Claim{Domain: fmt.Sprintf("words%d.example", i), Name: long}))
		// The name of an account that has none.
		names = append(names, e.draft(t, atrium.Claim{Domain: fmt.Sprintf("plain%d.example", i), Name: long}))
	}
	receipts := e.wantDeferred(t, 50, plain...)
	e.wantDeferred(t, 4, words...)
	e.wantDeferred(t, 4, names...)
	if n := len(e.accounts(t)); n != 121 {
		t.Errorf("there are %d accounts, want 121", n)
	}
	for i, o := range e.append(t, plain...) {
		if o.Err != nil || o.EntryID != receipts[i].EntryID {
			t.Errorf("the same request %d: %+v, want %+v", i, o, receipts[i])
		}
	}

	// Entries of accounts that exist are not deferred, and a key of a deferred entry stays free.
	var mixed []*atrium.Draft
	for i := range 10 {
		mixed = append(mixed, e.draft(t, atrium.Claim{Domain: fmt.Sprintf("mixed%d.example", i), Name: long}, key(fmt.Sprint("mixed", i))))
	}
	for i := range 100 {
		mixed = append(mixed, e.draft(t, atrium.Claim{AccountID: known}, key(fmt.Sprint("known", i))))
	}
	again := e.draft(t, atrium.Claim{AccountID: known}, key("mixed9"))
	outcomes, err := e.TryAppend(t.Context(), append(mixed, again))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if deferred := errors.Is(o.Err, atrium.ErrDeferred); deferred != (i >= 3 && i < 10) || !deferred && o.Err != nil {
			t.Errorf("draft %d: %v", i, o.Err)
		}
	}
	if o := e.append(t, mixed[9])[0]; atrium.CodeOf(o.Err) != atrium.CodeIdempotencyKeyReused {
		t.Errorf("another request has used the key: %v", o.Err)
	}
}
