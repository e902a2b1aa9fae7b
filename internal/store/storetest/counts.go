package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

var counts = []guarantee{
	{"random operations leave the counts that the stored entries have", countedLikeEntries},
	{"a killed job counts each entry once", countedDespiteKills},
	{concurrent + "nodes that count, append, import and erase at once count each entry once", countedByNodes},
	{"entries of an append that waited for long are counted", lateEntriesCounted},
	{"existing entries are counted in bounded transactions, and only then counts are complete", countedInParts},
	{"counts are complete up to the first entry that is not counted", countsCompleteUntil},
	{"at most 1,000 sources and types are counted separately, and the others together", countedTypesBounded},
	{"a recount corrects counts, serves the former ones until it ends, and leaves nothing of them", recounted},
	{"counts of one tenant are not those of another, and a tenant without entries has none", countsOfTenants},
	{"series are the largest, and the rest is counted together", countSeries},
	{"the number of unattributed entries is exact up to 1,000", unattributedCounted},
}

// settle is long enough for the job to count entries of now.
const settle = 5 * time.Minute

// countAll runs the job until it has counted all settled entries.
func (e *env) countAll(t tb) {
	t.Helper()
	if _, err := e.SweepCounts(t.Context(), e.before()); err != nil {
		t.Fatalf("sweep the counts: %v", err)
	}
	for more := true; more; {
		var err error
		if more, err = e.UpdateCounts(t.Context()); err != nil {
			t.Fatalf("update the counts: %v", err)
		}
	}
}

// entryCounts returns the stored numbers by interval, period, source and type.
func (e *env) entryCounts(t tb) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	if err := e.db.Query(t.Context(), `SELECT hours, starts_at, source, type, entries FROM entry_counts c
		WHERE tenant_id = $1 AND pass = (SELECT pass FROM entry_counting s WHERE s.tenant_id = $1)`,
		engine.Args{storedID(e.tenant)}, func(r engine.Row) error {
			if r.Int(4) == 0 { // its entries were erased
				return nil
			}
			all[fmt.Sprint(r.Int(0), " ", atrium.Time(r.Int(1)), " ", r.Text(2), " ", r.Text(3))] = r.Int(4)
			return nil
		}); err != nil {
		t.Fatalf("read the counts: %v", err)
	}
	return all
}

// recount computes what entryCounts must return.
func (e *env) recount(t tb) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, entry := range e.entries(t) {
		for _, hours := range []int64{1, 24} {
			at := atrium.At(entry.CreatedAt.Std().Truncate(time.Duration(hours) * time.Hour))
			all[fmt.Sprint(hours, " ", at, " ", entry.Source, " ", entry.Type)]++
		}
	}
	return all
}

// wantEntriesCounted fails the test unless the counts are those of the stored entries.
func (e *env) wantEntriesCounted(t tb) {
	t.Helper()
	got, want := e.entryCounts(t), e.recount(t)
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			t.Errorf("%s is %d, want %d", k, got[k], want[k])
		}
		delete(got, k)
	}
	if len(got) > 0 {
		t.Errorf("there also are %v", got)
	}
}

// countsOf returns the counts by hour, to the end of the hour of the clock.
func (e *env) countsOf(t tb, hours int) atrium.EntryCounts {
	t.Helper()
	until := atrium.At(e.clock.now().Truncate(time.Hour).Add(time.Hour))
	q := atrium.CountQuery{Interval: atrium.Hourly, Since: until - atrium.Time(hours)*3600e6, Until: until, Series: 5}
	c, err := e.EntryCounts(t.Context(), e.tenant, q)
	if err != nil {
		t.Fatalf("read the counts: %v", err)
	}
	return c
}

// wantCompleteCounts fails the test unless every hour that is said to be complete is.
func (e *env) wantCompleteCounts(t tb) {
	t.Helper()
	until := e.countsOf(t, 1).CompleteUntil
	if until == nil {
		return
	}
	got := map[string]int64{}
	want := map[string]int64{}
	for _, entry := range e.entries(t) {
		hour := entry.CreatedAt.Std().Truncate(time.Hour)
		if !hour.Add(time.Hour).After(until.Std()) {
			want[fmt.Sprint("1 ", atrium.At(hour), " ", entry.Source, " ", entry.Type)]++
		}
	}
	all := e.entryCounts(t)
	for k := range want {
		got[k] = all[k]
	}
	if !maps.Equal(got, want) {
		t.Fatalf("counts are %v, and are said to be complete until %s: want %v", got, until, want)
	}
}

