package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var merges = []guarantee{
	{"an old identifier and an old domain lead to the survivor, which is in the receipt", oldLeadsToSurvivor},
	{"a receipt from before a merge or a split is replayed as it was", receiptOutlastsMerge},
	{"a survivor shows the newest activity and the prospects of all", survivorShowsAll},
	{"a merged account is not found by its name", mergedHasNoName},
	{"a name that is claimed fills that of the survivor", claimedNameFillsSurvivor},
	{"a merge takes along what was merged before, and a split too", groupsMoveTogether},
	{"a merge that is made again changes nothing", mergeAgain},
	{"what cannot be merged is refused and stays as it was", mergeRefused},
	{"what was not merged into an account cannot be split from it", splitRefused},
	{"so many accounts are merged into one at most", mergeBound},
	{"a merge and a split are judged by the account as it stands", mergeIsChecked},
	{"merges, splits and renames are audited, and repeating them is not", mergeAudited},
	{"entries and merges at once lose nothing", mergesAndEntriesTogether},
	{"merges that cross are one merge", crossingMerges},
	{"a merge copies the links of what it moves, not those of the whole group", mergeCopiesMoved},
	{"merges and splits neither read nor write domains", mergeReadsNoDomains},
	{"an import of merges locks and changes a bounded number of accounts at once", mergesCounted},
	{"an imported prospect is linked without copying other links, and a bounded number of links is stored at once", importLinksBounded},
	{"a prospect stays linked when one of several accounts that it comes from is split off", splitKeepsOtherLinks},
}

// A changeCounter is a DB that notes the most rows that one statement has changed.
type changeCounter struct {
	engine.DB
	most *atomic.Int64
}

func (c changeCounter) Write(ctx context.Context, f func(engine.Tx) error) error {
	return c.DB.Write(ctx, func(tx engine.Tx) error { return f(changeCounterTx{tx, c.most}) })
}

type changeCounterTx struct {
	engine.Tx
	most *atomic.Int64
}

func (tx changeCounterTx) Exec(sql string, args ...any) (int64, error) {
	n, err := tx.Tx.Exec(sql, args...)
	tx.most.Store(max(tx.most.Load(), n))
	return n, err
}

func (tx changeCounterTx) Batch(b *engine.Batch, rows []engine.Args, each func(engine.Row) error) (int64, error) {
	n, err := tx.Tx.Batch(b, rows, each)
	if each == nil {
		tx.most.Store(max(tx.most.Load(), n))
	}
	return n, err
}

func mergeCopiesMoved(t *testing.T, e *env) {
	const n = 300
	large, small := e.withProspects(t, "large.example", n), e.withProspects(t, "small.example", 3)
	survivor := e.record(t, byDomain("survivor.example")).AccountID
	e.merged(t, large, survivor)
	var most atomic.Int64
	counted := *e
	counted.Store = store.New(changeCounter{e.db, &most}, e.clock.now)
	counted.merged(t, small, survivor)
	if got := e.readEmails(t, survivor); len(got) != n+3 {
		t.Errorf("the survivor has %d prospects, want %d", len(got), n+3)
	}
	e.wantSoundGroups(t)
	if got := most.Load(); got > 10 {
		t.Errorf("a statement has changed %d rows to merge an account with 3 prospects", got)
	}
}

func splitKeepsOtherLinks(t *testing.T, e *env) {
	a, b, c := e.three(t)
	shared := e.newProspect(a, b)
	ofAll := e.newProspect(a, b, c)
	e.put(t, shared, ofAll)
	e.merged(t, a.ID, c.ID)
	e.merged(t, b.ID, a.ID)
	e.wantSoundGroups(t)
	for _, id := range []atrium.AccountID{a.ID, b.ID} {
		e.splitOff(t, c.ID, id)
		e.wantSoundGroups(t)
		e.merged(t, id, c.ID)
		e.wantSoundGroups(t)
	}
	e.splitOff(t, c.ID, a.ID)
	e.splitOff(t, c.ID, b.ID)
	for id, want := range map[atrium.AccountID]int{a.ID: 3, b.ID: 3, c.ID: 2} {
		if d := e.detail(t, id); len(d.Prospects) != want {
			t.Errorf("%s has %d prospects, want %d", d.Domain, len(d.Prospects), want)
		}
	}
	e.wantSoundGroups(t)
}

