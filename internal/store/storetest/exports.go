package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

var exports = []guarantee{
	{"an export has every record once and in order, at any number of records", exportHasAll},
	{"an export has brands, schedules, published versions and members of entries", exportHasTheRest},
	{"an export of large records is complete", exportHasLarge},
	{"an export holds about 4 MiB, whichever members of its records are long", exportBounded},
	{concurrent + "an export during writes has all earlier records and no dangling references", exportWhileWriting},
	{"an export has all records stored before it, whatever the clock is", exportWithClockBack},
	{"an export leaves records stored after it began out, with all that refers to them", exportLeavesOutTogether},
	{"an entry moved to a new account during an export is exported in its old account", exportHasWhatIsMoved},
	{"a slow export does not block writes, and ends despite them", exportEndsDespiteWrites},
	{"an export ends with the error of emit or of its context", exportEndsWithError},
	{"an export of an unknown tenant is NotFound", exportOfNoTenant},
	{"an export changes no cached response", exportLeavesTheCache},
}

// wantOrder fails the test unless records are in the order of an export and refer only to earlier
// ones.
func wantOrder(t tb, records []store.Record) {
	t.Helper()
	kind := func(r store.Record) (place int, id string) {
		switch r := r.(type) {
		case *atrium.Account:
			return 0, string(r.ID)
		case *atrium.LinkedProspect:
			return 1, string(r.ID)
		case *atrium.Merge:
			return 2, "" // by the surviving account
		case *atrium.Brand:
			return 3, string(r.ID)
		case *atrium.Page:
			return 4, string(r.ID)
		case *atrium.ScheduledPage:
			return 4, string(r.ID)
		case *atrium.Audience:
			return 5, string(r.ID)
		case *atrium.AudienceVersion:
			return 6, fmt.Sprintf("%s %016d", r.AudienceID, r.Number)
		case *atrium.Tombstone:
			return 7, string(r.EntryID)
		case *atrium.Entry:
			return 8, string(r.ID)
		}
		return -1, ""
	}
	seen := map[string]bool{}
	lastPlace, lastID := -1, ""
	for i, r := range records {
		place, id := kind(r)
		if place < lastPlace || place == lastPlace && id <= lastID && id != "" {
			t.Fatalf("record %d, %s, is out of order after %s", i, id, lastID)
		}
		lastPlace, lastID = place, id
		var needs []string
		switch r := r.(type) {
		case *atrium.LinkedProspect:
			for _, a := range r.AccountIDs {
				needs = append(needs, string(a))
			}
		case *atrium.Merge:
			needs = append(needs, string(r.AccountID), string(r.Into))
		case *atrium.Audience:
			needs = append(needs, string(r.PageID))
		case *atrium.AudienceVersion:
			id = string(r.ID)
			needs = append(needs, string(r.PageID), string(r.AudienceID))
		case *atrium.Entry:
			needs = append(needs, string(r.AccountID))
		}
		for _, need := range needs {
			if !seen[need] {
				t.Fatalf("record %d, %s, refers to %s, which is not before it", i, id, need)
			}
		}
		seen[id] = true
	}
}

func exportHasAll(t *testing.T, e *env) {
	const n = 510 // more than a chunk of each kind
	var all []store.Record
	var accounts []*atrium.Account
	u := e.newAudience(e.newPage(atrium.PageDraft), false)
	for i := range n {
		a, p := e.newAccount(fmt.Sprintf("a%d.example", i), ""), e.newPage(atrium.PageDraft)
		accounts = append(accounts, a)
		if i == 0 {
			u.PageID = p.ID
			all = append(all, p, u)
			p = e.newPage(atrium.PageDraft)
		}
		all = append(all, a, e.newProspect(a, accounts[i/2]), p, e.newAudience(p, false), e.newVersion(u, int64(n-i)), e.newEntry(accounts[i/3], ""))
	}
	for chunk := range slices.Chunk(all, 1500) {
		// Grouped by kind, so that each kind is stored by one statement.
		slices.SortStableFunc(chunk, func(a, b store.Record) int { return kindOrder(a) - kindOrder(b) })
		e.put(t, chunk...)
	}
	got := e.records(t)
	wantOrder(t, got)
	gotTexts, wanted := describeAll(got), describeAll(all)
	slices.Sort(gotTexts)
	slices.Sort(wanted)
	if !slices.Equal(gotTexts, wanted) {
		t.Errorf("exported %d records, want %d, or not as they were given", len(got), len(all))
	}
}

