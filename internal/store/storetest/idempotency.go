package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

var idempotency = []guarantee{
	{"a repeated request returns the receipt of the first", replayGetsFirstReceipt},
	{"a request repeated within one transaction is one entry", replayInOneTransaction},
	{"a different request with a used key is refused and changes nothing", otherRequestRefused},
	{"a refused duplicate key in a transaction neither touches nor makes an account", secondTouchesNothing},
	{"the key is checked before the account", keyBeforeAccount},
	{"only a recorded entry binds a key", notFoundLeavesKeyFree},
	{"a later draft binds the key if the earlier ones with it failed", followerBindsKey},
	{"keys are compared byte for byte", keysAreLiteral},
	{"long keys with a common prefix are distinct", longKeys},
	{"keys of different tenants are independent", keysOfTenants},
	{"entries without a key are always distinct", noKeyNoReplay},
	{"appending a draft again finds its entry and makes no other", draftFoundAgain},
	{"each draft of a mixed transaction has its own outcome", mixedOutcomes},
}

// wantReplay fails the test unless r is the replayed receipt of an earlier request.
func wantReplay(t tb, r, first atrium.Receipt) {
	t.Helper()
	first.Replayed = true
	if r != first {
		t.Errorf("receipt %+v, want %+v", r, first)
	}
}

func replayGetsFirstReceipt(t *testing.T, e *env) {
	first := e.record(t, byDomain("acme.example"), key("k"), payload(`{"a":1,"b":2}`))
	if first.Replayed || first.EntryID == "" || first.AccountID == "" || first.CreatedAt != e.clock.instant() || first.Source != "crm" || first.Type != "webhook" {
		t.Errorf("the first receipt is %+v", first)
	}
	e.clock.step(time.Hour)
	e.rename(t, first.AccountID, "Acme")
	for range 2 {
		wantReplay(t, e.record(t, byDomain("acme.example"), key("k"), payload(` { "b":2.0, "a":10e-1 } `)), first)
	}
	if n := len(e.entries(t)); n != 1 {
		t.Errorf("there are %d entries, want 1", n)
	}
	if a := e.account(t, first.AccountID); *a.LatestActivityAt != first.CreatedAt {
		t.Errorf("a replay moved the latest activity to %s", a.LatestActivityAt)
	}
}

func replayInOneTransaction(t *testing.T, e *env) {
	drafts := make([]*atrium.Draft, 50)
	for i := range drafts {
		drafts[i] = e.draft(t, atrium.Claim{Domain: "acme.example", Name: "Acme"}, key("k"))
	}
	receipts := receipts(t, e.append(t, drafts...))
	if receipts[0].EntryID != drafts[0].ID || receipts[0].CreatedAt != e.clock.instant() {
		t.Errorf("the first receipt is %+v", receipts[0])
	}
	for _, r := range receipts[1:] {
		wantReplay(t, r, receipts[0])
	}
	if n := len(e.entries(t)); n != 1 {
		t.Errorf("there are %d entries, want 1", n)
	}
}

func otherRequestRefused(t *testing.T, e *env) {
	first := e.record(t, atrium.Claim{Domain: "acme.example", Name: "Acme"}, key("k"), payload(`{"n":1}`))
	before := describeAll(e.records(t))
	e.clock.step(time.Hour)
	same := atrium.Claim{Domain: "acme.example", Name: "Acme"}
	others := []*atrium.Draft{
		e.draft(t, same, key("k"), payload(`{"n":2}`)),
		e.draft(t, same, key("k"), payload(`{"n":"1"}`)),
		e.draft(t, same, key("k"), payload(`{"n":1}`), func(s *atrium.Submission) { s.Source = "ads" }),
		e.draft(t, same, key("k"), payload(`{"n":1}`), func(s *atrium.Submission) { s.Type = "other" }),
		e.draft(t, byDomain("acme.example"), key("k"), payload(`{"n":1}`)),
		e.draft(t, atrium.Claim{Domain: "ACME.example", Name: "Acme"}, key("k"), payload(`{"n":1}`)), // the original spelling
		e.draft(t, atrium.Claim{AccountID: first.AccountID, Domain: "acme.example", Name: "Acme"}, key("k"), payload(`{"n":1}`)),
		e.draft(t, atrium.Claim{Domain: "new.example", Name: "New"}, key("k"), payload(`{"n":1}`)),
	}
	for i, o := range append(e.append(t, others...), e.append(t, others[0])[0]) {
		wantCode(t, o.Err, atrium.CodeIdempotencyKeyReused)
		if o.Receipt != (atrium.Receipt{}) {
			t.Errorf("refused draft %d has receipt %+v", i, o.Receipt)
		}
	}
	if after := describeAll(e.records(t)); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("refused drafts left %q, want %q", after, before)
	}
	if a := e.account(t, first.AccountID); *a.LatestActivityAt != first.CreatedAt {
		t.Errorf("refused drafts moved the latest activity to %s", a.LatestActivityAt)
	}

	outcomes := e.append(t, e.draft(t, byDomain("b.example"), key("k2")), e.draft(t, byDomain("c.example"), key("k2")), e.draft(t, byDomain("b.example"), key("k2")))
	wantCode(t, outcomes[1].Err, atrium.CodeIdempotencyKeyReused)
	wantReplay(t, receipts(t, outcomes[2:])[0], receipts(t, outcomes[:1])[0])
}

