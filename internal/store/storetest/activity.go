package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// The latest activity of accounts, and the order of the list by activity, which an update brings up
// to date.

var activity = []guarantee{
	{"an entry leaves the row of its account unchanged", entryLeavesAccountRow},
	{"the list by activity follows entries after an update", listFollowsEntries},
	{"an update of the activity that fails is repeated", failedActivityUpdate},
	{"an update of the activity includes what commits during it", lateActivity},
	{"a long update of the activity lets other tenants have turns", longActivityUpdate},
	{"many tenants do not wait for a long update of one", manyTenantsUpdated},
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
		if more, err := e.UpdateActivity(t.Context()); err != nil || more {
			t.Errorf("more %v, %v", more, err)
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

// lateActivity commits an entry of an account that the first transaction of an update has brought up to
// date, and one of another account, before the transaction that deletes the rows.
func lateActivity(t *testing.T, e *env) {
	var drafts []*atrium.Draft
	for i := range 150 { // two transactions
		drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("a%d.example", i))))
	}
	var ids []atrium.AccountID
	for _, r := range receipts(t, e.append(t, drafts...)) {
		ids = append(ids, r.AccountID)
	}
	slices.Sort(ids)
	other := e.record(t, byDomain("b.example")).AccountID
	e.sweepActivity(t)
	e.clock.step(time.Minute)
	for i, d := range drafts {
		drafts[i] = e.draft(t, d.Claim)
	}
	hooked := e.hooked(func(n int) error {
		if n != 3 { // after an append and the first update
			return nil
		}
		e.clock.step(time.Minute)
		receipts(t, e.node().append(t, e.draft(t, byID(ids[0])), e.draft(t, byID(other))))
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
	if err := hooked.appendAll(t, drafts); err != nil {
		t.Fatal(err)
	}
	if _, err := hooked.UpdateActivity(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := e.rowsOf(t, "active_accounts"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	e.wantSoundGroups(t)
}

func longActivityUpdate(t *testing.T, e *env) {
	other := e.as(e.newTenant(t))
	other.record(t, byDomain("other.example"))
	other.sweepActivity(t)
	var drafts []*atrium.Draft
	for i := range 1_000 { // ten transactions
		drafts = append(drafts, e.draft(t, byDomain(fmt.Sprintf("a%d.example", i))))
	}
	e.append(t, drafts...)
	e.sweepActivity(t)
	e.clock.step(time.Minute)
	for i, d := range drafts {
		drafts[i] = e.draft(t, d.Claim)
	}
	writes := 0
	slow := e.hooked(func(int) error {
		writes++
		e.clock.step(3 * time.Second)
		return nil
	})
	if err := slow.appendAll(t, drafts); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for more := true; more; calls++ {
		writes = 0
		if calls == 1 { // during the update
			slow.as(other.tenant).record(t, byDomain("other.example"))
		}
		var err error
		if more, err = slow.UpdateActivity(t.Context()); err != nil || writes > 4 {
			t.Fatalf("a call made %d writes, %v", writes, err)
		}
		if n := other.rowsOf(t, "active_accounts"); n != 0 {
			t.Errorf("call %d has not updated the other tenant", calls)
		}
	}
	if n := e.rowsOf(t, "active_accounts"); n != 0 || calls < 4 {
		t.Errorf("%d rows are left after %d calls", n, calls)
	}
	e.wantSoundGroups(t)
}

func manyTenantsUpdated(t *testing.T, e *env) {
	const n = 40 // more than can have a pass at once
	drafts := make([]*atrium.Draft, 2_000)
	for i := range drafts {
		drafts[i] = e.draft(t, byDomain(fmt.Sprintf("a%d.example", i)))
	}
	e.append(t, drafts...)
	e.sweepActivity(t)
	others := make([]*env, n)
	for i := range others {
		others[i] = e.as(e.newTenant(t))
		others[i].record(t, byDomain("other.example"))
	}
	for more := true; more; {
		more, _ = e.UpdateActivity(t.Context())
	}
	e.clock.step(time.Minute)
	for i, d := range drafts {
		drafts[i] = e.draft(t, d.Claim)
	}
	e.append(t, drafts...)
	for _, other := range others {
		other.record(t, byDomain("other.example"))
	}
	waiting := func() (tenants int) {
		for _, other := range others {
			if other.rowsOf(t, "active_accounts") > 0 {
				tenants++
			}
		}
		return tenants
	}
	for calls := 0; waiting() > 0; calls++ {
		if calls == 4 {
			t.Fatalf("%d tenants wait after %d calls", waiting(), calls)
		}
		if _, err := e.UpdateActivity(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e.rowsOf(t, "active_accounts") == 0 && waiting() > 0 {
			t.Fatal("a long update ended before others began")
		}
	}
	for more := true; more; {
		more, _ = e.UpdateActivity(t.Context())
	}
	if n := e.rowsOf(t, "active_accounts"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
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
	if _, err := failing.UpdateActivity(t.Context()); err == nil {
		t.Error("a failed transaction is not reported")
	}
	if more, err := failing.UpdateActivity(t.Context()); err != nil || more {
		t.Errorf("more %v, %v", more, err)
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

// appendAll appends batches of drafts and returns the first error.
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

// sweepActivity applies what appends to the tenant have left to UpdateActivity.
func (e *env) sweepActivity(t tb) {
	t.Helper()
	if _, err := e.SweepActivity(t.Context(), e.before()); err != nil {
		t.Fatalf("sweep activity: %v", err)
	}
	for more := true; more; {
		var err error
		if more, err = e.UpdateActivity(t.Context()); err != nil {
			t.Fatalf("update activity: %v", err)
		}
	}
}

// before returns the greatest identifier before the tenant's, for jobs to begin with the tenant.
func (e *env) before() atrium.TenantID {
	before := []byte(e.tenant)
	for i := len(before) - 1; ; i-- {
		if before[i] > '0' {
			before[i]--
			if before[i] == 'a'-1 {
				before[i] = '9'
			}
			return atrium.TenantID(before)
		}
		before[i] = 'z'
	}
}
