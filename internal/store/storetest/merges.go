package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store/engine"
)

var merges = []guarantee{
	{"merged identifiers and domains lead to the survivor, which is in the receipt", oldLeadsToSurvivor},
	{"a receipt from before a merge or split is replayed unchanged", receiptOutlastsMerge},
	{"a survivor has the latest activity and the prospects of all merged accounts", survivorShowsAll},
	{"a merged account is not found by its name", mergedHasNoName},
	{"a claimed name sets the missing name of the survivor", claimedNameFillsSurvivor},
	{"a merge or split includes the accounts merged earlier", groupsMoveTogether},
	{"repeating a merge changes nothing", mergeAgain},
	{"invalid merges are refused and change nothing", mergeRefused},
	{"an account that is not merged into another cannot be split from it", splitRefused},
	{"a failed precondition prevents merge, split, update and erasure", mergeIsChecked},
	{"merges, splits and renames are audited once", mergeAudited},
	{concurrent + "entries and merges lose nothing", mergesAndEntriesTogether},
	{concurrent + "merges in opposite directions make one merge", crossingMerges},
	{"a prospect linked to several merged accounts stays linked when one is split off", splitKeepsOtherLinks},
}

func splitKeepsOtherLinks(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	shared := e.newProspect(a, b)
	ofAll := e.newProspect(a, b, c)
	e.put(t, shared, ofAll)
	e.merge(t, a.ID, c.ID)
	e.merge(t, b.ID, a.ID)
	e.wantSoundGroups(t)
	for _, id := range []atrium.AccountID{a.ID, b.ID} {
		e.split(t, c.ID, id)
		e.wantSoundGroups(t)
		e.merge(t, id, c.ID)
		e.wantSoundGroups(t)
	}
	e.split(t, c.ID, a.ID)
	e.split(t, c.ID, b.ID)
	for id, want := range map[atrium.AccountID]int{a.ID: 3, b.ID: 3, c.ID: 2} {
		if d := e.detail(t, id); len(d.Prospects) != want {
			t.Errorf("%s has %d prospects, want %d", d.Domain, len(d.Prospects), want)
		}
	}
	e.wantSoundGroups(t)
}

// threeAccounts creates three accounts at different instants, each with an entry and a prospect.
func (e *env) threeAccounts(t tb) (a, b, c *atrium.Account) {
	t.Helper()
	var all []*atrium.Account
	for _, name := range []string{"A", "B", "C"} {
		e.clock.step(1e9)
		account := e.newAccount(strings.ToLower(name)+".example", name)
		e.put(t, account, e.newProspect(account))
		e.record(t, byID(account.ID))
		all = append(all, account)
	}
	e.clock.step(1e9)
	return all[0], all[1], all[2]
}

func oldLeadsToSurvivor(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	if d := e.merge(t, a.ID, b.ID); d.ID != b.ID {
		t.Errorf("the merge returned %s, want %s", d.ID, b.ID)
	}
	for _, claim := range []atrium.Claim{byID(a.ID), byDomain("A.example"), byID(b.ID), byDomain("b.example"), {AccountID: a.ID, Domain: "c.example"}} {
		e.clock.step(1e9)
		if r := e.record(t, claim); r.AccountID != b.ID {
			t.Errorf("%+v led to %s, want %s", claim, r.AccountID, b.ID)
		}
		if d := e.detail(t, a.ID); d.ID != b.ID || *d.LatestActivityAt != e.clock.instant() {
			t.Errorf("the account is %+v", d)
		}
	}
	both := receipts(t, e.append(t, e.draft(t, byDomain("a.example")), e.draft(t, byDomain("b.example")), e.draft(t, byDomain("c.example"))))
	if both[0].AccountID != b.ID || both[1].AccountID != b.ID || both[2].AccountID != c.ID {
		t.Errorf("in one batch they led to %v", both)
	}
	if got, _, err := e.Account(t.Context(), e.tenant, a.ID); err != nil || got.ID != b.ID {
		t.Errorf("the old identifier shows %+v, %v", got, err)
	}
	if got := e.rename(t, a.ID, "Both"); got.ID != b.ID || e.account(t, b.ID).Name != "Both" {
		t.Errorf("renamed by the old identifier: %+v", got)
	}
	wantMerged(t, e.detail(t, b.ID), atrium.MergedAccount{ID: a.ID, Domain: "a.example", Name: "A", MergedInto: b.ID})
	e.wantSoundGroups(t)
	if n := e.entriesOf(t, a.ID); n != 5 {
		t.Errorf("%d entries are those of the merged account, want 5", n)
	}
	if d := e.split(t, b.ID, a.ID); d.ID != b.ID || len(d.Merged) > 0 {
		t.Errorf("the split returned %+v", d)
	}
	e.wantSoundGroups(t)
	for _, claim := range []atrium.Claim{byID(a.ID), byDomain("a.example"), byName("A")} {
		if r := e.record(t, claim); r.AccountID != a.ID {
			t.Errorf("after the split %+v led to %s, want %s", claim, r.AccountID, a.ID)
		}
	}
}