func secondTouchesNothing(t *testing.T, e *env) {
	old := e.record(t, byDomain("old.example"))
	e.clock.step(time.Hour)
	outcomes := e.append(t, e.draft(t, byDomain("acme.example"), key("k")),
		e.draft(t, byDomain("old.example"), key("k")), e.draft(t, byDomain("new.example"), key("k")))
	receipts(t, outcomes[:1])
	for _, o := range outcomes[1:] {
		wantCode(t, o.Err, atrium.CodeIdempotencyKeyReused)
	}
	if a := e.account(t, old.AccountID); *a.LatestActivityAt != old.CreatedAt {
		t.Errorf("a refused draft moved the latest activity to %s", a.LatestActivityAt)
	}
	accounts := 0
	if err := e.Export(t.Context(), e.tenant, func(r store.Record) error {
		if _, ok := r.(*atrium.Account); ok {
			accounts++
		}
		return nil
	}); err != nil || accounts != 2 {
		t.Errorf("there are %d accounts, %v, want those of the entries", accounts, err)
	}
}

func keyBeforeAccount(t *testing.T, e *env) {
	unknown := atrium.NewID[atrium.AccountID]()
	e.record(t, byDomain("acme.example"), key("k"))
	wantCode(t, e.append(t, e.draft(t, byID(unknown), key("k")))[0].Err, atrium.CodeIdempotencyKeyReused)
	outcomes := e.append(t, e.draft(t, byDomain("acme.example"), key("k2")), e.draft(t, byID(unknown), key("k2")))
	receipts(t, outcomes[:1])
	wantCode(t, outcomes[1].Err, atrium.CodeIdempotencyKeyReused)
}

func notFoundLeavesKeyFree(t *testing.T, e *env) {
	unknown := byID(atrium.NewID[atrium.AccountID]())
	for range 2 {
		wantCode(t, e.append(t, e.draft(t, unknown, key("k")))[0].Err, atrium.CodeNotFound)
	}
	first := e.record(t, byDomain("acme.example"), key("k"))
	if first.Replayed {
		t.Error("a request that was NotFound bound its key")
	}
	wantReplay(t, e.record(t, byDomain("acme.example"), key("k")), first)
}

func followerBindsKey(t *testing.T, e *env) {
	unknown := byID(atrium.NewID[atrium.AccountID]())
	drafts := []*atrium.Draft{
		e.draft(t, unknown, key("k")), e.draft(t, unknown, key("k")), e.draft(t, byDomain("acme.example"), key("k")),
		e.draft(t, unknown, key("k")), e.draft(t, byDomain("acme.example"), key("k")),
		e.draft(t, unknown, key("other")), e.draft(t, unknown, key("other")),
	}
	outcomes := e.append(t, drafts...)
	for _, i := range []int{0, 1, 5, 6} {
		wantCode(t, outcomes[i].Err, atrium.CodeNotFound)
	}
	wantCode(t, outcomes[3].Err, atrium.CodeIdempotencyKeyReused)
	first := receipts(t, outcomes[2:3])[0]
	if first.EntryID != drafts[2].ID || first.Replayed {
		t.Errorf("the receipt is %+v, want one for %s", first, drafts[2].ID)
	}
	wantReplay(t, outcomes[4].Receipt, first)
	wantReplay(t, e.record(t, byDomain("acme.example"), key("k")), first)
	if r := e.record(t, byDomain("acme.example"), key("other")); r.Replayed {
		t.Error("a key without a recorded entry is bound")
	}
	if n := len(e.entries(t)); n != 2 {
		t.Errorf("there are %d entries, want 2", n)
	}
}