// countedOperations performs random operations on the entries of a tenant.
type countedOperations struct {
	*env
	rng      *rand.Rand
	accounts []atrium.AccountID
	n        int
}

func (o *countedOperations) account() atrium.AccountID {
	return o.accounts[o.rng.IntN(len(o.accounts))]
}

// submission returns a draft of a random source and type.
func (o *countedOperations) submission(t tb) *atrium.Draft {
	o.n++
	d := o.draft(t, byDomain(fmt.Sprintf("a%d.example", o.rng.IntN(5))), func(s *atrium.Submission) {
		s.Source, s.Type = []string{"crm", "ads", "web"}[o.rng.IntN(3)], []string{"webhook", "deal"}[o.rng.IntN(2)]
		if o.rng.IntN(3) == 0 {
			s.OccurredAt = pointer(o.clock.instant() - atrium.Time(o.rng.IntN(90))*86400e6)
		}
		if o.rng.IntN(3) == 0 {
			s.IdempotencyKey = fmt.Sprint("key", o.rng.IntN(40))
		}
		if o.rng.IntN(4) == 0 {
			s.Payload = []byte(`{"to":"` + person + `"}`)
		}
	})
	if o.rng.IntN(4) > 0 { // otherwise, the time in the identifier is not that of the clock
		d.ID = idOf(o.clock.now().Add(-time.Duration(o.rng.IntN(90)) * time.Second))
	}
	return d
}

// imported returns an entry of another database.
func (o *countedOperations) imported(t tb) *atrium.Entry {
	d := o.submission(t)
	entry := &atrium.Entry{ID: d.ID, AccountID: o.account(), CreatedAt: o.clock.instant() - atrium.Time(o.rng.IntN(60*24))*3600e6, Submission: d.Submission}
	entry.IdempotencyKey = ""
	switch o.rng.IntN(3) {
	case 0:
		entry.ID = idOf(entry.CreatedAt.Std())
	case 1:
		entry.ID = "prospectlog_" + []atrium.EntryID{"zzzzzzzzzz", "0000000000", "a0b0c0d0e0"}[o.rng.IntN(3)] + entry.ID[len(entry.ID)-16:]
	}
	return entry
}