func receiptOutlastsMerge(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	claim := byDomain("a.example")
	before := e.record(t, claim, key("before"))
	e.merge(t, a.ID, b.ID)
	during := e.record(t, claim, key("during"))
	again := []atrium.Receipt{e.record(t, claim, key("before")), e.record(t, claim, key("during"))}
	e.split(t, b.ID, a.ID)
	again = append(again, e.record(t, claim, key("before")), e.record(t, claim, key("during")))
	before.Replayed, during.Replayed = true, true
	if want := []atrium.Receipt{before, during, before, during}; !slices.Equal(again, want) {
		t.Errorf("replayed %+v, want %+v", again, want)
	}
	if before.AccountID != a.ID || during.AccountID != b.ID {
		t.Errorf("receipts of %s and %s", before.AccountID, during.AccountID)
	}
}

func survivorShowsAll(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	shared := e.newProspect(a, b)
	e.put(t, shared)
	newest := e.detail(t, c.ID).LatestActivityAt
	d := e.merge(t, c.ID, a.ID)
	if d.Name != "A" || *d.LatestActivityAt != *newest || len(d.Prospects) != 3 || d.UpdatedAt != e.clock.instant() {
		t.Errorf("the survivor is %+v", d)
	}
	d = e.merge(t, b.ID, a.ID)
	if len(d.Prospects) != 4 || !slices.IsSortedFunc(d.Prospects, func(x, y atrium.Prospect) int { return int(x.CreatedAt - y.CreatedAt) }) {
		t.Errorf("it has the prospects %+v", d.Prospects)
	}
	e.wantSoundGroups(t)
	e.clock.step(1e9)
	if d = e.split(t, a.ID, c.ID); len(d.Prospects) != 3 || *d.LatestActivityAt == *newest || d.UpdatedAt != e.clock.instant() {
		t.Errorf("after a split it is %+v", d)
	}
	e.split(t, a.ID, b.ID)
	if d := e.detail(t, b.ID); len(d.Prospects) != 2 || d.UpdatedAt != e.clock.instant() {
		t.Errorf("the account that was split off is %+v", d)
	}
	e.wantSoundGroups(t)
	for _, p := range e.records(t) {
		if describe(p) == describe(shared) {
			return
		}
	}
	t.Error("the links of a prospect changed")
}

func mergedHasNoName(t *testing.T, e *env) {
	a, b, _ := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	if r := e.record(t, byName("A")); e.account(t, r.AccountID).Domain != atrium.UnattributedDomain {
		t.Errorf("the name of a merged account led to %s", r.AccountID)
	}
	if r := e.record(t, byName("b")); r.AccountID != b.ID {
		t.Errorf("the name of the survivor led to %s", r.AccountID)
	}
	other := e.record(t, atrium.Claim{Domain: "other.example", Name: "a"}).AccountID
	if r := e.record(t, byName("A")); r.AccountID != other {
		t.Errorf("a name of one account and a merged one led to %s", r.AccountID)
	}
}

func claimedNameFillsSurvivor(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	e.merge(t, a, b)
	e.clock.step(1e9)
	e.record(t, atrium.Claim{Domain: "a.example", Name: "Filled"})
	if d := e.detail(t, b); d.Name != "Filled" || d.UpdatedAt != e.clock.instant() || d.Merged[0].Name != "" {
		t.Errorf("the survivor is %+v", d)
	}
	e.record(t, atrium.Claim{AccountID: a, Name: "Later"})
	if r := e.record(t, byName("filled")); r.AccountID != b || e.account(t, b).Name != "Filled" {
		t.Errorf("the name led to %s", r.AccountID)
	}
	// A merge sets a missing name too.
	c := e.record(t, byDomain("c.example")).AccountID
	if d := e.merge(t, b, c); d.Name != "Filled" {
		t.Errorf("the name of the survivor is %q", d.Name)
	}
	e.wantSoundGroups(t)
}

