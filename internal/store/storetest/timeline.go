package storetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
)

var timeline = []guarantee{
	{"entries of an account are listed newest first, each once, at any page size", timelineListed},
	{"a timeline includes the entries of merged accounts", timelineOfMerged},
	{"a timeline can be read to its end while entries are added and moved", timelineMeanwhile},
	{"timeline filters return exactly the matching entries", timelineFiltered},
	{"a page of a timeline reads a bounded number of entries", timelineScanned},
	{"a page ends with the entry whose payload brings it to 1 MiB", timelinePayloads},
	{"payloads of every size are returned, and short ones are read with their entries", timelineShortPayloads},
	{"an entry is returned as it was sent", timelineEntry},
	{"entries of an erased account are gone", timelineErased},
	{"entries are counted by day, source and type", timelineCounted},
	{"partial counts add up to the total", timelineCountsCut},
	{"entries and accounts of another tenant are NotFound", timelineOfAnother},
}

// pages reads a timeline to its end.
func (e *env) pages(t tb, account atrium.AccountID, f atrium.TimelineFilter, limit int) (all []atrium.TimelineEntry) {
	t.Helper()
	var after *atrium.Position
	for {
		part, next, err := e.Timeline(t.Context(), e.tenant, account, f, after, limit, false)
		if err != nil {
			t.Fatalf("read a timeline: %v", err)
		}
		if len(part) > limit {
			t.Fatalf("%d entries on a page of %d", len(part), limit)
		}
		all = append(all, part...)
		if next == nil {
			return all
		}
		after = next
	}
}

func idsOf(entries []atrium.TimelineEntry) (ids []atrium.EntryID) {
	for i := range entries {
		ids = append(ids, entries[i].ID)
	}
	return ids
}

func timelineListed(t *testing.T, e *env) {
	var want []atrium.EntryID
	for i := range 7 {
		if i%2 == 0 { // two entries for each instant
			e.clock.step(time.Millisecond)
		}
		want = append(want, e.record(t, byDomain("acme.example")).EntryID)
		e.record(t, byDomain("other.example"))
	}
	slices.Reverse(want)
	account := e.record(t, byDomain("acme.example"), func(s *atrium.Submission) { s.Source = "last" })
	want = slices.Insert(want, 0, account.EntryID)
	for limit := 1; limit <= 9; limit++ {
		if got := idsOf(e.pages(t, account.AccountID, atrium.TimelineFilter{}, limit)); !slices.Equal(got, want) {
			t.Errorf("%d a page: %v, want %v", limit, got, want)
		}
	}
}

func timelineOfMerged(t *testing.T, e *env) {
	var want []atrium.EntryID
	accounts := make([]atrium.AccountID, 3)
	for i := range 40 {
		if i%3 == 0 {
			e.clock.step(time.Millisecond)
		}
		n := (i * i) % 3 % len(accounts)
		if i == 5 {
			n = 2
		}
		r := e.record(t, byDomain(fmt.Sprintf("d%d.example", n)))
		accounts[n], want = r.AccountID, append(want, r.EntryID)
	}
	slices.Reverse(want)
	e.merge(t, accounts[2], accounts[1])
	e.merge(t, accounts[1], accounts[0])
	for _, asked := range accounts {
		for _, limit := range []int{1, 7, 100} {
			all := e.pages(t, asked, atrium.TimelineFilter{}, limit)
			if got := idsOf(all); !slices.Equal(got, want) {
				t.Fatalf("%d a page: %v, want %v", limit, got, want)
			}
			for _, entry := range all {
				if entry.AccountID != accounts[0] {
					t.Fatalf("%s is shown under %s, want %s", entry.ID, entry.AccountID, accounts[0])
				}
			}
		}
	}
}