// three makes accounts with an entry each, at instants of their own, and a prospect
// each.
func (e *env) three(t tb) (a, b, c *atrium.Account) {
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
	a, b, c := e.three(t)
	if d := e.merged(t, a.ID, b.ID); d.ID != b.ID {
		t.Errorf("the merge returned %s, want %s", d.ID, b.ID)
	}
	for _, claim := range []atrium.Claim{byID(a.ID), byDomain("A.example"), byID(b.ID), byDomain("b.example"), {AccountID: a.ID, Domain: "c.example"}} {
		e.clock.step(1e9)
		if r := e.record(t, claim); r.AccountID != b.ID {
			t.Errorf("%+v led to %s, want %s", claim, r.AccountID, b.ID)
		}
		if d := e.detail(t, a.ID); d.ID != b.ID || *d.LatestActivityAt != e.clock.shows() {
			t.Errorf("the account is %+v", d)
		}
	}
	both := recorded(t, e.append(t, e.draft(t, byDomain("a.example")), e.draft(t, byDomain("b.example")), e.draft(t, byDomain("c.example"))))
	if both[0].AccountID != b.ID || both[1].AccountID != b.ID || both[2].AccountID != c.ID {
		t.Errorf("together they led to %v", both)
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
	if d := e.splitOff(t, b.ID, a.ID); d.ID != b.ID || len(d.Merged) > 0 {
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
	a, b, _ := e.three(t)
	claim := byDomain("a.example")
	before := e.record(t, claim, key("before"))
	e.merged(t, a.ID, b.ID)
	during := e.record(t, claim, key("during"))
	again := []atrium.Receipt{e.record(t, claim, key("before")), e.record(t, claim, key("during"))}
	e.splitOff(t, b.ID, a.ID)
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
	a, b, c := e.three(t)
	shared := e.newProspect(a, b)
	e.put(t, shared)
	newest := e.detail(t, c.ID).LatestActivityAt
	d := e.merged(t, c.ID, a.ID)
	if d.Name != "A" || *d.LatestActivityAt != *newest || len(d.Prospects) != 3 || d.UpdatedAt != e.clock.shows() {
		t.Errorf("the survivor is %+v", d)
	}
	d = e.merged(t, b.ID, a.ID)
	if len(d.Prospects) != 4 || !slices.IsSortedFunc(d.Prospects, func(x, y atrium.Prospect) int { return int(x.CreatedAt - y.CreatedAt) }) {
		t.Errorf("it has the prospects %+v", d.Prospects)
	}
	e.wantSoundGroups(t)
	e.clock.step(1e9)
	if d = e.splitOff(t, a.ID, c.ID); len(d.Prospects) != 3 || *d.LatestActivityAt == *newest || d.UpdatedAt != e.clock.shows() {
		t.Errorf("after a split it is %+v", d)
	}
	e.splitOff(t, a.ID, b.ID)
	if d := e.detail(t, b.ID); len(d.Prospects) != 2 || d.UpdatedAt != e.clock.shows() {
		t.Errorf("what was split off is %+v", d)
	}
	e.wantSoundGroups(t)
	for _, p := range e.records(t) {
		if describe(p) == describe(shared) {
			return
		}
	}
	t.Error("the links of a prospect are not what they were")
}

func mergedHasNoName(t *testing.T, e *env) {
	a, b, _ := e.three(t)
	e.merged(t, a.ID, b.ID)
	if r := e.record(t, byName("A")); e.account(t, r.AccountID).Domain != atrium.UnattributedDomain {
		t.Errorf("the name of a merged account led to %s", r.AccountID)
	}
	if r := e.record(t, byName("b")); r.AccountID != b.ID {
		t.Errorf("the name of the survivor led to %s", r.AccountID)
	}
	other := e.record(t, atrium.Claim{Domain: "other.example", Name: "a"}).AccountID
	if r := e.record(t, byName("A")); r.AccountID != other {
		t.Errorf("a name that one account has beside a merged one led to %s", r.AccountID)
	}
}

func claimedNameFillsSurvivor(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	e.merged(t, a, b)
	e.clock.step(1e9)
	e.record(t, atrium.Claim{Domain: "a.example", Name: "Filled"})
	if d := e.detail(t, b); d.Name != "Filled" || d.UpdatedAt != e.clock.shows() || d.Merged[0].Name != "" {
		t.Errorf("the survivor is %+v", d)
	}
	e.record(t, atrium.Claim{AccountID: a, Name: "Later"})
	if r := e.record(t, byName("filled")); r.AccountID != b || e.account(t, b).Name != "Filled" {
		t.Errorf("the name led to %s", r.AccountID)
	}
	// A merge fills it too.
	c := e.record(t, byDomain("c.example")).AccountID
	if d := e.merged(t, b, c); d.Name != "Filled" {
		t.Errorf("the name of the survivor is %q", d.Name)
	}
	e.wantSoundGroups(t)
}

func groupsMoveTogether(t *testing.T, e *env) {
	a, b, c := e.three(t)
	d := e.newAccount("d.example", "")
	e.put(t, d)
	e.merged(t, a.ID, b.ID)
	e.merged(t, b.ID, c.ID)
	e.merged(t, d.ID, a.ID) // which leads to the survivor of all
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
	e.splitOff(t, d.ID, b.ID)
	wantMerged(t, e.detail(t, c.ID), merged[2])
	wantMerged(t, e.detail(t, b.ID), merged[0])
	if r := e.record(t, byDomain("a.example")); r.AccountID != b.ID {
		t.Errorf("what went along led to %s, want %s", r.AccountID, b.ID)
	}
	e.wantSoundGroups(t)
	e.splitOff(t, b.ID, a.ID)
	e.splitOff(t, c.ID, d.ID)
	for _, id := range []atrium.AccountID{a.ID, b.ID, c.ID, d.ID} {
		wantMerged(t, e.detail(t, id))
	}
	e.wantSoundGroups(t)
}

func mergeAgain(t *testing.T, e *env) {
	a, b, c := e.three(t)
	e.merged(t, a.ID, b.ID)
	want := e.merged(t, b.ID, c.ID)
	e.clock.step(1e9)
	for _, again := range [][2]atrium.AccountID{{a.ID, b.ID}, {b.ID, c.ID}, {a.ID, c.ID}} {
		if d := e.merged(t, again[0], again[1]); d.UpdatedAt != want.UpdatedAt || !slices.Equal(d.Merged, want.Merged) {
			t.Errorf("a second merge made it %+v", d)
		}
	}
}

func mergeRefused(t *testing.T, e *env) {
	a, b, c := e.three(t)
	none := e.record(t, atrium.Claim{}).AccountID
	e.merged(t, a.ID, b.ID)
	e.merged(t, c.ID, b.ID)
	other := e.as(e.newTenant(t))
	theirs := other.record(t, byDomain("a.example")).AccountID
	before := describeAll(e.records(t))
	for what, ids := range map[string][2]atrium.AccountID{
		"itself": {b.ID, b.ID}, "what was merged into it": {b.ID, a.ID}, "its sibling": {a.ID, c.ID},
		"the unattributed account": {a.ID, none}, "an account from the unattributed one": {none, a.ID},
	} {
		if _, err := e.MergeAccounts(t.Context(), e.change(), ids[0], ids[1], agree); atrium.CodeOf(err) != atrium.CodeConflict {
			t.Errorf("a merge into %s: %v", what, err)
		}
	}
	for what, ids := range map[string][2]atrium.AccountID{
		"of another tenant's account": {theirs, a.ID}, "into another tenant's account": {a.ID, theirs}, "of no account": {atrium.NewID[atrium.AccountID](), a.ID},
	} {
		if _, err := e.MergeAccounts(t.Context(), e.change(), ids[0], ids[1], agree); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("a merge %s: %v", what, err)
		}
	}
	if after := describeAll(e.records(t)); !slices.Equal(after, before) {
		t.Errorf("the tenant has\n%q\nand had\n%q", after, before)
	}
}

func splitRefused(t *testing.T, e *env) {
	a, b, c := e.three(t)
	e.merged(t, a.ID, b.ID)
	other := e.as(e.newTenant(t))
	for what, ids := range map[string][2]atrium.AccountID{
		"itself": {b.ID, b.ID}, "another": {b.ID, c.ID}, "one of another's": {c.ID, a.ID}, "none": {b.ID, atrium.NewID[atrium.AccountID]()},
		"one from none": {atrium.NewID[atrium.AccountID](), a.ID},
	} {
		if _, err := e.SplitAccount(t.Context(), e.change(), ids[0], ids[1], agree); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("a split of %s: %v", what, err)
		}
	}
	if _, err := other.SplitAccount(t.Context(), other.change(), b.ID, a.ID, agree); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("a split by another tenant: %v", err)
	}
	wantMerged(t, e.detail(t, b.ID), atrium.MergedAccount{ID: a.ID, Domain: "a.example", Name: "A", MergedInto: b.ID})
}