func groupsMoveTogether(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	d := e.newAccount("d.example", "")
	e.put(t, d)
	e.merge(t, a.ID, b.ID)
	e.merge(t, b.ID, c.ID)
	e.merge(t, d.ID, a.ID) // a.ID leads to the survivor of all
	e.wantSoundGroups(t)
	merged := []atrium.MergedAccount{
		{ID: a.ID, Domain: "a.example", Name: "A", MergedInto: b.ID}, {ID: b.ID, Domain: "b.example", Name: "B", MergedInto: c.ID},
		{ID: d.ID, Domain: "d.example", MergedInto: c.ID},
	}
	wantMerged(t, e.detail(t, a.ID), merged...)
	for _, id := range []atrium.AccountID{a.ID, b.ID, c.ID, d.ID} {
		if r := e.record(t, byID(id)); r.AccountID != c.ID {
			t.Errorf("%s led to %s, want %s", id, r.AccountID, c.ID)
		}
	}
	e.clock.step(1e9)
	e.split(t, d.ID, b.ID)
	wantMerged(t, e.detail(t, c.ID), merged[2])
	wantMerged(t, e.detail(t, b.ID), merged[0])
	if r := e.record(t, byDomain("a.example")); r.AccountID != b.ID {
		t.Errorf("an account merged with its target led to %s, want %s", r.AccountID, b.ID)
	}
	e.wantSoundGroups(t)
	e.split(t, b.ID, a.ID)
	e.split(t, c.ID, d.ID)
	for _, id := range []atrium.AccountID{a.ID, b.ID, c.ID, d.ID} {
		wantMerged(t, e.detail(t, id))
	}
	e.wantSoundGroups(t)
}

func mergeAgain(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	want := e.merge(t, b.ID, c.ID)
	e.clock.step(1e9)
	for _, again := range [][2]atrium.AccountID{{a.ID, b.ID}, {b.ID, c.ID}, {a.ID, c.ID}} {
		if d := e.merge(t, again[0], again[1]); d.UpdatedAt != want.UpdatedAt || !slices.Equal(d.Merged, want.Merged) {
			t.Errorf("a second merge changed it to %+v", d)
		}
	}
}

func mergeRefused(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	none := e.record(t, atrium.Claim{}).AccountID
	e.merge(t, a.ID, b.ID)
	e.merge(t, c.ID, b.ID)
	other := e.as(e.newTenant(t))
	theirs := other.record(t, byDomain("a.example")).AccountID
	before := describeAll(e.records(t))
	for what, ids := range map[string][2]atrium.AccountID{
		"itself": {b.ID, b.ID}, "a member of its group": {b.ID, a.ID}, "its sibling": {a.ID, c.ID},
		"the unattributed account": {a.ID, none}, "an account from the unattributed one": {none, a.ID},
	} {
		if _, err := e.MergeAccounts(t.Context(), e.change(), ids[0], ids[1], accept); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("a merge into %s: %v", what, err)
		}
	}
	for what, ids := range map[string][2]atrium.AccountID{
		"of another tenant's account": {theirs, a.ID}, "into another tenant's account": {a.ID, theirs}, "of no account": {atrium.NewID[atrium.AccountID](), a.ID},
	} {
		if _, err := e.MergeAccounts(t.Context(), e.change(), ids[0], ids[1], accept); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("a merge %s: %v", what, err)
		}
	}
	if after := describeAll(e.records(t)); !slices.Equal(after, before) {
		t.Errorf("the tenant has\n%q\nand had\n%q", after, before)
	}
}

func splitRefused(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	other := e.as(e.newTenant(t))
	for what, ids := range map[string][2]atrium.AccountID{
		"itself": {b.ID, b.ID}, "another": {b.ID, c.ID}, "one of another group": {c.ID, a.ID}, "none": {b.ID, atrium.NewID[atrium.AccountID]()},
		"one from none": {atrium.NewID[atrium.AccountID](), a.ID},
	} {
		if _, err := e.SplitAccount(t.Context(), e.change(), ids[0], ids[1], accept); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("a split of %s: %v", what, err)
		}
	}
	if _, err := other.SplitAccount(t.Context(), other.change(), b.ID, a.ID, accept); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("a split by another tenant: %v", err)
	}
	wantMerged(t, e.detail(t, b.ID), atrium.MergedAccount{ID: a.ID, Domain: "a.example", Name: "A", MergedInto: b.ID})
}

func mergeIsChecked(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	e.merge(t, a.ID, b.ID)
	no := errors.New("no")
	refuse := func(d atrium.AccountDetail) error {
		if d.ID != b.ID || len(d.Merged) != 1 || len(d.Prospects) != 2 {
			t.Errorf("asked about %+v", d)
		}
		return atrium.Errorf(atrium.CodePreconditionFailed, "no").Because(no)
	}
	if _, err := e.MergeAccounts(t.Context(), e.change(), a.ID, c.ID, refuse); !errors.Is(err, no) {
		t.Errorf("merge: %v", err)
	}
	if _, err := e.SplitAccount(t.Context(), e.change(), a.ID, a.ID, refuse); !errors.Is(err, no) {
		t.Errorf("split: %v", err)
	}
	if _, err := e.UpdateAccount(t.Context(), e.change(), a.ID, atrium.AccountUpdate{Domain: "d.example"}, refuse); !errors.Is(err, no) {
		t.Errorf("update: %v", err)
	}
	if _, err := e.EraseAccount(t.Context(), e.change(), a.ID, refuse); !errors.Is(err, no) {
		t.Errorf("erase: %v", err)
	}
	wantMerged(t, e.detail(t, b.ID), atrium.MergedAccount{ID: a.ID, Domain: "a.example", Name: "A", MergedInto: b.ID})
}

