package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
)

var tenantEvents = []guarantee{
	{"events are off at first, and enabled and disabled with a record", eventsSwitched},
	{"events are not enabled while nodes of the previous release may run", eventsDuringUpgrade},
	{"an append causes an event for each new account and each entry", eventsOfAppends},
	{"an append that stores nothing causes none, and neither does one while events are disabled", eventsOfNoEntry},
	{"a transaction has at most one row in the outbox, and none while events are disabled", outboxRows},
	{"changes cause the events of their records", eventsOfChanges},
	{"imports cause no events", eventsOfImports},
	{"pages of events have any size, and are bounded by their contents", eventPages},
	{"events are found at their positions", eventsAtPositions},
	{"events since a time are found without those before", eventsSince},
	{"large payloads are left out of events", eventsOfLargePayloads},
	{"a page of events has a bounded number of bytes of claims", eventsOfLongClaims},
	{"events of another tenant are not read", eventsOfOthers},
	{"the sequencer of any node finds what another one has left", eventsLeft},
	{"a waiting reader is woken", eventsWake},
}

func anySettings(atrium.EventSettings) error { return nil }

// enableEvents enables the events of the tenant.
func (e *env) enableEvents(t tb) atrium.EventSettings {
	t.Helper()
	settings, err := e.SetEventSettings(t.Context(), e.change(), true, anySettings)
	if err != nil {
		t.Fatalf("enable events: %v", err)
	}
	return settings
}

// withEvents returns the env for a new tenant with events.
func (e *env) withEvents(t tb) *env {
	t.Helper()
	e = e.as(e.newTenant(t))
	e.enableEvents(t)
	return e
}

// sequence gives positions to all events of the tenant.
func (e *env) sequence(t tb) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = e.SequenceEvents(t.Context(), e.tenant); err != nil {
			t.Fatalf("sequence: %v", err)
		}
	}
}

// feed returns the events of the tenant after a position, read in pages of a size. Their positions must be consecutive.
func (e *env) feed(t tb, after int64, size int) (all []atrium.Event) {
	t.Helper()
	for {
		some, err := e.Events(t.Context(), e.tenant, after, size)
		if err != nil {
			t.Fatalf("read events after %d: %v", after, err)
		}
		if len(some) == 0 {
			return all
		}
		for i := range some {
			if after++; some[i].Position != after || some[i].TenantID != e.tenant {
				t.Fatalf("event %d of %s follows %d of %s", some[i].Position, some[i].TenantID, after-1, e.tenant)
			}
		}
		all = append(all, some...)
	}
}

// allEvents sequences and returns the events of the tenant.
func (e *env) allEvents(t tb) []atrium.Event {
	t.Helper()
	e.sequence(t)
	return e.feed(t, 0, atrium.MaxEventPage)
}

// typesOf returns the types of events.
func typesOf(events []atrium.Event) (types []atrium.EventType) {
	for i := range events {
		types = append(types, events[i].Type)
	}
	return types
}

// wantEvents returns the events of the tenant after a position, and fails the test unless they have the types.
func (e *env) wantEvents(t tb, after int64, types ...atrium.EventType) []atrium.Event {
	t.Helper()
	e.sequence(t)
	events := e.feed(t, after, atrium.MaxEventPage)
	if got := typesOf(events); !slices.Equal(got, types) {
		t.Errorf("the events after %d are %q, want %q", after, got, types)
	}
	return events
}