func exportHasTheRest(t *testing.T, e *env) {
	made := e.brand(t, "made")
	const n = 510 // more than a chunk
	var all []store.Record
	for i := range n {
		b := made
		b.ID, b.Name = atrium.NewID[atrium.BrandID](), fmt.Sprint("Brand ", i)
		all = append(all, &b)
	}
	a := e.newAccount("acme.example", "")
	entry := e.newEntry(a, "k")
	entry.OccurredAt, entry.AcknowledgedID = pointer(atrium.Time(-1000)), atrium.NewID[atrium.AccountID]()
	p := e.newPage(atrium.PagePublished)
	shows, none := e.newAudience(p, false), e.newAudience(p, false)
	noted := published(e.newVersion(shows, 2))
	noted.Note = "Grüße"
	both := &atrium.ScheduledPage{Page: *e.newPage(atrium.PageDraft), Schedule: atrium.Schedule{PublishAt: pointer(entry.CreatedAt), UnpublishAt: pointer(entry.CreatedAt + 1000)}}
	one := &atrium.ScheduledPage{Page: *e.newPage(atrium.PagePublished), Schedule: atrium.Schedule{UnpublishAt: pointer(entry.CreatedAt)}}
	all = append(all, a, entry, p, both, one, shows, none, e.newVersion(shows, 1), noted, e.newVersion(shows, 3), e.newVersion(none, 1))
	e.put(t, all...)
	other := e.as(e.newTenant(t))
	got := e.records(t)
	wantOrder(t, got)
	other.put(t, got...)
	other.wantRecords(t, append(all, &made)...)
	if v, err := other.Version(t.Context(), other.tenant, p.ID, shows.ID, 2); err != nil || !v.Published || v.Note != noted.Note {
		t.Errorf("the published version is %+v, %v", v, err)
	}
	if p, err := other.ScheduledPage(t.Context(), other.tenant, both.ID); err != nil || *p.Schedule.PublishAt != *both.Schedule.PublishAt || *p.Schedule.UnpublishAt != *both.Schedule.UnpublishAt {
		t.Errorf("the scheduled page is %+v, %v", p, err)
	}
	if added, err := e.Import(t.Context(), e.change(), items(got...)); err != nil || added.Added != 0 {
		t.Errorf("imported again: %d were new, %v", added, err)
	}
}

func kindOrder(r store.Record) int {
	return slices.Index([]string{"*atrium.Account", "*atrium.LinkedProspect", "*atrium.Brand", "*atrium.Page", "*atrium.Audience", "*atrium.AudienceVersion", "*atrium.Entry"}, fmt.Sprintf("%T", r))
}

func exportHasLarge(t *testing.T, e *env) {
	large := append(append([]byte{'"'}, make([]byte, 1<<20)...), '"')
	for i := range large[1 : 1<<20+1] {
		large[1+i] = 'x'
	}
	a, u := e.newAccount("acme.example", ""), e.newAudience(e.newPage(atrium.PageDraft), false)
	want := []store.Record{a}
	for i := range 5 { // more than a chunk of each, in bytes
		p := e.newPage(atrium.PageDraft)
		if p.Metadata = large; i == 0 {
			p.ID = u.PageID
		}
		entry := e.newEntry(a, "")
		entry.Payload = []byte(`{"s":` + string(large) + `}`)
		want = append(want, p, entry)
		if i == 0 {
			want = append(want, u)
		}
		v := e.newVersion(u, int64(i+1))
		v.Content = large
		linked := e.newProspect(a)
		linked.Name = pointer(string(large))
		want = append(want, v, linked)
	}
	e.put(t, want...)
	got := e.records(t)
	wantOrder(t, got)
	if len(got) != len(want) {
		t.Errorf("exported %d records, want %d", len(got), len(want))
	}
}