func mergeAudited(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	for range 2 {
		e.merge(t, a.ID, b.ID)
	}
	e.split(t, b.ID, a.ID)
	for range 2 {
		e.rename(t, b.ID, "New")
	}
	for range 2 {
		e.changeDomain(t, c.ID, "d.example")
	}
	for subject, want := range map[atrium.AccountID][]string{
		a.ID: {`account.merge {"into":"` + string(b.ID) + `"}`, `account.split {"from":"` + string(b.ID) + `"}`},
		b.ID: {`account.update {"after":{"name":"New"},"before":{"name":"B"}}`},
		c.ID: {`account.update {"after":{"domain":"d.example"},"before":{"domain":"c.example"}}`},
	} {
		if got := e.auditLines(t, string(subject)); !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	}
}

// mergesAndEntriesTogether merges and splits accounts on one node while the other appends entries
// with all kinds of claims for them.
func mergesAndEntriesTogether(t *testing.T, e *env) {
	a, b, c := e.threeAccounts(t)
	ids := []atrium.AccountID{a.ID, b.ID, c.ID}
	all := make([][]atrium.Receipt, 2*writers)
	e.onTwoNodes(t, func(e *env, i int) {
		e.clock.step(1e9)
		for n := range 6 {
			switch {
			case i < 2 && n%2 == 0:
				_, err := e.MergeAccounts(t.Context(), e.change(), ids[(n/2+i)%3], ids[(n/2+i+1)%3], accept)
				if code := atrium.CodeOf(err); err != nil && code != atrium.CodeConflict {
					t.Errorf("merge: %v", err)
				}
			case i < 2:
				member := ids[(n/2+i)%3]
				if _, err := e.SplitAccount(t.Context(), e.change(), member, member, accept); err != nil && atrium.CodeOf(err) != atrium.CodeNotFound {
					t.Errorf("split: %v", err)
				}
			default:
				e.clock.step(1e9)
				all[i] = append(all[i], e.appendToChanging(t,
					e.draft(t, byDomain("a.example")), e.draft(t, byDomain("b.example")), e.draft(t, byID(ids[n%3])))...)
				all[i] = append(all[i], e.appendToChanging(t, e.draft(t, byDomain("c.example"), key(fmt.Sprint(i, n))))...)
			}
		}
	})
	e.wantSoundGroups(t)
	stored, want := 0, 3
	for _, id := range ids {
		stored += e.entriesOf(t, id)
	}
	for _, rs := range all {
		want += len(rs)
		for _, r := range rs {
			if !slices.Contains(ids, r.AccountID) {
				t.Errorf("an entry was acknowledged for %s", r.AccountID)
			}
		}
	}
	if stored != want {
		t.Errorf("%d entries are stored, want %d", stored, want)
	}
}

// appendToChanging appends drafts while their accounts are merged and split, and returns their
// receipts. Append may lose each of its tries to such a change; it then stores nothing, and its
// caller appends the same drafts again.
func (e *env) appendToChanging(t tb, drafts ...*atrium.Draft) []atrium.Receipt {
	t.Helper()
	for range 100 {
		outcomes, err := e.Append(t.Context(), drafts)
		if err == nil {
			return receipts(t, outcomes)
		}
		if engine.ClassOf(err) != engine.Conflict && atrium.CodeOf(err) != atrium.CodeUnavailable {
			t.Fatalf("append: %v", err)
		}
	}
	t.Fatalf("append: all calls lost against merges and splits")
	return nil
}

func crossingMerges(t *testing.T, e *env) {
	for range 5 {
		e := e.as(e.newTenant(t))
		a, b, c := e.threeAccounts(t)
		ids := []atrium.AccountID{a.ID, b.ID, c.ID}
		e.onTwoNodes(t, func(e *env, i int) {
			_, err := e.MergeAccounts(t.Context(), e.change(), ids[i%3], ids[(i+1)%3], accept)
			if err != nil && atrium.CodeOf(err) != atrium.CodeConflict {
				t.Errorf("merge: %v", err)
			}
		})
		e.wantSoundGroups(t)
		if d := e.detail(t, a.ID); len(d.Merged) != 2 || len(d.Prospects) != 3 {
			t.Errorf("the survivor is %+v", d)
		}
	}
}