func eventsSwitched(t *testing.T, e *env) {
	want := atrium.EventSettings{TenantID: e.tenant, Oldest: 1, Next: 1}
	check := func(got atrium.EventSettings, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("settings %+v, %v, want %+v", got, err, want)
		}
	}
	check(e.EventSettings(t.Context(), e.tenant))
	check(e.SetEventSettings(t.Context(), e.change(), false, anySettings)) // so it was
	refused := errors.New("refused")
	if _, err := e.SetEventSettings(t.Context(), e.change(), true, func(atrium.EventSettings) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v of a failed check", err)
	}
	check(e.EventSettings(t.Context(), e.tenant))
	want.Enabled, want.EnabledAt = true, pointer(e.clock.instant())
	check(e.enableEvents(t), nil)
	e.clock.step(time.Hour)
	check(e.enableEvents(t), nil) // so it is
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	want.Enabled, want.Last, want.Next = false, 2, 3
	check(e.SetEventSettings(t.Context(), e.change(), false, anySettings))
	check(e.node().EventSettings(t.Context(), e.tenant))
	want.Enabled, want.EnabledAt = true, pointer(e.clock.instant())
	check(e.enableEvents(t), nil)
	e.wantAuditActions(t, string(e.tenant), "events.enable", "events.disable", "events.enable")

	missing := e.as(atrium.NewID[atrium.TenantID]())
	_, err := missing.EventSettings(t.Context(), missing.tenant)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = missing.SetEventSettings(t.Context(), missing.change(), true, anySettings)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = missing.Events(t.Context(), missing.tenant, 0, 1)
	wantCode(t, err, atrium.CodeNotFound)
	_, err = missing.EventsAt(t.Context(), missing.tenant, []int64{1})
	wantCode(t, err, atrium.CodeNotFound)
}

func eventsDuringUpgrade(t *testing.T, e *env) {
	e = e.fresh(t)
	e.sql(t, "DELETE FROM settings WHERE name = $1", "finished")
	_, err := e.SetEventSettings(t.Context(), e.change(), true, anySettings)
	wantCode(t, err, atrium.CodeConflict)
	if err == nil || !strings.Contains(err.Error(), "atrium migrate --finish") {
		t.Errorf("the error is %v", err)
	}
	if err := e.FinishUpgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.enableEvents(t)
}

func eventsOfAppends(t *testing.T, e *env) {
	e = e.withEvents(t)
	occurred := e.clock.instant() - 5_000_000
	first := e.draft(t, byDomain("https://WWW.Acme.example/about"), payload(`{"n": 1.50}`))
	second := e.draft(t, atrium.Claim{Domain: "acme.example", Name: "Acme"}, key("k"), func(s *atrium.Submission) { s.OccurredAt = &occurred })
	none := e.draft(t, byName("nobody"))
	got := receipts(t, e.append(t, first, second, none))
	e.clock.step(time.Second)
	later := e.record(t, byID(got[0].AccountID))

	events := e.allEvents(t)
	created := map[atrium.AccountID]atrium.Event{}
	for i := range events[:2] {
		created[events[i].AccountID] = events[i]
	}
	if want := []atrium.EventType{atrium.EventAccountCreated, atrium.EventAccountCreated, atrium.EventEntryCreated, atrium.EventEntryCreated, atrium.EventEntryCreated, atrium.EventEntryCreated}; !slices.Equal(typesOf(events), want) {
		t.Fatalf("types %q, want %q", typesOf(events), want)
	}
	at := got[0].CreatedAt
	wantAccount := func(r atrium.Receipt, by atrium.EntryID, want atrium.CreatedAccount) {
		t.Helper()
		c := created[r.AccountID]
		if c.At != at || c.EntryID != by || c.Account == nil || *c.Account != want || c.Entry != nil || c.Audit != nil || c.Erased {
			t.Errorf("the creation is %+v with %+v, want %+v", c, c.Account, want)
		}
	}
	wantAccount(got[0], second.ID, atrium.CreatedAccount{Domain: "acme.example", Name: "Acme"})
	wantAccount(got[2], none.ID, atrium.CreatedAccount{Domain: atrium.UnattributedDomain})
	for i, d := range []*atrium.Draft{first, second, none} {
		ev := events[2+i]
		want := &atrium.Entry{ID: d.ID, TenantID: e.tenant, AccountID: got[i].AccountID, CreatedAt: at, Submission: d.Submission}
		if ev.At != at || ev.AccountID != got[i].AccountID || ev.EntryID != d.ID || ev.Account != nil || ev.Audit != nil || ev.Erased || !reflect.DeepEqual(ev.Entry, want) {
			t.Errorf("event %+v with %+v, want %+v", ev, ev.Entry, want)
		}
		if want := atrium.EventKeyEntry.ID(e.tenant, string(d.ID)); ev.ID != want {
			t.Errorf("the event of %s is %s, want %s", d.ID, ev.ID, want)
		}
	}
	if ev := events[5]; ev.EntryID != later.EntryID || ev.At != later.CreatedAt || ev.AccountID != got[0].AccountID {
		t.Errorf("the last event is %+v", ev)
	}
}

