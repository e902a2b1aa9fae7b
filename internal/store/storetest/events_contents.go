package storetest

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"atrium"
)

var eventContents = []guarantee{
	{"an event is the same after renames, merges, moves and changes of domains", eventsUnchanged},
	{"the contents of erased entries and accounts are not in events, and their erasure is an event", eventsErased},
	{"the erasure of a person is an event for each entry", eventsOfPersons},
	{"the deletion of old entries causes no event, and their events are erased", eventsOfRetention},
	{"events expire in the order of their positions, and a reader is told", eventsExpire},
	{"events expire after the retention that is set", eventRetention},
}

func eventsUnchanged(t *testing.T, e *env) {
	e = e.withEvents(t)
	a, b := e.record(t, atrium.Claim{Domain: "a.example", Name: "A"}), e.record(t, byDomain("b.example"))
	e.rename(t, a.AccountID, "Renamed")
	before := e.allEvents(t)
	e.clock.step(time.Hour)
	e.changeDomain(t, a.AccountID, "c.example")
	e.rename(t, a.AccountID, "Renamed again")
	e.move(t, a.EntryID, b.AccountID)
	e.merge(t, b.AccountID, a.AccountID)
	e.record(t, byDomain("b.example")) // acknowledged with the account that b.example was merged into
	after := e.allEvents(t)
	if got := after[:len(before)]; !reflect.DeepEqual(got, before) {
		t.Errorf("events were\n%+v\nand are\n%+v", before, got)
	}
	last := after[len(after)-1]
	if last.AccountID != a.AccountID || last.Entry.AccountID != a.AccountID || last.Entry.AcknowledgedID != "" {
		t.Errorf("the last event is %+v with %+v, want the account %s", last, last.Entry, a.AccountID)
	}
	e.split(t, a.AccountID, b.AccountID)
	if got := e.allEvents(t)[:len(after)]; !reflect.DeepEqual(got, after) {
		t.Errorf("events were\n%+v\nand are\n%+v", after, got)
	}
}

func eventsErased(t *testing.T, e *env) {
	e = e.fresh(t) // an erasure reads the whole file of an embedded database
	e = e.withEvents(t)
	gone, other := e.record(t, atrium.Claim{Domain: "gone.example", Name: "Gone"}), e.record(t, byDomain("other.example"))
	e.rename(t, gone.AccountID, "Renamed")
	before := e.allEvents(t)
	e.interrupted().erase(t, gone.AccountID) // the account is hidden, and nothing is redacted or deleted yet
	for _, name := range []string{"hidden", "deleted"} {
		if name == "deleted" {
			e.eraseAll(t)
		}
		events := e.allEvents(t)
		for i := range before {
			was, is := before[i], events[i]
			if was.AccountID == other.AccountID {
				if !reflect.DeepEqual(was, is) {
					t.Errorf("%s: the event of another account was %+v, and is %+v", name, was, is)
				}
				continue
			}
			was.Entry, was.Account, was.Audit, was.Erased = nil, nil, nil, true
			if !reflect.DeepEqual(is, was) {
				t.Errorf("%s: the event is %+v, want %+v", name, is, was)
			}
		}
		rest := events[len(before):]
		if len(rest) == 0 || rest[0].Type != atrium.EventAccountErased || rest[0].AccountID != gone.AccountID || rest[0].Audit == nil || rest[0].Erased {
			t.Fatalf("%s: the events of the erasure are %+v", name, rest)
		}
		if name == "hidden" {
			continue
		}
		if len(rest) != 2 || rest[1].Type != atrium.EventEntryErased || rest[1].EntryID != gone.EntryID || rest[1].AccountID != gone.AccountID || rest[1].Erased ||
			rest[1].ID != atrium.EventKeyErased.ID(e.tenant, string(gone.EntryID)) || rest[1].Entry != nil {
			t.Errorf("the events of the erasure are %+v", rest)
		}
	}
}