func timelineMeanwhile(t *testing.T, e *env) {
	stay := map[atrium.EntryID]int{}
	var merged, account, other atrium.AccountID
	var leave []atrium.EntryID
	for i := range 30 {
		e.clock.step(time.Millisecond)
		r := e.record(t, byDomain([]string{"a.example", "b.example"}[i%2]))
		account, merged = r.AccountID, account
		if i%5 == 0 {
			leave = append(leave, r.EntryID)
		} else {
			stay[r.EntryID] = 0
		}
	}
	other = e.record(t, byDomain("c.example")).AccountID
	e.merge(t, merged, account)
	var after *atrium.Position
	for page := 0; ; page++ {
		part, next, err := e.Timeline(t.Context(), e.tenant, account, atrium.TimelineFilter{}, after, 3, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range part {
			if _, stays := stay[entry.ID]; stays {
				stay[entry.ID]++
			}
		}
		if after = next; next == nil {
			break
		}
		e.clock.step(time.Millisecond)
		e.record(t, byID(account))
		switch {
		case page < len(leave):
			e.move(t, leave[page], other)
		case page == len(leave): // the survivor is merged
			e.split(t, account, merged)
			e.merge(t, account, merged)
		}
	}
	for id, n := range stay {
		if n != 1 {
			t.Errorf("%s was listed %d times", id, n)
		}
	}
}

func timelineFiltered(t *testing.T, e *env) {
	type sent struct {
		id           atrium.EntryID
		at           atrium.Time
		source, kind string
	}
	var all []sent
	var account atrium.AccountID
	for i := range 24 {
		if i%2 == 0 {
			e.clock.step(time.Second)
		}
		s := sent{source: []string{"crm", "CRM", "ads"}[i%3], kind: []string{"webhook", "visit"}[i%2], at: e.clock.instant()}
		r := e.record(t, byDomain("acme.example"), func(d *atrium.Submission) { d.Source, d.Type = s.source, s.kind })
		s.id, account = r.EntryID, r.AccountID
		all = append(all, s)
	}
	slices.Reverse(all)
	for _, source := range []string{"", "crm", "none"} {
		for _, kind := range []string{"", "visit"} {
			for _, since := range []*atrium.Time{nil, &all[16].at} {
				for _, until := range []*atrium.Time{nil, &all[4].at} {
					var want []atrium.EntryID
					for _, s := range all {
						if (source == "" || s.source == source) && (kind == "" || s.kind == kind) &&
							(since == nil || s.at >= *since) && (until == nil || s.at < *until) {
							want = append(want, s.id)
						}
					}
					f := atrium.TimelineFilter{Source: source, Type: kind, Since: since, Until: until}
					for _, limit := range []int{1, 3, 50} {
						if got := idsOf(e.pages(t, account, f, limit)); !slices.Equal(got, want) {
							t.Errorf("%+v, %d a page: %v, want %v", f, limit, got, want)
						}
					}
				}
			}
		}
	}
}

// recordMany records entries of one account in one transaction.
func (e *env) recordMany(t tb, n int, claim atrium.Claim, changes ...draftOption) []atrium.Receipt {
	t.Helper()
	drafts := make([]*atrium.Draft, n)
	for i := range drafts {
		drafts[i] = e.draft(t, claim, changes...)
	}
	return receipts(t, e.append(t, drafts...))
}

func timelineScanned(t *testing.T, e *env) {
	const looked = 1000
	rare := e.record(t, byDomain("acme.example"), func(s *atrium.Submission) { s.Source = "rare" })
	e.clock.step(time.Second)
	e.recordMany(t, looked, byDomain("acme.example"))
	f := atrium.TimelineFilter{Source: "rare"}
	part, next, err := e.Timeline(t.Context(), e.tenant, rare.AccountID, f, nil, 10, false)
	if err != nil || len(part) != 0 || next == nil {
		t.Fatalf("after %d others: %v, %v, %v", looked, idsOf(part), next, err)
	}
	part, next, err = e.Timeline(t.Context(), e.tenant, rare.AccountID, f, next, 10, false)
	if err != nil || !slices.Equal(idsOf(part), []atrium.EntryID{rare.EntryID}) || next != nil {
		t.Errorf("on the next page: %v, %v, %v", idsOf(part), next, err)
	}
}

func timelinePayloads(t *testing.T, e *env) {
	big := func(i int) string { return fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", 3<<17)) }
	var account atrium.AccountID
	for i := range 5 {
		e.clock.step(time.Second)
		account = e.record(t, byDomain("acme.example"), payload(big(i))).AccountID
	}
	var after *atrium.Position
	left := 5
	for _, want := range []int{3, 2} {
		part, next, err := e.Timeline(t.Context(), e.tenant, account, atrium.TimelineFilter{}, after, 100, true)
		if err != nil || len(part) != want {
			t.Fatalf("%d entries on a page, want %d: %v", len(part), want, err)
		}
		for _, entry := range part {
			if left--; string(entry.Payload) != big(left) || entry.PayloadBytes != int64(len(big(left))) {
				t.Errorf("entry %d has a payload of %d bytes, but PayloadBytes is %d", left, len(entry.Payload), entry.PayloadBytes)
			}
		}
		after = next
	}
	if after != nil {
		t.Error("the last page is not the last")
	}
	if part, _, err := e.Timeline(t.Context(), e.tenant, account, atrium.TimelineFilter{}, nil, 100, false); err != nil || len(part) != 5 || part[0].Payload != nil {
		t.Errorf("without payloads: %d entries, %v", len(part), err)
	}
}

func timelineShortPayloads(t *testing.T, e *env) {
	var want []string // newest first
	var account atrium.AccountID
	for i, size := range []int{1, 4000, 4100, 100_000, 1, 50} {
		e.clock.step(time.Second)
		sent := fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", size))
		account = e.record(t, byDomain("acme.example"), payload(sent)).AccountID
		want = slices.Insert(want, 0, sent)
	}
	counting, read := e.counting()
	for _, list := range []struct {
		name string
		most int // rows; two payloads are long
		read func() ([]atrium.TimelineEntry, *atrium.Position, error)
	}{
		{"a timeline", 6 + 2 + 1, func() ([]atrium.TimelineEntry, *atrium.Position, error) {
			return counting.Timeline(t.Context(), e.tenant, account, atrium.TimelineFilter{}, nil, 10, true)
		}},
		{"a filtered timeline", 6 + 6 + 1, func() ([]atrium.TimelineEntry, *atrium.Position, error) {
			return counting.Timeline(t.Context(), e.tenant, account, atrium.TimelineFilter{Source: "crm"}, nil, 10, true)
		}},
		{"entries found", 6 + 6 + 2, func() ([]atrium.TimelineEntry, *atrium.Position, error) {
			return counting.FindEntries(t.Context(), e.tenant, atrium.EntryFilter{}, nil, 10, true)
		}},
	} {
		read.rows = 0
		part, _, err := list.read()
		var got []string
		for _, entry := range part {
			got = append(got, string(entry.Payload))
		}
		if err != nil || !slices.Equal(got, want) || read.rows > list.most {
			t.Errorf("%s: %.100q of %d rows, %v", list.name, got, read.rows, err)
		}
	}
}

func timelineEntry(t *testing.T, e *env) {
	const sent = "{ \"b\" : 1.0e3,\t\"a\" : \"\\u00e9\\/\" }"
	at := e.clock.instant() - 5_000_000
	claim := atrium.Claim{Domain: "ACME.example", Name: "Acme"}
	r := e.record(t, claim, key("k"), payload(sent), func(s *atrium.Submission) { s.Type, s.OccurredAt = "visit", &at })
	got, err := e.TimelineEntry(t.Context(), e.tenant, r.EntryID)
	want := atrium.TimelineEntry{PayloadBytes: int64(len(sent)), Entry: atrium.Entry{
		ID: r.EntryID, TenantID: e.tenant, AccountID: r.AccountID, CreatedAt: r.CreatedAt,
		Submission: atrium.Submission{Source: "crm", Type: "visit", Payload: []byte(sent), Claim: claim, OccurredAt: &at, IdempotencyKey: "k"},
	}}
	if err != nil || describe(&got.Entry) != describe(&want.Entry) || got.PayloadBytes != want.PayloadBytes || got.MoveID != "" || got.TenantID != e.tenant {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if !bytes.Equal(got.Payload, []byte(sent)) {
		t.Errorf("the payload is %q, want %q", got.Payload, sent)
	}
	listed := e.pages(t, r.AccountID, atrium.TimelineFilter{}, 10)
	got.Payload = nil
	if len(listed) != 1 || describe(&listed[0].Entry) != describe(&got.Entry) || listed[0].PayloadBytes != got.PayloadBytes {
		t.Errorf("it is listed as %+v, want %+v", listed, got)
	}
	_, err = e.TimelineEntry(t.Context(), e.tenant, atrium.NewID[atrium.EntryID]())
	wantCode(t, err, atrium.CodeNotFound)
	if a := e.account(t, r.AccountID); *a.LatestActivityAt != r.CreatedAt {
		t.Errorf("the latest activity is %s, want when it was recorded, %s", a.LatestActivityAt, r.CreatedAt)
	}
}

func timelineErased(t *testing.T, e *env) {
	r := e.record(t, byDomain("acme.example"))
	if _, err := e.EraseAccount(t.Context(), e.change(), r.AccountID, accept); err != nil {
		t.Fatalf("erase: %v", err)
	}
	_, err := e.TimelineEntry(t.Context(), e.tenant, r.EntryID)
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = e.Timeline(t.Context(), e.tenant, r.AccountID, atrium.TimelineFilter{}, nil, 10, false)
	wantCode(t, err, atrium.CodeNotFound)
	_, _, err = e.Counts(t.Context(), e.tenant, r.AccountID, atrium.TimelineFilter{}, nil, 10)
	wantCode(t, err, atrium.CodeNotFound)
	other := e.record(t, byDomain("other.example")).AccountID
	_, _, err = e.MoveEntry(t.Context(), e.change(), r.EntryID, other, accept)
	wantCode(t, err, atrium.CodeNotFound)
}

// counted reads counts to their end and returns the sums by day, source and type, and the number
// of pages.
func (e *env) counted(t tb, account atrium.AccountID, f atrium.TimelineFilter, limit int) (sum map[atrium.DayCount]int64, parts int) {
	t.Helper()
	sum = map[atrium.DayCount]int64{}
	var after *atrium.Position
	for {
		part, next, err := e.Counts(t.Context(), e.tenant, account, f, after, limit)
		if len(part) > limit {
			t.Errorf("%d counts where %d were asked for", len(part), limit)
		}
		if err != nil {
			t.Fatalf("count: %v", err)
		}
		parts++
		for i, c := range part {
			if i > 0 && part[i-1].Day < c.Day {
				t.Errorf("day %s comes after %s", c.Day, part[i-1].Day)
			}
			n := c.Count
			c.Count = 0
			sum[c] += n
		}
		if after = next; next == nil {
			return sum, parts
		}
	}
}

func timelineCounted(t *testing.T, e *env) {
	want := map[atrium.DayCount]int64{}
	a := e.newAccount("acme.example", "")
	e.put(t, a)
	for i, at := range []string{
		"1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z", "0000-01-01T00:00:00.000Z", "2026-03-03T23:59:59.999Z",
		"2026-03-04T00:00:00.000Z", "2026-03-04T00:00:00.000Z", "2026-03-04T23:59:59.999Z", "9999-12-31T23:59:59.999Z",
	} {
		entry := e.newEntry(a, "")
		entry.Source = []string{"crm", "ads", "ads"}[i%3]
		entry.CreatedAt = instant(t, at)
		e.put(t, entry)
		want[atrium.DayCount{Day: instant(t, at[:10]+"T00:00:00Z"), Source: entry.Source, Type: entry.Type}]++
	}
	for _, limit := range []int{1, 2, 100} {
		if got, _ := e.counted(t, a.ID, atrium.TimelineFilter{}, limit); !maps.Equal(got, want) {
			t.Errorf("%d at a time: got %v, want %v", limit, got, want)
		}
	}
	since, until := instant(t, "2026-03-04T00:00:00Z"), instant(t, "2026-03-05T00:00:00Z")
	for c := range want {
		if c.Day != since || c.Source != "ads" {
			delete(want, c)
		}
	}
	if got, _ := e.counted(t, a.ID, atrium.TimelineFilter{Source: "ads", Since: &since, Until: &until}, 100); !maps.Equal(got, want) {
		t.Errorf("of one day and source: got %v, want %v", got, want)
	}
}

func instant(t tb, text string) atrium.Time {
	t.Helper()
	at, err := atrium.ParseTime(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return at
}

func timelineCountsCut(t *testing.T, e *env) {
	const counted = 10_000
	account := e.recordMany(t, counted, byDomain("acme.example"))[0].AccountID
	if _, parts := e.counted(t, account, atrium.TimelineFilter{}, 100); parts != 1 {
		t.Errorf("%d entries are counted in %d parts", counted, parts)
	}
	e.recordMany(t, 3, byDomain("acme.example"), func(s *atrium.Submission) { s.Source = "ads" })
	day := atrium.Time(int64(e.clock.instant()) / 86_400_000_000 * 86_400_000_000)
	want := map[atrium.DayCount]int64{{Day: day, Source: "crm", Type: "webhook"}: counted, {Day: day, Source: "ads", Type: "webhook"}: 3}
	if sum, parts := e.counted(t, account, atrium.TimelineFilter{}, 100); parts != 2 || !maps.Equal(sum, want) {
		t.Errorf("in %d parts: %v, want %v", parts, sum, want)
	}
}

func timelineOfAnother(t *testing.T, e *env) {
	r := e.record(t, byDomain("acme.example"))
	other := e.as(e.newTenant(t))
	own := other.record(t, byDomain("acme.example"))
	for name, call := range map[string]func(ctx context.Context) error{
		"timeline": func(ctx context.Context) error {
			_, _, err := other.Timeline(ctx, other.tenant, r.AccountID, atrium.TimelineFilter{}, nil, 10, true)
			return err
		},
		"counts": func(ctx context.Context) error {
			_, _, err := other.Counts(ctx, other.tenant, r.AccountID, atrium.TimelineFilter{}, nil, 10)
			return err
		},
		"entry": func(ctx context.Context) error {
			_, err := other.TimelineEntry(ctx, other.tenant, r.EntryID)
			return err
		},
		"move of an entry": func(ctx context.Context) error {
			_, _, err := other.MoveEntry(ctx, other.change(), r.EntryID, own.AccountID, accept)
			return err
		},
		"move to an account": func(ctx context.Context) error {
			_, _, err := other.MoveEntry(ctx, other.change(), own.EntryID, r.AccountID, accept)
			return err
		},
		"move from an account": func(ctx context.Context) error {
			_, _, err := other.Move(ctx, other.change(), atrium.MoveRequest{From: r.AccountID, To: own.AccountID, Limit: 1})
			return err
		},
	} {
		if err := call(t.Context()); atrium.CodeOf(err) != atrium.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}