func eventsOfNoEntry(t *testing.T, e *env) {
	e.record(t, byDomain("acme.example"), key("before"))
	e.wantEvents(t, 0)
	e.enableEvents(t)
	e.record(t, byDomain("acme.example"), key("before"))
	e.append(t, e.draft(t, byDomain("acme.example"), key("before"), payload(`{"other":1}`)), e.draft(t, byID(atrium.NewID[atrium.AccountID]())))
	e.wantEvents(t, 0)
	e.record(t, byDomain("acme.example"), key("after"))
	e.record(t, byDomain("acme.example"), key("after"))
	both := e.draft(t, byDomain("acme.example"), key("both"))
	again := *both
	again.ID = atrium.NewID[atrium.EntryID]()
	e.append(t, both, &again)
	e.wantEvents(t, 0, atrium.EventEntryCreated, atrium.EventEntryCreated)
	if _, err := e.SetEventSettings(t.Context(), e.change(), false, anySettings); err != nil {
		t.Fatal(err)
	}
	e.record(t, byDomain("acme.example"))
	e.wantEvents(t, 2)
}

func outboxRows(t *testing.T, e *env) {
	on, other := e.withEvents(t), e.as(e.newTenant(t))
	outbox := func() int64 { return on.rowsOf(t, "event_outbox") + other.rowsOf(t, "event_outbox") }
	var drafts []*atrium.Draft
	for i := range 5 {
		drafts = append(drafts, on.draft(t, byDomain(fmt.Sprintf("on%d.example", i))), other.draft(t, byDomain(fmt.Sprintf("off%d.example", i))))
	}
	e.append(t, drafts...)
	if n := outbox(); n != 1 {
		t.Errorf("an append has %d rows in the outbox, want 1", n)
	}
	other.createPage(t)
	if n := outbox(); n != 1 {
		t.Errorf("after a change without events, the outbox has %d rows, want 1", n)
	}
	on.createPage(t)
	if n := outbox(); n != 2 {
		t.Errorf("after a change, the outbox has %d rows, want 2", n)
	}
	on.sequence(t)
	if n := outbox(); n != 0 {
		t.Errorf("the sequencer leaves %d rows", n)
	}
	if n := len(on.feed(t, 0, 100)); n != 11 {
		t.Errorf("there are %d events, want 11", n)
	}
}

