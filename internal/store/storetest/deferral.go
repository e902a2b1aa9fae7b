package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"atrium"
)

// Entries that TryAppend defers to another transaction, because they create many accounts.

var deferral = []guarantee{
	{"an append writes a bounded number of rows for new accounts and names", accountRowsBounded},
	{"new accounts and names are stored in the order of their drafts", deferralKeepsOrder},
	{"a deferred entry is not the latest activity of its account", deferredIsNoActivity},
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

// Otherwise, the new accounts of one tenant could keep the names of another waiting.
func deferralKeepsOrder(t *testing.T, e *env) {
	e.record(t, byDomain("unnamed.example"))
	e.record(t, atrium.Claim{}) // makes the unattributed account
	long := strings.TrimSpace(strings.Repeat("word ", 32))
	created := func(i int) *atrium.Draft {
		return e.draft(t, atrium.Claim{Domain: fmt.Sprintf("new%d.example", i), Name: long})
	}
	drafts := []*atrium.Draft{
		created(0),
		e.draft(t, atrium.Claim{Domain: "unnamed.example", Name: long}),
		created(1), created(2), created(3), created(4),
		e.draft(t, atrium.Claim{Domain: "unnamed.example"}), // the same account
		e.draft(t, atrium.Claim{Name: long}),                // the unattributed account
	}
	outcomes, err := e.TryAppend(t.Context(), drafts)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if deferred := errors.Is(o.Err, atrium.ErrDeferred); deferred != (i >= 3 && i <= 5) || !deferred && o.Err != nil {
			t.Errorf("draft %d: %v", i, o.Err)
		}
	}
}

func deferredIsNoActivity(t *testing.T, e *env) {
	a, b := e.record(t, byDomain("a.example")).AccountID, e.record(t, byDomain("b.example")).AccountID
	e.merge(t, a, b)
	before := *e.account(t, b).LatestActivityAt
	e.clock.step(time.Minute)
	long := strings.TrimSpace(strings.Repeat("word ", 32))
	var drafts []*atrium.Draft
	for i := range 6 {
		drafts = append(drafts, e.draft(t, atrium.Claim{Domain: fmt.Sprintf("new%d.example", i), Name: long}))
	}
	drafts = append(drafts, e.draft(t, atrium.Claim{AccountID: a, Name: long}))
	outcomes, err := e.TryAppend(t.Context(), drafts)
	if err != nil || !errors.Is(outcomes[6].Err, atrium.ErrDeferred) {
		t.Fatalf("the outcomes are %+v, %v", outcomes, err)
	}
	if at := *e.account(t, b).LatestActivityAt; at != before {
		t.Errorf("the latest activity is at %s, want %s", at, before)
	}
	e.wantDeferred(t, 4, drafts[len(drafts)-3:]...)
	if at := *e.account(t, b).LatestActivityAt; at != e.clock.instant() {
		t.Errorf("the latest activity is at %s after the entry, want %s", at, e.clock.instant())
	}
}
