package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"atrium"
)

var restoredEvents = []guarantee{
	{"after a restore, no position is used again, and a reader of events that were lost is told", eventsRestored},
	{"a feed that was restored twice has all events that are stored", eventsRestoredTwice},
}

// restored makes the database one that was restored from a backup.
func (e *env) restored(t tb) {
	t.Helper()
	if err := e.ContinueAfterRestore(t.Context()); err != nil {
		t.Fatalf("continue after a restore: %v", err)
	}
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
	s, err := e.EventSettings(t.Context(), e.tenant)
	if n := s.Behind(after); err != nil || n != int64(len(want)) {
		t.Errorf("a reader at %d is %d events behind, %v, want %d", after, n, err, len(want))
	}
}

// wantRestored fails the test unless reading events after a position says that the database was restored.
func (e *env) wantRestored(t tb, after, oldest int64) {
	t.Helper()
	e.wantExpired(t, after, oldest)
	_, err := e.Events(t.Context(), e.tenant, after, 10)
	if expired, ok := errors.AsType[*atrium.ExpiredEventsError](err); !ok || !expired.Restored() || expired.After != after {
		t.Errorf("events after %d: %v", after, err)
	}
}

func eventsRestored(t *testing.T, e *env) {
	const next = atrium.EpochPositions + 1
	e = e.fresh(t).withEvents(t)
	e.wantPositions(t, 0)
	e.wantExpired(t, 1, 1)                                                                  // no such position yet
	e.append(t, e.draft(t, byDomain("acme.example")), e.draft(t, byDomain("acme.example"))) // positions 1 to 3
	e.sequence(t)
	e.wantRestored(t, 4, 4)
	e.restored(t)
	for _, lost := range []int64{4, 5, next - 2} {
		e.wantRestored(t, lost, next)
	}
	e.wantRestored(t, next+10, next)
	e.wantPositions(t, 0, 1, 2, 3)
	e.wantPositions(t, 3)
	e.wantPositions(t, next-1)
	if s, err := e.EventSettings(t.Context(), e.tenant); err != nil || s.Next != next {
		t.Errorf("settings %+v, %v", s, err)
	}
	since := atrium.At(e.clock.now().Add(5 * time.Minute))
	e.clock.step(10 * time.Minute)
	e.record(t, byDomain("acme.example"))
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	e.wantRestored(t, 4, next)
	e.wantRestored(t, next-2, next)
	e.wantRestored(t, next+2, next+2)
	e.wantPositions(t, 0, 1, 2, 3, next, next+1)
	e.wantPositions(t, 2, 3, next, next+1)
	e.wantPositions(t, 3, next, next+1)
	e.wantPositions(t, next, next+1)
	if at, err := e.FirstEventSince(t.Context(), e.tenant, since); err != nil || at != next {
		t.Errorf("the first event is at %d, %v", at, err)
	}
	if found, err := e.EventsAt(t.Context(), e.tenant, []int64{3, 4, next - 1, next}); err != nil || len(found) != 2 || found[0].Position != 3 || found[1].Position != next {
		t.Errorf("found %+v, %v", found, err)
	}
	e.clock.step(atrium.MinEventRetention - 5*time.Minute) // the events from before the restore expire
	e.expire(t)
	e.wantRestored(t, 3, next)
	e.wantPositions(t, next-1, next, next+1)
}

func eventsRestoredTwice(t *testing.T, e *env) {
	const second, third = atrium.EpochPositions + 1, 2*atrium.EpochPositions + 1
	e = e.fresh(t).withEvents(t)
	e.restored(t) // before the first event
	e.wantRestored(t, 0, second)
	e.wantRestored(t, 1, second)
	e.wantPositions(t, second-1)
	e.append(t, e.draft(t, byDomain("acme.example")))
	e.sequence(t)
	e.wantRestored(t, 0, second)
	e.wantPositions(t, second-1, second, second+1)
	e.restored(t)
	e.restored(t) // from a backup of just after the restore
	e.record(t, byDomain("acme.example"))
	e.sequence(t)
	const fourth = third + atrium.EpochPositions
	e.wantPositions(t, second-1, second, second+1, fourth)
	e.wantPositions(t, second, second+1, fourth)
	e.wantRestored(t, second+2, fourth)
	e.wantRestored(t, third, fourth)
}