func eventsOfChanges(t *testing.T, e *env) {
	e = e.withEvents(t)
	a, b := e.record(t, byDomain("a.example")), e.record(t, byDomain("b.example"))
	after := int64(len(e.allEvents(t)))
	step := func(what string, change func(), types ...atrium.EventType) {
		t.Helper()
		change()
		events := e.wantEvents(t, after, types...)
		after += int64(len(events))
		for i := range events {
			ev := &events[i]
			rows := e.auditRows(t, atrium.AuditFilter{}, 100)
			j := slices.IndexFunc(rows, func(r atrium.AuditRow) bool { return ev.Audit != nil && r.Number == ev.Audit.Number })
			if j < 0 || !reflect.DeepEqual(rows[j], *ev.Audit) || ev.At != rows[j].At || ev.ID != atrium.EventKeyAudit.ID(e.tenant, atrium.AuditSubject(rows[j].Number)) || ev.Erased {
				t.Errorf("%s: the event is %+v with %+v", what, ev, ev.Audit)
			}
			if id, ok := atrium.ParseID[atrium.AccountID](ev.Audit.Subject); ok != (ev.AccountID != "") || ok && id != ev.AccountID {
				t.Errorf("%s: the event is about account %q, and the record about %s", what, ev.AccountID, ev.Audit.Subject)
			}
		}
	}
	step("rename", func() { e.rename(t, a.AccountID, "A") }, atrium.EventAccountUpdated)
	step("merge", func() { e.merge(t, b.AccountID, a.AccountID) }, atrium.EventAccountMerged)
	step("split", func() { e.split(t, a.AccountID, b.AccountID) }, atrium.EventAccountSplit)
	var move atrium.Move
	step("move", func() { move = e.move(t, a.EntryID, b.AccountID) }, atrium.EventMoveCompleted)
	step("undo", func() { e.undo(t, move.ID) }, atrium.EventMoveCompleted)
	var page atrium.ScheduledPage
	step("page", func() { page = e.createPage(t) }, atrium.EventPageCreated)
	step("publish", func() { e.transition(t, page.ID, atrium.PagePublish) }, atrium.EventPagePublished)
	step("unpublish", func() { e.transition(t, page.ID, atrium.PageUnpublish) }, atrium.EventPageUnpublished)
	step("archive", func() { e.transition(t, page.ID, atrium.PageArchive) }, atrium.EventPageArchived)
	step("restore", func() { e.transition(t, page.ID, atrium.PageRestore) }, atrium.EventPageUpdated)
	var audience atrium.Audience
	step("audience", func() { audience = e.createAudience(t, page.ID, "Visitors") })
	step("version", func() {
		if _, _, err := e.CreateVersion(t.Context(), e.change(), page.ID, audience.ID, []byte(`{}`), ""); err != nil {
			t.Fatal(err)
		}
	}, atrium.EventVersionCreated)
	step("brand", func() { e.brand(t, "Brand") })
	step("key", func() { e.newKey(t, atrium.NewID[atrium.KeyID]()) })
}

func eventsOfImports(t *testing.T, e *env) {
	e = e.withEvents(t)
	a := e.newAccount("imported.example", "Imported")
	e.put(t, a, e.newEntry(a, "imported"), e.newPage(atrium.PageDraft))
	e.wantEvents(t, 0)
}

func eventPages(t *testing.T, e *env) {
	e = e.withEvents(t)
	for i := range 100 {
		drafts := make([]*atrium.Draft, 1+i%3)
		for n := range drafts {
			drafts[n] = e.draft(t, byDomain("acme.example"))
		}
		e.append(t, drafts...)
		if i%10 == 0 {
			e.sequence(t)
		}
	}
	all := e.allEvents(t)
	if len(all) != 1+199 {
		t.Fatalf("there are %d events", len(all))
	}
	for _, size := range []int{1, 7, 64, 199, 200, 5000} {
		if got := e.feed(t, 0, size); !reflect.DeepEqual(got, all) {
			t.Errorf("pages of %d have %d events that differ", size, len(got))
		}
	}
	for _, after := range []int64{201, 1 << 62} {
		e.wantExpired(t, after, 201)
	}
	for _, after := range []int64{-1, 1, 99, 199, 200} {
		some, err := e.Events(t.Context(), e.tenant, after, 50)
		first := min(max(0, after), 200)
		if want := all[first:min(first+50, 200)]; err != nil || len(some) != len(want) || len(want) > 0 && !reflect.DeepEqual(some, want) {
			t.Errorf("after %d there are %d events, %v, want %d", after, len(some), err, len(want))
		}
	}
	// Each of these has almost as much content as an event can have.
	text := payload(`{"text":"` + strings.Repeat("x", atrium.MaxEventPayload-20) + `"}`)
	const large = 400
	for range large / 100 {
		drafts := make([]*atrium.Draft, 100)
		for n := range drafts {
			drafts[n] = e.draft(t, byDomain("acme.example"), text)
		}
		e.append(t, drafts...)
	}
	e.sequence(t)
	page, err := e.Events(t.Context(), e.tenant, 200, atrium.MaxEventPage)
	size := 0
	for i := range page {
		size += len(page[i].Entry.Payload)
	}
	if err != nil || len(page) == 0 || len(page) == large || size > 2<<20 {
		t.Errorf("a page has %d of %d large events with %d bytes, %v", len(page), large, size, err)
	}
	if n := len(e.feed(t, 200, atrium.MaxEventPage)); n != large {
		t.Errorf("all pages have %d large events, want %d", n, large)
	}
}