func mergeBound(t *testing.T, e *env) {
	var drafts []*atrium.Draft
	for i := range atrium.MaxMerged + 2 {
		drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("a%d.example", i))))
	}
	var ids []atrium.AccountID
	for _, r := range recorded(t, e.append(t, drafts...)) {
		ids = append(ids, r.AccountID)
	}
	half := atrium.MaxMerged / 2
	for _, id := range ids[1:half] {
		e.merged(t, id, ids[0])
	}
	for _, id := range ids[half+1:] {
		e.merged(t, id, ids[half])
	}
	if _, err := e.MergeAccounts(t.Context(), e.change(), ids[0], ids[half], agree); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("one more than there may be: %v", err)
	}
	e.splitOff(t, ids[0], ids[1])
	e.merged(t, ids[half], ids[0])
	if d := e.detail(t, ids[0]); len(d.Merged) != atrium.MaxMerged {
		t.Errorf("%d accounts are merged, want %d", len(d.Merged), atrium.MaxMerged)
	}
	if _, err := e.UpdateAccount(t.Context(), e.change(), ids[0], atrium.AccountUpdate{Domain: "new.example"}, agree); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("one more domain: %v", err)
	}
	e.wantSoundGroups(t)
}

func mergeIsChecked(t *testing.T, e *env) {
	a, b, c := e.three(t)
	e.merged(t, a.ID, b.ID)
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
	a, b, c := e.three(t)
	for range 2 {
		e.merged(t, a.ID, b.ID)
	}
	e.splitOff(t, b.ID, a.ID)
	for range 2 {
		e.rename(t, b.ID, "New")
	}
	for range 2 {
		e.takeDomain(t, c.ID, "d.example")
	}
	for subject, want := range map[atrium.AccountID][]string{
		a.ID: {`account.merge {"into":"` + string(b.ID) + `"}`, `account.split {"from":"` + string(b.ID) + `"}`},
		b.ID: {`account.update {"after":{"name":"New"},"before":{"name":"B"}}`},
		c.ID: {`account.update {"after":{"domain":"d.example"},"before":{"domain":"c.example"}}`},
	} {
		if got := e.actsOf(t, string(subject)); !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	}
}

