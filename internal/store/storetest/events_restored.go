package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

var restoredEvents = []guarantee{
	{"after a restore, no position is used again, and a reader of events that were lost gets an error", eventsRestored},
	{"a backup can be restored again, and no position is used again", eventsRestoredTwice},
	{"a feed that begins after a restore has new positions", eventsBegunAfterRestore},
	{"the lease of a webhook at the end of a restored feed ends", webhookOfRestoredFeed},
}

// restored makes the database one that was restored from a backup. It returns the position of the next event.
func (e *env) restored(t tb) (next int64) {
	t.Helper()
	e.clock.step(time.Minute)
	if err := e.ContinueAfterRestore(t.Context()); err != nil {
		t.Fatalf("continue after a restore: %v", err)
	}
	s, err := e.EventSettings(t.Context(), e.tenant)
	if err != nil {
		t.Fatalf("event settings: %v", err)
	}
	return s.Next
}

// wantPositions fails the test unless the feed has events with these positions after one, in pages of any size.
func (e *env) wantPositions(t tb, after int64, want ...int64) {
	t.Helper()
	for _, size := range []int{1, 2, 100} {
		var got []int64
		for last := after; ; {
			some, err := e.Events(t.Context(), e.tenant, last, size)
			if err != nil {
				t.Fatalf("read events after %d: %v", last, err)
			}
			if len(some) == 0 {
				break
			}
			for i := range some {
				last = some[i].Position
				got = append(got, last)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %d, the feed has the positions %d, want %d", after, got, want)
		}
	}
	feed, err := e.EventFeed(t.Context(), e.tenant)
	if n := feed.Behind(after); err != nil || n != int64(len(want)) {
		t.Errorf("a reader at %d is %d events behind, %v, want %d", after, n, err, len(want))
	}
}

// wantLost fails the test unless reading events after a position says that no event has it.
func (e *env) wantLost(t tb, after, oldest int64) {
	t.Helper()
	e.wantExpired(t, after, oldest)
	_, err := e.Events(t.Context(), e.tenant, after, 10)
	if expired, ok := errors.AsType[*atrium.ExpiredEventsError](err); !ok || !expired.Lost || expired.After != after || expired.Missing() != 0 {
		t.Errorf("events after %d: %v", after, err)
	}
}

func eventsRestored(t *testing.T, e *env) {
	e = e.fresh(t).withEvents(t)
	e.wantPositions(t, 0)
	e.wantLost(t, 1, 1)
	e.append(t, e.draft(t, byDomain("acme.example")), e.draft(t, byDomain("acme.example"))) // positions 1 to 3
	e.sequence(t)
	e.wantLost(t, 4, 4)
	next := e.restored(t)
	if want := atrium.RestoredPosition(e.clock.now()); next != want || want <= 1<<50 || want >= 1<<53 {
		t.Errorf("the next event gets position %d, want %d", next, want)
	}
	for _, lost := range []int64{4, 5, next - 2} {
		e.wantLost(t, lost, next)
	}
	e.wantLost(t, next+10, next)
	e.wantPositions(t, 0, 1, 2, 3)
	e.wantPositions(t, 3)
	e.wantPositions(t, next-1)
	since := atrium.At(e.clock.now().Add(5 * time.Minute))
	e.clock.step(10 * time.Minute)
	e.record(t, byDomain("acme.example"))
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.wantLost(t, 4, next)
	e.wantLost(t, next-2, next)
	e.wantLost(t, next+2, next+2)
	e.wantPositions(t, 0, 1, 2, 3, next, next+1)
	e.wantPositions(t, 2, 3, next, next+1)
	e.wantPositions(t, 3, next, next+1)
	e.wantPositions(t, next-1, next, next+1)
	e.wantPositions(t, next, next+1)
	if at, err := e.FirstEventSince(t.Context(), e.tenant, since); err != nil || at != next {
		t.Errorf("the first event is at %d, %v", at, err)
	}
	if found, err := e.EventsAt(t.Context(), e.tenant, []int64{3, 4, next - 1, next}); err != nil || len(found) != 2 || found[0].Position != 3 || found[1].Position != next {
		t.Errorf("found %+v, %v", found, err)
	}
	e.clock.step(atrium.MinEventRetention - 5*time.Minute) // the events from before the restore expire
	e.expire(t)
	e.wantExpired(t, 3, next)
	e.wantExpired(t, 0, next)
	e.wantPositions(t, next-1, next, next+1)
}

// setNext makes a position that of the next event, as it was in a backup.
func (e *env) setNext(t tb, next int64) {
	t.Helper()
	e.sql(t, "DELETE FROM event_log WHERE tenant_id = $1 AND first_position >= $2", kernel.IDArg(e.tenant), next)
	e.sql(t, "DELETE FROM settings WHERE name = $1", register.FirstPosition)
	e.sql(t, "UPDATE event_feeds SET next_position = $1 WHERE tenant_id = $2", next, kernel.IDArg(e.tenant))
}

func eventsRestoredTwice(t *testing.T, e *env) {
	e = e.fresh(t).withEvents(t)
	e.append(t, e.draft(t, byDomain("acme.example"))) // positions 1 and 2
	e.sequence(t)
	first := e.restored(t)
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.wantPositions(t, 1, 2, first)
	e.setNext(t, 3) // of the same backup
	second := e.restored(t)
	e.record(t, byDomain("acme.example"))
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.wantLost(t, first, second)
	e.wantPositions(t, 1, 2, second, second+1)
	third := e.restored(t) // of a later backup
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.wantPositions(t, 0, 1, 2, second, second+1, third)
	e.wantPositions(t, second, second+1, third)
	e.wantLost(t, second+2, third)
	e.wantLost(t, first, second)
}

func eventsBegunAfterRestore(t *testing.T, e *env) {
	e = e.fresh(t)
	e.restored(t)
	next := atrium.RestoredPosition(e.clock.now())
	e = e.withEvents(t)
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.wantPositions(t, next-1, next, next+1)
	e.wantExpired(t, 50, next)
}

func webhookOfRestoredFeed(t *testing.T, e *env) {
	e = e.fresh(t).withEvents(t)
	w := e.newWebhook(t, nil)
	events := e.happens(t, 0, "a.example")
	lease := e.claim(t, w.ID)
	e.results(t, lease, 1, events[len(events)-1].Position)
	next := e.restored(t)
	e.wantIdle(t, lease, true)
	if events := e.happens(t, next-1, "b.example"); len(events) == 0 {
		t.Error("there is no event")
	}
	e.wantIdle(t, e.claim(t, w.ID), false)
}