func keysAreLiteral(t *testing.T, e *env) {
	all := []string{
		"k", "K", " k", "k ", "\t", "0", "00", "é", "e\u0301", "ſ", "s", "\u200bk", "k\u200b", "k%", "_", "'", `"`, `\`, "\U0010ffff", "\ufffd",
	}
	drafts := make([]*atrium.Draft, len(all))
	for i, k := range all {
		drafts[i] = e.draft(t, byDomain("acme.example"), key(k))
	}
	first := receipts(t, e.append(t, drafts...))
	for i, k := range all {
		if first[i].Replayed {
			t.Errorf("key %q is the same as another", k)
		}
		wantReplay(t, e.record(t, byDomain("acme.example"), key(k)), first[i])
	}
	for _, entry := range e.entries(t) {
		for i := range first {
			if first[i].EntryID == entry.ID && entry.IdempotencyKey != all[i] {
				t.Errorf("key %q is stored as %q", all[i], entry.IdempotencyKey)
			}
		}
	}
}

func longKeys(t *testing.T, e *env) {
	astral := strings.Repeat("\U0001f600", 254)
	var all []string
	for n := 15; n <= 35; n++ { // across the length from which keys are hashed
		all = append(all, strings.Repeat("a", n), strings.Repeat("a", n-1)+"b")
	}
	all = append(all, strings.Repeat("a", 254)+"a", strings.Repeat("a", 254)+"b", astral+"\U0001f600", astral+"\U0001f601", astral)
	drafts := make([]*atrium.Draft, len(all))
	for i, k := range all {
		drafts[i] = e.draft(t, byDomain("acme.example"), key(k))
	}
	first := receipts(t, e.append(t, drafts...))
	again := receipts(t, e.append(t, drafts...))
	for i, k := range all {
		if first[i].Replayed || again[i] != first[i] {
			t.Errorf("key %d, of %d bytes: %+v, then %+v", i, len(k), first[i], again[i])
		}
		wantReplay(t, e.record(t, byDomain("acme.example"), key(k)), first[i])
	}
	if n := len(e.entries(t)); n != len(all) {
		t.Errorf("there are %d entries, want %d", n, len(all))
	}
}

func keysOfTenants(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	ours := receipts(t, e.append(t, e.draft(t, byDomain("acme.example"), key("k")), them.draft(t, byDomain("other.example"), key("k"))))
	if ours[0].Replayed || ours[1].Replayed || ours[0].AccountID == ours[1].AccountID {
		t.Errorf("receipts %+v", ours)
	}
	wantReplay(t, e.record(t, byDomain("acme.example"), key("k")), ours[0])
	wantReplay(t, them.record(t, byDomain("other.example"), key("k")), ours[1])
}

func noKeyNoReplay(t *testing.T, e *env) {
	e.append(t, e.draft(t, byDomain("acme.example")), e.draft(t, byDomain("acme.example")))
	e.record(t, byDomain("acme.example"))
	if n := len(e.entries(t)); n != 3 {
		t.Errorf("there are %d entries, want 3", n)
	}
}

func draftFoundAgain(t *testing.T, e *env) {
	for name, changes := range map[string][]draftOption{"with a key": {key("k")}, "without a key": nil} {
		e := e.as(e.newTenant(t))
		drafts := []*atrium.Draft{
			e.draft(t, byDomain("acme.example"), changes...),
			e.draft(t, byDomain("new.example")),
			e.draft(t, byID(atrium.NewID[atrium.AccountID]())),
		}
		first := e.append(t, drafts[:1]...)
		e.clock.step(time.Second)
		again, err := e.Append(t.Context(), drafts)
		if err != nil {
			t.Errorf("%s: append again: %v", name, err)
			continue
		}
		if again[0] != first[0] {
			t.Errorf("%s: %+v, then %+v", name, first[0], again[0])
		}
		if r := again[1]; r.Err != nil || r.EntryID != drafts[1].ID || r.CreatedAt != e.clock.instant() {
			t.Errorf("%s: the other draft: %+v", name, r)
		}
		wantCode(t, again[2].Err, atrium.CodeNotFound)
		if n := len(e.entries(t)); n != 2 {
			t.Errorf("%s: there are %d entries, want 2", name, n)
		}
	}
}

func mixedOutcomes(t *testing.T, e *env) {
	them := e.as(e.newTenant(t))
	bound := e.record(t, byDomain("acme.example"), key("bound"))
	unknown := byID(atrium.NewID[atrium.AccountID]())
	var drafts []*atrium.Draft
	var want []string
	for i := range 20 {
		drafts = append(drafts,
			e.draft(t, byDomain(fmt.Sprintf("d%d.example", i%3)), key(fmt.Sprint("k", i))),
			e.draft(t, byDomain("acme.example"), key("bound")),
			them.draft(t, unknown, key("bound")),
			e.draft(t, byDomain("other.example"), key("bound")),
			them.draft(t, byDomain("acme.example")))
		want = append(want, "recorded", "replayed", "not_found", "idempotency_key_reused", "recorded")
	}
	for i, o := range e.append(t, drafts...) {
		got := "recorded"
		switch {
		case o.Err != nil:
			got = string(atrium.CodeOf(o.Err))
		case o.Replayed:
			got = "replayed"
			wantReplay(t, o.Receipt, bound)
		case o.EntryID != drafts[i].ID:
			t.Errorf("draft %d has the receipt of %s", i, o.EntryID)
		}
		if got != want[i] {
			t.Errorf("draft %d is %s, want %s", i, got, want[i])
		}
	}
}