func eventsOfPersons(t *testing.T, e *env) {
	e = e.fresh(t)
	e = e.withEvents(t)
	e.fillPerson(t)
	e.record(t, byDomain("other.example"))
	before := int64(len(e.allEvents(t)))
	job := e.startErasure(t, atrium.ErasureRequest{Rule: personal()})
	e.finishErasure(t, job.ID)
	events := e.wantEvents(t, before, atrium.EventEntryErased)
	found := 0
	for _, ev := range e.feed(t, 0, 100) {
		if ev.Type == atrium.EventEntryCreated && ev.EntryID == events[0].EntryID {
			found++
			if !ev.Erased || ev.Entry != nil {
				t.Errorf("the event of the erased entry is %+v", ev)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d events are about the erased entry", found)
	}
}

func eventsOfRetention(t *testing.T, e *env) {
	e = e.withEvents(t)
	e.EventRetention = atrium.MaxEventRetention
	e.record(t, byDomain("acme.example"))
	e.setRules(t, atrium.RetentionRule{Days: 30})
	e.clock.step(40 * days)
	e.waitDays(t, 3)
	if n := len(e.entries(t)); n != 0 {
		t.Fatalf("%d entries are left", n)
	}
	for _, ev := range e.wantEvents(t, 0, atrium.EventAccountCreated, atrium.EventEntryCreated) {
		if !ev.Erased {
			t.Errorf("the event is %+v", ev)
		}
	}
}

// wantExpired fails the test unless reading events after a position says that they have expired.
func (e *env) wantExpired(t tb, after, oldest int64) {
	t.Helper()
	events, err := e.Events(t.Context(), e.tenant, after, 10)
	var expired *atrium.ExpiredEventsError
	if !errors.As(err, &expired) || expired.Oldest != oldest || len(events) > 0 {
		t.Errorf("events after %d: %d, %v, want the error that the oldest is %d", after, len(events), err, oldest)
	}
}

func eventsExpire(t *testing.T, e *env) {
	e = e.fresh(t).withEvents(t)
	e.append(t, e.draft(t, byDomain("acme.example")), e.draft(t, byDomain("acme.example"))) // positions 1 to 3
	e.sequence(t)
	e.clock.step(time.Hour)
	e.record(t, byDomain("acme.example")) // 4
	e.sequence(t)
	e.clock.step(-2 * time.Hour)
	e.record(t, byDomain("acme.example")) // 5, of an earlier time
	e.sequence(t)
	e.clock.step(time.Hour + atrium.MinEventRetention) // 1 to 3 are exactly as old as may be, and 5 is older
	e.expire(t)
	if n := len(e.feed(t, 0, 10)); n != 5 {
		t.Errorf("%d events are left, want 5", n)
	}
	e.clock.step(time.Millisecond)
	e.expire(t)
	e.wantExpired(t, 0, 4)
	e.wantExpired(t, 2, 4)
	if n := len(e.feed(t, 3, 10)); n != 2 {
		t.Errorf("%d events are left, want 2", n)
	}
	if found, err := e.EventsAt(t.Context(), e.tenant, []int64{3, 4}); err != nil || len(found) != 1 || found[0].Position != 4 {
		t.Errorf("found %+v, %v", found, err)
	}
	e.clock.step(2 * time.Hour)
	e.expire(t)
	e.wantExpired(t, 4, 6)
	if n := len(e.feed(t, 5, 10)); n != 0 {
		t.Errorf("%d events are left", n)
	}
	if s, err := e.EventSettings(t.Context(), e.tenant); err != nil || s.Oldest != 6 || s.Next != 6 {
		t.Errorf("settings %+v, %v", s, err)
	}
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	if n := len(e.feed(t, 5, 10)); n != 1 {
		t.Errorf("there are %d new events, want 1", n)
	}
}

func eventRetention(t *testing.T, e *env) {
	e = e.fresh(t).withEvents(t)
	e.EventRetention = 10 * days
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.clock.step(10 * days)
	e.expire(t)
	if n := len(e.feed(t, 0, 10)); n != 2 {
		t.Errorf("%d events are left, want 2", n)
	}
	e.clock.step(time.Millisecond)
	e.expire(t)
	e.wantExpired(t, 0, 3)
}

func copyOfEvents(t *testing.T, e *env) {
	e.enableEvents(t)
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.record(t, byDomain("acme.example")) // without a position in the source
	to := e.sharedTarget()
	e.copyTo(t, to)
	if got, want := to.feed(t, 0, 10), e.feed(t, 0, 10); len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("the copy has the events %+v, want %+v", got, want)
	}
	if got, want := to.allEvents(t), e.allEvents(t); len(want) != 3 || !reflect.DeepEqual(got, want) {
		t.Errorf("the copy has the events %+v, want %+v", got, want)
	}
	to.record(t, byDomain("acme.example"))
	to.wantEvents(t, 3, atrium.EventEntryCreated)
}
