package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"atrium"
)

// eventOrder are the guarantees about the order of events, with several nodes that store and sequence them.
var eventOrder = []guarantee{
	{concurrent + "every acknowledged entry is in the feed exactly once, with several nodes", eventsOnce},
	{concurrent + "a position that a reader has seen never changes, and none before it appears later", eventsInOrder},
	{"entries that are appended one after the other have positions in this order", eventsAfterEachOther},
	{"a tenant without events has no effect on one with events in the same append", eventsOfMixedAppends},
}

// eventLoad appends entries and makes changes on two nodes at once while these give positions to the events, and
// returns what was acknowledged.
func (e *env) eventLoad(t *testing.T) (acknowledged map[atrium.EntryID]atrium.AccountID) {
	startsGoroutines(t)
	t.Helper()
	acknowledged = map[atrium.EntryID]atrium.AccountID{}
	var mu sync.Mutex
	var loading sync.WaitGroup
	var ended atomic.Bool
	loading.Go(func() {
		e.onTwoNodes(t, func(e *env, i int) {
			for n := range 15 {
				drafts := []*atrium.Draft{
					e.draft(t, byDomain(fmt.Sprintf("d%d.example", n)), key(fmt.Sprint("shared", n))),
					e.draft(t, byDomain("acme.example"), key(fmt.Sprint("own", i, " ", n))),
				}
				outcomes := receipts(t, e.append(t, drafts...))
				mu.Lock()
				for _, r := range outcomes {
					acknowledged[r.EntryID] = r.AccountID
				}
				mu.Unlock()
				if n%5 == 0 {
					e.createPage(t)
				}
			}
		})
		ended.Store(true)
	})
	for _, node := range []*env{e, e.node()} {
		loading.Go(func() {
			for !ended.Load() {
				node.sequence(t)
			}
		})
	}
	loading.Wait()
	e.sequence(t)
	return acknowledged
}

func eventsOnce(t *testing.T, e *env) {
	e = e.withEvents(t)
	acknowledged := e.eventLoad(t)
	if want := 15 + 15*2*writers; len(acknowledged) != want {
		t.Fatalf("%d entries were acknowledged, want %d", len(acknowledged), want)
	}
	accounts, pages, ids := 0, 0, map[atrium.EventID]bool{}
	for _, ev := range e.feed(t, 0, 50) {
		if ids[ev.ID] {
			t.Errorf("the event %+v is there twice", ev)
		}
		ids[ev.ID] = true
		switch ev.Type {
		case atrium.EventEntryCreated:
			if account, ok := acknowledged[ev.EntryID]; !ok || account != ev.AccountID {
				t.Errorf("the event %+v is about an entry that was acknowledged with account %q", ev, account)
			}
			delete(acknowledged, ev.EntryID)
		case atrium.EventAccountCreated:
			accounts++
		case atrium.EventPageCreated:
			pages++
		default:
			t.Errorf("the event %+v has another type", ev)
		}
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d entries have no event", len(acknowledged))
	}
	if accounts != 16 || pages != 3*2*writers {
		t.Errorf("%d accounts and %d pages have events, want 16 and %d", accounts, pages, 3*2*writers)
	}
}

func eventsInOrder(t *testing.T, e *env) {
	e = e.withEvents(t)
	var reading sync.WaitGroup
	var ended atomic.Bool
	seen := make([][]atrium.Event, 2)
	for i, node := range []*env{e, e.node()} {
		reading.Go(func() {
			for !ended.Load() {
				seen[i] = append(seen[i], node.feed(t, int64(len(seen[i])), 7)...) // which compares the positions
			}
		})
	}
	e.eventLoad(t)
	ended.Store(true)
	reading.Wait()
	all := e.feed(t, 0, atrium.MaxEventPage)
	for i := range seen {
		if !reflect.DeepEqual(seen[i], all[:len(seen[i])]) {
			t.Errorf("a reader has seen %d events that differ from those that were there later", len(seen[i]))
		}
	}
}

func eventsAfterEachOther(t *testing.T, e *env) {
	e = e.withEvents(t)
	two := []*env{e, e.node()}
	var appended []atrium.EntryID
	for i := range 20 {
		appended = append(appended, two[i%2].record(t, byDomain("acme.example")).EntryID)
		e.clock.step(1e6)
		if i%3 == 0 {
			two[(i/3)%2].sequence(t)
		}
	}
	var found []atrium.EntryID
	for _, ev := range e.allEvents(t) {
		if ev.Type == atrium.EventEntryCreated {
			found = append(found, ev.EntryID)
		}
	}
	if !slices.Equal(found, appended) {
		t.Errorf("events are about %v, want %v", found, appended)
	}
}

func eventsOfMixedAppends(t *testing.T, e *env) {
	on, off, other := e.withEvents(t), e.as(e.newTenant(t)), e.withEvents(t)
	var drafts []*atrium.Draft
	for range 3 {
		for _, e := range []*env{on, off, other} {
			drafts = append(drafts, e.draft(t, byDomain("acme.example")))
		}
	}
	got := receipts(t, e.append(t, drafts...))
	for n, e := range []*env{on, off, other} {
		var want []atrium.EntryID
		if e != off {
			want = []atrium.EntryID{got[n].EntryID, got[n].EntryID, got[n+3].EntryID, got[n+6].EntryID} // the first one created the account
		}
		var found []atrium.EntryID
		for _, ev := range e.allEvents(t) {
			found = append(found, ev.EntryID)
		}
		if !slices.Equal(found, want) {
			t.Errorf("events are about %v, want %v", found, want)
		}
	}
}