func exportBounded(t *testing.T, e *env) {
	const size, chunkBytes = 300 << 10, 4 << 20
	long := strings.Repeat("x", size)
	first := e.newAccount("acme.example", "")
	shown := e.newPage(atrium.PageDraft)
	records := []store.Record{first, shown}
	for i := range 20 {
		a, p, u := e.newAccount(fmt.Sprintf("%d%s", i, long), ""), e.newPage(atrium.PageDraft), e.newAudience(shown, false)
		p.Title, p.BrandID, p.HeaderActionID, u.Name = long, long, &long, long
		entry := e.newEntry(first, "")
		entry.Claim.Domain = long
		records = append(records, a, p, u, entry)
	}
	e.put(t, records...)
	counted, read := e.counting()
	emitted, most := 0, 0
	if err := counted.Export(t.Context(), e.tenant, func(r store.Record) error {
		most = max(most, read.bytes-emitted)
		emitted += len(describe(r))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if emitted < 100*size || most > chunkBytes+4*size {
		t.Errorf("it read %d bytes ahead of the %d that it emitted, want %d at most", most, emitted, chunkBytes+4*size)
	}
}

// exportTo returns the records of an export, and calls at before each record.
func (e *env) exportTo(t tb, at func()) (records []store.Record) {
	t.Helper()
	if err := e.Export(t.Context(), e.tenant, func(r store.Record) error {
		at()
		records = append(records, r)
		return nil
	}); err != nil {
		t.Fatalf("export: %v", err)
	}
	return records
}

// randomAccount makes an account with a random identifier.
func (e *env) randomAccount(i int) *atrium.Account {
	a := e.newAccount(fmt.Sprintf("%s-%d.example", e.tenant[len("tenant_"):], i), "")
	a.ID = as[atrium.AccountID](fmt.Sprintf("%c%025d", "0az"[i%3], i))
	return a
}

func exportWhileWriting(t *testing.T, e *env) {
	startsGoroutines(t)
	var before []store.Record
	for i := range 510 {
		a := e.randomAccount(i)
		before = append(before, a)
	}
	for i := range 510 {
		before = append(before, e.newEntry(before[i].(*atrium.Account), ""))
	}
	e.put(t, before...)

	// Another node keeps writing new accounts, each with an entry.
	var stop atomic.Bool
	ended := make(chan error, 1)
	node := e.node()
	go func() {
		for i := 1000; !stop.Load(); i++ {
			node.clock.step(time.Millisecond)
			a := node.randomAccount(i)
			if _, err := node.Import(t.Context(), atrium.CommandLine(node.tenant), items(a, node.newEntry(a, ""))); err != nil {
				ended <- err
				return
			}
			d := node.draft(t, byDomain(fmt.Sprintf("new-%d.example", i)))
			if _, err := node.Append(t.Context(), []*atrium.Draft{d}); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for range 2 {
		got := e.records(t)
		wantOrder(t, got)
		have := map[string]bool{}
		for _, text := range describeAll(got) {
			have[text] = true
		}
		for _, r := range before {
			if !have[describe(r)] {
				t.Fatalf("the export left out %s, which was stored before it", describe(r))
			}
		}
	}
	stop.Store(true)
	if err := <-ended; err != nil {
		t.Fatalf("write during an export: %v", err)
	}
}

func exportWithClockBack(t *testing.T, e *env) {
	before := e.oneOfEach()
	e.put(t, before...)
	e.record(t, byDomain("new.example"))
	e.clock.step(-time.Hour)
	if n := len(e.records(t)); n != len(before)+2 {
		t.Errorf("an hour before they were stored, %d records are exported, want %d", n, len(before)+2)
	}
	if n := len(e.node().records(t)); n != len(before)+2 {
		t.Errorf("an hour before they were stored, another node exports %d records, want %d", n, len(before)+2)
	}
}

// exportLeavesOutTogether stores accounts that sort before and after the current position of the
// export, with entries, between any two records of it.
func exportLeavesOutTogether(t *testing.T, e *env) {
	for _, step := range []time.Duration{time.Second, 0, -time.Hour} {
		t.Run(fmt.Sprint("the clock advances by ", step), func(t *testing.T) {
			e := e.as(e.newTenant(t))
			e.exportBeside(t, e, func() { e.clock.step(step) })
		})
	}
}

// exportBeside stores new records on another node or the same one between any two records of an
// export. It calls tick before each write.
func (e *env) exportBeside(t *testing.T, other *env, tick func()) {
	t.Helper()
	before := e.oneOfEach()
	e.put(t, before...)
	i := 0
	got := e.exportTo(t, func() {
		if i >= 30 {
			return
		}
		tick()
		for range 3 {
			i++
			a := other.randomAccount(i)
			p := other.newPage(atrium.PageDraft)
			p.ID = as[atrium.PageID](string(a.ID[len("account_"):]))
			u := other.newAudience(p, false)
			u.ID = as[atrium.AudienceID](string(a.ID[len("account_"):]))
			other.put(t, a, other.newProspect(a), p, u, other.newVersion(u, 1), other.newEntry(a, ""))
			other.record(t, byDomain(fmt.Sprintf("new-%d.example", i)))
		}
	})
	wantOrder(t, got)
	have := describeAll(got)
	for _, r := range before {
		if !slices.Contains(have, describe(r)) {
			t.Errorf("the export left out %s, which was stored before it", describe(r))
		}
	}
	them := e.as(e.newTenant(t))
	for chunk := range slices.Chunk(got, 500) {
		them.put(t, chunk...)
	}
}

func exportHasWhatIsMoved(t *testing.T, e *env) {
	a := e.newAccount("acme.example", "")
	records := []store.Record{a}
	for range 20 {
		records = append(records, e.newEntry(a, ""))
	}
	e.put(t, records...)
	made := false
	got := e.exportTo(t, func() {
		if made {
			return
		}
		made = true
		e.clock.step(time.Second)
		other, _, err := e.CreateAccount(t.Context(), e.change(), "other.example", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records[1:] {
			e.move(t, r.(*atrium.Entry).ID, other.ID)
		}
	})
	if have, want := describeAll(got), describeAll(records); !slices.Equal(have, want) {
		t.Errorf("exported\n%q\nwant\n%q", have, want)
	}
}

func exportEndsDespiteWrites(t *testing.T, e *env) {
	records := e.oneOfEach()
	e.put(t, records...)
	node := e.node()
	calls := 0
	e.exportTo(t, func() {
		if calls++; calls > 10*len(records) {
			t.Fatal("the export does not end while more is stored")
		}
		for _, e := range []*env{e, node} {
			receipts(t, e.append(t, e.draft(t, byDomain("acme.example"))))
		}
	})
}

func exportEndsWithError(t *testing.T, e *env) {
	e.put(t, e.oneOfEach()...)
	errClient := errors.New("the client is gone")
	calls := 0
	err := e.Export(t.Context(), e.tenant, func(store.Record) error {
		if calls++; calls == 3 {
			return errClient
		}
		return nil
	})
	if !errors.Is(err, errClient) || calls != 3 {
		t.Errorf("%d calls, then %v", calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Export(ctx, e.tenant, func(store.Record) error { return nil }); err == nil {
		t.Error("an export succeeded after its context had ended")
	}
	e.record(t, byDomain("acme.example")) // the failed exports hold no locks
}

func exportOfNoTenant(t *testing.T, e *env) {
	err := e.Export(t.Context(), atrium.NewID[atrium.TenantID](), func(store.Record) error { return nil })
	wantCode(t, err, atrium.CodeNotFound)
}

func exportLeavesTheCache(t *testing.T, e *env) {
	e = e.fresh(t)
	tag := string(e.tenant)
	before, cached := e.CacheVersion(tag)
	if err := e.Export(t.Context(), e.tenant, func(store.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if after, _ := e.CacheVersion(tag); cached && after != before {
		t.Errorf("the version of a cache tag was %v and is %v", before, after)
	}
}