func eventsAtPositions(t *testing.T, e *env) {
	e = e.withEvents(t)
	for range 5 {
		e.append(t, e.draft(t, byDomain("acme.example")), e.draft(t, byDomain("acme.example")))
	}
	all := e.allEvents(t)
	got, err := e.EventsAt(t.Context(), e.tenant, []int64{11, 3, 4, 3, 99, 0, -1, 1})
	if want := []atrium.Event{all[0], all[2], all[3], all[10]}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, %v, want %+v", got, err, want)
	}
	if got, err := e.EventsAt(t.Context(), e.tenant, nil); err != nil || len(got) > 0 {
		t.Errorf("at no position there is %+v, %v", got, err)
	}
}

func eventsOfOthers(t *testing.T, e *env) {
	e = e.withEvents(t)
	other := e.withEvents(t)
	e.append(t, e.draft(t, byDomain("acme.example")), other.draft(t, byDomain("acme.example")), other.draft(t, byDomain("acme.example")))
	other.sequence(t)
	if got := e.feed(t, 0, 10); len(got) > 0 {
		t.Errorf("sequencing another tenant has given positions to %+v", got)
	}
	e.wantEvents(t, 0, atrium.EventAccountCreated, atrium.EventEntryCreated)
	for _, ev := range other.wantEvents(t, 0, atrium.EventAccountCreated, atrium.EventEntryCreated, atrium.EventEntryCreated) {
		if ev.AccountID == e.feed(t, 0, 1)[0].AccountID {
			t.Errorf("the event %+v is about an account of another tenant", ev)
		}
	}
}

func eventsLeft(t *testing.T, e *env) {
	e = e.fresh(t)
	e = e.withEvents(t)
	e.record(t, byDomain("acme.example"))
	age := time.Hour
	e.clock.step(age)
	other := e.node() // its process has stored no events
	if _, err := other.RunSequencer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(e.feed(t, 0, 10)); got != 2 {
		t.Errorf("there are %d events, want 2", got)
	}
	if got := other.UnsequencedAge(); got < age || got > age+time.Second {
		t.Errorf("the oldest event without a position was %v old, want %v", got, age)
	}
	// The process that has stored events does not wait until it looks for those of others.
	e.record(t, byDomain("acme.example"))
	if _, err := e.RunSequencer(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.record(t, byDomain("acme.example"))
	if _, err := e.RunSequencer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(e.feed(t, 0, 10)); got != 4 {
		t.Errorf("there are %d events, want 4", got)
	}
}

func eventsWake(t *testing.T, e *env) {
	e = e.withEvents(t)
	other := e.withEvents(t)
	changed, unchanged := e.EventsChanged(e.tenant), e.EventsChanged(other.tenant)
	e.sequence(t)
	e.record(t, byDomain("acme.example"))
	select {
	case <-changed:
		t.Error("a reader was woken without a new event")
	default:
	}
	e.sequence(t)
	select {
	case <-changed:
	default:
		t.Error("a reader was not woken")
	}
	select {
	case <-unchanged:
		t.Error("a reader of another tenant was woken")
	case <-e.EventsChanged(e.tenant):
		t.Error("a reader that waits again was woken")
	default:
	}
}