// mergesAndEntriesTogether merges and splits on one node what entries of all kinds go
// to on another.
func mergesAndEntriesTogether(t *testing.T, e *env) {
	a, b, c := e.three(t)
	ids := []atrium.AccountID{a.ID, b.ID, c.ID}
	receipts := make([][]atrium.Receipt, 2*writers)
	e.both(func(e *env, i int) {
		e.clock.step(1e9)
		for n := range 6 {
			switch {
			case i < 2 && n%2 == 0:
				_, err := e.MergeAccounts(t.Context(), e.change(), ids[(n/2+i)%3], ids[(n/2+i+1)%3], agree)
				if code := atrium.CodeOf(err); err != nil && code != atrium.CodeConflict {
					t.Errorf("merge: %v", err)
				}
			case i < 2:
				member := ids[(n/2+i)%3]
				if _, err := e.SplitAccount(t.Context(), e.change(), member, member, agree); err != nil && atrium.CodeOf(err) != atrium.CodeNotFound {
					t.Errorf("split: %v", err)
				}
			default:
				e.clock.step(1e9)
				receipts[i] = append(receipts[i], recorded(t, e.append(t,
					e.draft(t, byDomain("a.example")), e.draft(t, byDomain("b.example")), e.draft(t, byID(ids[n%3]))))...)
				receipts[i] = append(receipts[i], e.record(t, byDomain("c.example"), key(fmt.Sprint(i, n))))
			}
		}
	})
	e.wantSoundGroups(t)
	stored, want := 0, 3
	for _, id := range ids {
		stored += e.entriesOf(t, id)
	}
	for _, rs := range receipts {
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

func crossingMerges(t *testing.T, e *env) {
	for range 5 {
		e := e.as(e.newTenant(t))
		a, b, c := e.three(t)
		ids := []atrium.AccountID{a.ID, b.ID, c.ID}
		e.both(func(e *env, i int) {
			_, err := e.MergeAccounts(t.Context(), e.change(), ids[i%3], ids[(i+1)%3], agree)
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

// mergeReadsNoDomains holds that accounts with long domains are merged and split without
// reading or writing these.
func mergeReadsNoDomains(t *testing.T, e *env) {
	const size, n = 1 << 20, 12
	ids := e.longDomains(t, n, size)
	lines := make([]store.Record, 0, n)
	for _, id := range ids[1:] {
		lines = append(lines, &atrium.Merge{AccountID: id, Into: ids[0]})
	}
	counted, most := e.writing()
	counted.put(t, lines...)
	if added, err := counted.Import(t.Context(), atrium.CommandLine(e.tenant), items(lines[0])); err != nil || added != 0 {
		t.Errorf("imported again: %d, %v", added, err)
	}
	if most.bytes > 64<<10 {
		t.Errorf("a transaction has read %d bytes to merge accounts", most.bytes)
	}
	e.wantSoundGroups(t)
	into := e.record(t, byDomain("into.example")).AccountID
	for _, id := range ids[1:6] {
		e.splitOff(t, ids[0], id)
	}
	e.merged(t, ids[0], into)
	all := 0
	if err := e.ReadAccount(t.Context(), e.tenant, into, func(d atrium.AccountDetail) error {
		return d.EachMerged(func(*atrium.MergedAccount) error {
			all++
			return nil
		})
	}); err != nil || all != 7 {
		t.Errorf("%d accounts are merged, want 7: %v", all, err)
	}
	e.wantShortRows(t)
	e.wantSoundGroups(t)
}

// mergesCounted holds that an import locks and changes a bounded number of accounts in
// one transaction.
func mergesCounted(t *testing.T, e *env) {
	const groups, size = 25, 50
	var accounts, lines, joined []store.Record
	var roots []*atrium.Account
	for i := range groups * size {
		a := e.newAccount(fmt.Sprintf("a%d.example", i), "")
		accounts = append(accounts, a)
		if i%size == 0 {
			roots = append(roots, a)
			continue
		}
		lines = append(lines, &atrium.Merge{AccountID: a.ID, Into: roots[len(roots)-1].ID})
	}
	for chunk := range slices.Chunk(accounts, 500) {
		e.put(t, chunk...)
	}
	for chunk := range slices.Chunk(lines, 200) {
		e.put(t, chunk...)
	}
	for i := range groups / 2 {
		joined = append(joined, &atrium.Merge{AccountID: roots[2*i].ID, Into: roots[2*i+1].ID})
	}
	if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(joined...)); !errors.Is(err, store.ErrChunkTooLarge) {
		t.Errorf("an import of %d merges of groups of %d accounts: %v", len(joined), size, err)
	}
	for chunk := range slices.Chunk(joined, 4) {
		e.put(t, chunk...)
	}
	e.wantSoundGroups(t)
}

func importLinksBounded(t *testing.T, e *env) {
	merged := e.withProspects(t, "merged.example", 300)
	survivor := e.record(t, byDomain("survivor.example")).AccountID
	e.merged(t, merged, survivor)
	// A copy that is made again by the import would be seen.
	if err := e.db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("DELETE FROM account_prospects WHERE tenant_id = $1 AND account_id = $2", storedID(e.tenant), storedID(survivor))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p := e.newProspect(&atrium.Account{ID: merged})
	p.Email = pointer("new@acme.example")
	e.put(t, p)
	if got := e.readEmails(t, survivor); len(got) != 1 {
		t.Errorf("the survivor has %d prospects, want the new one alone", len(got))
	}

	var accounts []*atrium.Account
	var chunk, prospects []store.Record
	for i := range atrium.MaxLinks {
		a := e.newAccount(fmt.Sprintf("a%d.example", i), "")
		accounts, chunk = append(accounts, a), append(chunk, a)
	}
	e.put(t, chunk...)
	for range 11 {
		prospects = append(prospects, e.newProspect(accounts...))
	}
	if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(prospects...)); !errors.Is(err, store.ErrChunkTooLarge) {
		t.Errorf("an import of 11,000 links: %v", err)
	}
	e.put(t, prospects[0])
	e.put(t, prospects[1:10]...)
	if _, err := e.Import(t.Context(), atrium.CommandLine(e.tenant), items(prospects...)); !errors.Is(err, store.ErrChunkTooLarge) {
		t.Errorf("an import that compares 10,000 links: %v", err)
	}
}