// step performs one operation.
func (o *countedOperations) step(t tb) {
	t.Helper()
	ctx, refused := t.Context(), error(nil)
	switch o.rng.IntN(12) {
	case 0, 1, 2:
		var drafts []*atrium.Draft
		for range 1 + o.rng.IntN(6) {
			drafts = append(drafts, o.submission(t))
		}
		for _, outcome := range o.append(t, drafts...) {
			if outcome.Err == nil && !slices.Contains(o.accounts, outcome.AccountID) {
				o.accounts = append(o.accounts, outcome.AccountID)
			}
		}
	case 3:
		if len(o.accounts) > 0 {
			var chunk []store.Record
			for range 1 + o.rng.IntN(6) {
				chunk = append(chunk, o.imported(t))
			}
			_, refused = o.Import(ctx, o.change(), items(chunk...))
		}
	case 4:
		if entries := o.entries(t); len(entries) > 0 {
			_, _, refused = o.MoveEntry(ctx, o.change(), entries[o.rng.IntN(len(entries))].ID, o.account(), func(atrium.TimelineEntry) error { return nil })
		}
	case 5:
		if len(o.accounts) > 1 {
			_, refused = o.MergeAccounts(ctx, o.change(), o.account(), o.account(), nil)
		}
	case 6:
		if len(o.accounts) > 1 {
			_, refused = o.SplitAccount(ctx, o.change(), o.account(), o.account(), nil)
		}
	case 7:
		if len(o.accounts) > 0 && o.rng.IntN(3) == 0 {
			i := o.rng.IntN(len(o.accounts))
			_, refused = o.EraseAccount(ctx, o.change(), o.accounts[i], nil)
			o.accounts = slices.Delete(o.accounts, i, i+1)
			o.eraseAll(t)
		}
	case 8:
		if o.rng.IntN(3) == 0 {
			o.finishErasure(t, o.startErasure(t, atrium.ErasureRequest{Rule: personal()}).ID)
		}
	case 9:
		o.clock.step(time.Duration(o.rng.IntN(20)) * time.Hour)
		o.applyRules(t)
	case 10:
		o.countAll(t)
	case 11:
		o.clock.step(time.Duration(o.rng.IntN(400)) * time.Second)
		if _, err := o.node().UpdateCounts(ctx); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if refused != nil && !slices.Contains([]atrium.Code{atrium.CodeNotFound, atrium.CodeConflict, atrium.CodeInvalidRequest}, atrium.CodeOf(refused)) {
		if _, ok := errors.AsType[*store.ImportError](refused); !ok {
			t.Fatalf("%v", refused)
		}
	}
}

func countedLikeEntries(t *testing.T, e *env) {
	e = e.fresh(t)
	e.steadyClock(t)
	for seed := range uint64(3) {
		o := &countedOperations{env: e.as(e.newTenant(t)), rng: rand.New(rand.NewPCG(seed, 1))}
		o.setRules(t, atrium.RetentionRule{Source: "ads", Days: 20})
		for n := range 150 {
			o.step(t)
			if n%10 == 0 {
				o.wantCompleteCounts(t)
			}
		}
		o.clock.step(settle)
		o.countAll(t)
		o.wantEntriesCounted(t)
		if len(o.entries(t)) == 0 {
			t.Error("no entries are left")
		}
	}
}

func countedDespiteKills(t *testing.T, e *env) {
	account := e.newAccount("acme.example", "")
	e.put(t, account)
	var drafts []*atrium.Draft
	for range 40 {
		d := e.draft(t, byID(account.ID))
		d.ID = idOf(e.clock.now())
		drafts = append(drafts, d)
	}
	e.append(t, drafts...)
	e.clock.step(settle)
	for transactions := range 8 { // the commit of the last one is lost
		for range 3 {
			killed := e.interruptedAfter(transactions)
			if _, err := killed.SweepCounts(t.Context(), e.before()); err != nil {
				t.Fatal(err)
			}
			if _, err := killed.UpdateCounts(t.Context()); err != nil && !errors.Is(err, errOnPurpose) && atrium.CodeOf(err) != atrium.CodeUnavailable {
				t.Fatal(err)
			}
		}
		e.recordNow(t, byID(account.ID))
		e.clock.step(settle)
	}
	uncertain := *e
	uncertain.Store = store.New(uncertainDB{e.db, new(int)}, e.clock.now)
	for range 20 {
		e.recordNow(t, byID(account.ID))
		e.clock.step(settle)
		if _, err := uncertain.SweepCounts(t.Context(), e.before()); err != nil {
			t.Fatal(err)
		}
		_, _ = uncertain.UpdateCounts(t.Context()) // the result is not known
	}
	e.countAll(t)
	e.wantEntriesCounted(t)
	if n := len(e.entries(t)); n != 68 {
		t.Errorf("%d entries", n)
	}
}

// An uncertainDB loses the result of every second commit, and every fourth commit itself.
type uncertainDB struct {
	engine.DB
	n *int
}

func (db uncertainDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	*db.n++
	lost := &engine.Error{Class: engine.Uncertain, Err: errOnPurpose}
	if *db.n%4 == 0 {
		if err := db.DB.Write(ctx, func(tx engine.Tx) error { return errors.Join(f(tx), errOnPurpose) }); err != nil {
			return lost
		}
	}
	err := db.DB.Write(ctx, f)
	if err == nil && *db.n%2 == 0 {
		return lost
	}
	return err
}

func countedByNodes(t *testing.T, e *env) {
	e = e.fresh(t)
	var ids []atrium.AccountID
	for i := range 12 {
		ids = append(ids, e.record(t, byDomain(fmt.Sprintf("a%d.example", i))).AccountID)
	}
	e.countAll(t)
	all := []*env{e.node(), e.node(), e.node(), e.node()}
	parallel(t, len(all), func(i int) {
		n, rng := all[i], rand.New(rand.NewPCG(uint64(i), 2))
		for step := range 12 {
			switch i {
			case 0, 1: // both count the same entries
				for more := true; more; {
					var err error
					if _, err = n.SweepCounts(t.Context(), n.before()); err == nil {
						more, err = n.UpdateCounts(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			case 2:
				for range 4 {
					n.recordNow(t, byDomain(fmt.Sprintf("b%d.example", rng.IntN(4))))
					n.record(t, byDomain(fmt.Sprintf("b%d.example", rng.IntN(4))))
				}
				var chunk []store.Record
				for range 5 {
					entry := n.aged(&atrium.Account{ID: ids[step%4]}, time.Duration(rng.IntN(100))*time.Hour)
					chunk = append(chunk, entry)
				}
				_, _ = n.Import(t.Context(), n.change(), items(chunk...)) // the account may be erased
				n.clock.step(settle)
			case 3:
				n.erase(t, ids[step])
				n.eraseAll(t)
			}
		}
	})
	e.clock.step(settle)
	e.countAll(t)
	e.wantEntriesCounted(t)
}
