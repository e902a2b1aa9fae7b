package storetest

import (
	"fmt"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

func lateEntriesCounted(t *testing.T, e *env) {
	e.recordNow(t, byDomain("acme.example"))
	e.clock.step(settle)
	e.countAll(t)
	late := e.draft(t, byDomain("acme.example"))
	late.ID = idOf(e.clock.now())
	e.clock.step(time.Hour) // the transaction begins now
	e.countAll(t)
	if r := receipts(t, e.append(t, late))[0]; r.EntryID != late.ID {
		t.Fatal(r)
	}
	e.wantEntriesCounted(t) // at once
	e.clock.step(settle)
	e.countAll(t)
	e.wantEntriesCounted(t)
}

func countedInParts(t *testing.T, e *env) {
	account := e.newAccount("acme.example", "")
	e.put(t, account)
	var chunk []store.Record
	for i := range 11_500 {
		entry := e.aged(account, time.Duration(i)*time.Minute)
		if i%1000 == 0 {
			entry.ID = "prospectlog_zzzzzzzzzz" + entry.ID[len(entry.ID)-16:]
		}
		if chunk = append(chunk, entry); len(chunk) == 500 {
			e.put(t, chunk...)
			chunk = nil
		}
	}
	e.clock.step(settle)
	if c := e.countsOf(t, 1); c.CompleteUntil != nil {
		t.Errorf("before the first run, counts are complete until %s", c.CompleteUntil)
	}
	counting, read := e.counting()
	transactions, most := 0, 0
	hooked := *counting
	hooked.Store = store.New(hookedWrites{countingDB{e.db, read}, new(int), func(int) error {
		transactions++
		most = max(most, read.rows)
		read.rows = 0
		return nil
	}}, e.clock.now)
	hooked.countAll(t)
	if transactions < 6 || most > 5100 {
		t.Errorf("%d transactions, one of which has read %d rows", transactions, most)
	}
	e.wantEntriesCounted(t)
	if c := e.countsOf(t, 1); c.CompleteUntil == nil || *c.CompleteUntil < e.clock.instant()-300e6 {
		t.Errorf("counts are complete until %v", c.CompleteUntil)
	}
	if hooked.countAll(t); transactions > 10 {
		t.Errorf("%d transactions, though everything is counted", transactions)
	}
}

func countsCompleteUntil(t *testing.T, e *env) {
	if c := e.countsOf(t, 24); c.CompleteUntil == nil || c.Total != 0 {
		t.Errorf("without entries: %+v", c)
	}
	e.recordNow(t, byDomain("acme.example"))
	e.clock.step(settle)
	e.countAll(t)
	e.clock.step(2 * time.Hour)
	now := e.clock.instant()
	if c := e.countsOf(t, 24); c.CompleteUntil == nil || *c.CompleteUntil < now-300e6 || c.Total != 1 {
		t.Errorf("without newer entries, counts are %d and complete until %v at %s", c.Total, c.CompleteUntil, now)
	}
	e.recordNow(t, byDomain("acme.example"))
	e.clock.step(2 * time.Hour)
	if c := e.countsOf(t, 24); c.CompleteUntil == nil || *c.CompleteUntil > now || *c.CompleteUntil < now-120e6 || c.Total != 1 {
		t.Errorf("before the job has run, counts are %d and complete until %v, want just before %s", c.Total, c.CompleteUntil, now)
	}
	e.countAll(t)
	if c := e.countsOf(t, 24); c.Total != 2 || *c.CompleteUntil < now {
		t.Errorf("counts are %+v", c)
	}
}

func countedTypesBounded(t *testing.T, e *env) {
	account := e.newAccount("acme.example", "")
	e.put(t, account)
	var entries []*atrium.Entry
	for i := range 1200 {
		entry := e.aged(account, time.Minute)
		entry.Source = fmt.Sprint("source", i)
		entries = append(entries, entry)
	}
	for i := range 3 {
		var chunk []store.Record
		for _, entry := range entries[i*400 : (i+1)*400] {
			chunk = append(chunk, entry)
		}
		e.put(t, chunk...)
	}
	e.clock.step(settle)
	e.countAll(t)
	want := func(separate int, others int64) {
		t.Helper()
		all, other := 0, int64(0)
		for k, n := range e.entryCounts(t) {
			if k[:2] == "1 " {
				if k[len(k)-2:] == "  " {
					other += n
				} else {
					all++
				}
			}
		}
		if all != separate || other != others {
			t.Errorf("%d are counted separately and %d together, want %d and %d", all, other, separate, others)
		}
	}
	want(1000, 200)
	c, err := e.EntryCounts(t.Context(), e.tenant, atrium.CountQuery{
		Interval: atrium.Daily, Since: 0, Until: atrium.MaxDays * atrium.Daily.Micros(), Series: 3,
	})
	if err != nil || c.Total != 0 || c.CompleteUntil == nil {
		t.Errorf("counts of 1970 are %+v, %v", c, err)
	}
	if c := e.countsOf(t, 2); c.Total != 1200 || len(c.Series) != 5 || c.Other.Total != 1195 {
		t.Errorf("%d in all, %d series, %d others", c.Total, len(c.Series), c.Other.Total)
	}
	e.erase(t, account.ID)
	e.eraseAll(t)
	want(0, 0)
}

func recounted(t *testing.T, e *env) {
	for i := range 30 {
		e.recordNow(t, byDomain(fmt.Sprintf("a%d.example", i%3)))
		e.clock.step(time.Hour)
	}
	e.countAll(t)
	e.wantEntriesCounted(t)
	e.sql(t, "UPDATE entry_counts SET entries = 7 WHERE tenant_id = $1 AND pass = $2 AND hours = $3 AND starts_at < $4", storedID(e.tenant), int64(1), int64(1), start.UnixMicro()+7200e6)
	wrong := e.entryCounts(t)
	e.clock.step(6 * days)
	e.countAll(t)
	if got := e.entryCounts(t); fmt.Sprint(got) != fmt.Sprint(wrong) {
		t.Error("counts were corrected early")
	}
	e.clock.step(days + time.Hour)
	stopped := e.interruptedAfter(2) // it has begun
	if _, err := stopped.SweepCounts(t.Context(), e.before()); err != nil {
		t.Fatal(err)
	}
	_, _ = stopped.UpdateCounts(t.Context())
	if got := e.entryCounts(t); fmt.Sprint(got) != fmt.Sprint(wrong) {
		t.Error("counts of a recount are shown before it has ended")
	}
	late := e.record(t, byDomain("a0.example")).AccountID // counted by the append, in both
	e.erase(t, e.record(t, byDomain("a1.example")).AccountID)
	e.eraseAll(t)
	e.countAll(t)
	e.wantEntriesCounted(t)
	if err := e.db.Query(t.Context(), "SELECT pass FROM entry_counts WHERE tenant_id = $1 AND pass < $2 LIMIT 1", engine.Args{storedID(e.tenant), int64(2)}, func(engine.Row) error {
		t.Error("former counts are left")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e.erase(t, late)
	e.eraseAll(t)
	e.wantEntriesCounted(t)
}

func countsOfTenants(t *testing.T, e *env) {
	other := e.as(e.newTenant(t))
	e.recordNow(t, byDomain("acme.example"))
	e.clock.step(settle)
	e.countAll(t)
	other.countAll(t)
	if got := other.entryCounts(t); len(got) > 0 {
		t.Errorf("a tenant without entries has %v", got)
	}
	e.wantEntriesCounted(t)
	if c := other.countsOf(t, 24); c.Total != 0 || c.CompleteUntil == nil {
		t.Errorf("a tenant without entries has %+v", c)
	}
	if c := e.as(atrium.NewID[atrium.TenantID]()).countsOf(t, 24); c.Total != 0 {
		t.Errorf("an unknown tenant has %+v", c)
	}
}

func countSeries(t *testing.T, e *env) {
	for i := range 10 { // source i has i+1 entries
		for range i + 1 {
			e.recordNow(t, byDomain("acme.example"), func(s *atrium.Submission) { s.Source, s.Type = fmt.Sprint("s", i), "x" })
		}
	}
	e.clock.step(2 * time.Hour)
	e.recordNow(t, byDomain("acme.example"), func(s *atrium.Submission) { s.Source, s.Type = "s9", "y" })
	e.clock.step(settle)
	e.countAll(t)
	c := e.countsOf(t, 4)
	if c.Total != 56 || len(c.Series) != 5 || c.Other.Total != 1+2+3+4+5+1 || len(c.Other.Counts) != 4 {
		t.Fatalf("counts %+v", c)
	}
	for i, s := range c.Series {
		if s.Source != fmt.Sprint("s", 9-i) || s.Type != "x" || s.Total != int64(10-i) || s.Counts[1] != s.Total {
			t.Errorf("series %d is %+v", i, s)
		}
	}
	if c.Other.Counts[3] != 1 || c.Other.Counts[1] != 15 {
		t.Errorf("others are %v", c.Other.Counts)
	}
	for _, f := range []struct {
		source, kind string
		want         int64
	}{{"s9", "", 11}, {"", "y", 1}, {"s9", "x", 10}, {"s1", "y", 0}} {
		q := c.CountQuery
		q.Source, q.Type = f.source, f.kind
		if got, err := e.EntryCounts(t.Context(), e.tenant, q); err != nil || got.Total != f.want {
			t.Errorf("%+v: %d, %v", f, got.Total, err)
		}
	}
	if c := e.countsOf(t, 2); c.Total != 1 { // the period before is left out
		t.Errorf("%d in two hours", c.Total)
	}
}

func unattributedCounted(t *testing.T, e *env) {
	want := func(n int64, more bool) {
		t.Helper()
		if c, err := e.CountUnattributed(t.Context(), e.tenant); err != nil || c.Count != n || c.HasMore != more {
			t.Errorf("%+v, %v, want %d and %v", c, err, n, more)
		}
	}
	want(0, false)
	account := e.record(t, byName("nobody")).AccountID
	e.record(t, byDomain("acme.example"))
	want(1, false)
	for i := range 2 {
		var chunk []store.Record
		for range 500 {
			chunk = append(chunk, e.newEntry(&atrium.Account{ID: account}, ""))
		}
		e.put(t, chunk...)
		want(min(1000, int64(501+500*i)), i == 1)
	}
	counting, read := e.counting()
	if _, err := counting.CountUnattributed(t.Context(), e.tenant); err != nil || read.rows > 10 {
		t.Errorf("%d rows were read, %v", read.rows, err)
	}
}
