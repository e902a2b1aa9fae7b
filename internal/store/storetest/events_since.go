package storetest

import (
	"testing"
	"time"

	"atrium"
)

func eventsSince(t *testing.T, e *env) {
	e = e.fresh(t).withEvents(t)
	first := func(since atrium.Time) int64 {
		t.Helper()
		position, err := e.FirstEventSince(t.Context(), e.tenant, since)
		if err != nil {
			t.Fatal(err)
		}
		return position
	}
	if got := first(e.clock.instant()); got != 1 {
		t.Errorf("without events, the first one is at %d", got)
	}
	var times []atrium.Time
	for n := range 20 {
		times = append(times, e.clock.instant())
		for range 1 + n%3 {
			e.record(t, byDomain("acme.example"))
		}
		e.sequence(t)
		e.clock.step(5 * time.Minute)
		if n%6 == 5 {
			e.restored(t) // the positions up to it have no events
		}
	}
	events, err := e.Events(t.Context(), e.tenant, 0, atrium.MaxEventPage)
	if err != nil || len(events) == atrium.MaxEventPage {
		t.Fatal(len(events), err)
	}
	for _, since := range append(times, 0, times[7]+1) {
		got := first(since)
		for i := range events {
			if since := since - atrium.Time(2*time.Minute/time.Microsecond); (events[i].At < since) != (events[i].Position < got) {
				t.Errorf("since %s, the first event is at %d, and event %d is from %s", since, got, events[i].Position, events[i].At)
			}
		}
	}
	if next := events[len(events)-1].Position + 1; first(e.clock.instant()) != next {
		t.Errorf("after the last event, the first one is at %d, want %d", first(e.clock.instant()), next)
	}
	if _, err := e.FirstEventSince(t.Context(), atrium.NewID[atrium.TenantID](), 0); atrium.CodeOf(err) != atrium.CodeNotFound {
		t.Errorf("of a tenant that does not exist: %v", err)
	}
}
