package storetest

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

func webhookLeased(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	if e.isDue(t, w.ID) {
		t.Error("a webhook without events is due")
	}
	e.happens(t, 0, "a.example")
	var claims atomic.Int64
	nodes := []*env{e, e.node()}
	parallel(t, 8, func(i int) {
		_, claimed, err := nodes[i%2].ClaimWebhook(t.Context(), store.DueWebhook{TenantID: e.tenant, WebhookID: w.ID}, []byte("node"), leaseLife)
		if err != nil {
			t.Errorf("claim: %v", err)
		}
		if claimed {
			claims.Add(1)
		}
	})
	if claims.Load() != 1 || e.isDue(t, w.ID) {
		t.Errorf("%d nodes have leased it", claims.Load())
	}
	e.clock.step(leaseLife + time.Second)
	if !e.isDue(t, w.ID) {
		t.Error("not due after the end of the lease")
	}
	lease := e.claim(t, w.ID)
	e.clock.step(leaseLife / 2)
	if state, err := e.RenewLease(t.Context(), lease, leaseLife); err != nil || !state.Enabled {
		t.Errorf("renew: %+v, %v", state, err)
	}
	e.clock.step(leaseLife - time.Second)
	if e.isDue(t, w.ID) {
		t.Error("due before the end of the lease")
	}
	if err := e.ReleaseWebhook(t.Context(), lease, *e.in(time.Minute)); err != nil || e.isDue(t, w.ID) {
		t.Errorf("release: %v", err)
	}
	e.happens(t, 0, "b.example") // a webhook that is left alone is not woken
	if e.isDue(t, w.ID) {
		t.Error("due before the time that its node has set")
	}
	e.clock.step(time.Minute)
	if !e.isDue(t, w.ID) {
		t.Error("not due at the time that its node has set")
	}
}

func webhookFenced(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	events := e.happens(t, 0, "a.example")
	old := e.claim(t, w.ID)
	e.clock.step(leaseLife + time.Second)
	if _, err := e.RenewLease(t.Context(), old, leaseLife); err != nil { // nobody else has leased it
		t.Fatalf("renew: %v", err)
	}
	e.clock.step(leaseLife + time.Second)
	lease := e.claim(t, w.ID)
	before := e.dump(t)
	_, err := e.RecordResults(t.Context(), old, store.Results{Number: 1, Cursor: 2, Outcomes: []store.Outcome{e.attempted(&events[0], atrium.DeliverySucceeded)}})
	_, renewed := e.RenewLease(t.Context(), old, leaseLife)
	_, idle := e.IdleWebhook(t.Context(), old)
	_, state := e.LeaseState(t.Context(), old)
	_, read := e.LeasedWebhook(t.Context(), old)
	for _, err := range []error{err, renewed, idle, state, read, e.ScheduleReplay(t.Context(), old, atrium.NewID[atrium.ReplayID](), 1, nil)} {
		if !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("error %v, want ErrLeaseLost", err)
		}
	}
	if err := e.ReleaseWebhook(t.Context(), old, 0); err != nil {
		t.Errorf("release: %v", err)
	}
	if d := before.difference(e.dump(t)); d != "" {
		t.Errorf("changed %s", d)
	}
	e.results(t, lease, 1, 1, e.attempted(&events[0], atrium.DeliverySucceeded))
	if err := e.DeleteWebhook(t.Context(), e.change(), w.ID, accept[atrium.Webhook]); err != nil {
		t.Fatal(err)
	}
	if _, err = e.RecordResults(t.Context(), lease, store.Results{Number: 2}); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("after the deletion: %v", err)
	}
}

func resultsOnce(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	events := e.happens(t, 0, "a.example")
	lease := e.claim(t, w.ID)
	results := store.Results{Number: 1, Cursor: 2, Lost: 3, FilterFaults: 4, Outcomes: []store.Outcome{
		e.attempted(&events[0], atrium.DeliverySucceeded), e.attempted(&events[1], atrium.DeliveryPending),
	}}
	for range 3 {
		if _, err := e.RecordResults(t.Context(), lease, results); err != nil {
			t.Fatal(err)
		}
	}
	got := e.webhook(t, w.ID)
	if got.Cursor != 2 || got.Lost != 3 || got.FilterFaults != 4 || got.FailingSince == nil {
		t.Errorf("webhook %+v", got)
	}
	hours, err := e.WebhookHours(t.Context(), e.tenant, w.ID, e.clock.instant())
	if err != nil || len(hours) != 1 || hours[0].Attempts != 2 || hours[0].Succeeded != 1 || hours[0].Latency != 40*time.Millisecond || hours[0].MaxLatency != 20*time.Millisecond {
		t.Errorf("hours %+v, %v", hours, err)
	}
	d, attempts, err := e.Delivery(t.Context(), e.tenant, w.ID, events[1].ID)
	if err != nil || d.State != atrium.DeliveryPending || d.Attempts != 1 || len(attempts) != 1 || !reflect.DeepEqual(attempts[0], *results.Outcomes[1].Attempt) {
		t.Errorf("delivery %+v with %+v, %v", d, attempts, err)
	}
	d.TenantID, d.WebhookID = "", ""
	if want := results.Outcomes[1].Delivery; !reflect.DeepEqual(d, want) {
		t.Errorf("stored %+v, want %+v", d, want)
	}
	leased, err := e.LeasedWebhook(t.Context(), lease)
	if err != nil || leased.Recorded != 2 || leased.Cursor != 2 || len(leased.Secrets) != 1 {
		t.Errorf("leased %+v, %v", leased, err)
	}
	recorded, err := e.RecordedPositions(t.Context(), lease, 2, 10, 10)
	if err != nil || !reflect.DeepEqual(recorded, map[int64]bool{2: true}) {
		t.Errorf("recorded %v, %v", recorded, err)
	}
	e.results(t, lease, 2, 1) // the position does not go back
	if got := e.webhook(t, w.ID); got.Cursor != 2 {
		t.Errorf("position %d", got.Cursor)
	}
}

// idleAt ends a lease, and fails the test unless that has the result.
func (e *env) wantIdle(t tb, lease store.Lease, want bool) {
	t.Helper()
	if ended, err := e.IdleWebhook(t.Context(), lease); err != nil || ended != want {
		t.Errorf("idle %v, %v, want %v", ended, err, want)
	}
}

func webhookIdle(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	events := e.happens(t, 0, "a.example")
	lease := e.claim(t, w.ID)
	e.wantIdle(t, lease, false)
	e.results(t, lease, 1, 1, e.attempted(&events[0], atrium.DeliverySucceeded))
	e.wantIdle(t, lease, false)
	e.results(t, lease, 2, 2, e.attempted(&events[1], atrium.DeliverySucceeded))
	e.wantIdle(t, lease, true)
	e.clock.step(time.Hour)
	if e.isDue(t, w.ID) {
		t.Error("an idle webhook is due")
	}
	select {
	case <-e.Woken():
	default:
	}
	e.record(t, byDomain("a.example"))
	if e.isDue(t, w.ID) {
		t.Error("due before the event has a position")
	}
	e.sequence(t)
	if !e.isDue(t, w.ID) {
		t.Error("the event has not woken it")
	}
	select {
	case <-e.Woken():
	default:
		t.Error("the process was not told")
	}
	e.claim(t, w.ID)
}

func webhookIdleRaces(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	nodes := []*env{e, e.node(), e.node()}
	const entries = 40
	var appended atomic.Bool
	parallel(t, 3, func(i int) {
		n := nodes[i]
		switch i {
		case 0: // appends
			for range entries {
				n.record(t, byDomain("race.example"))
			}
			appended.Store(true)
		case 1: // sequences
			for last := false; !last; {
				last = appended.Load()
				n.sequence(t)
			}
		case 2: // delivers, and becomes idle whenever it can
			for last := false; !last; {
				last = appended.Load()
				n.deliverAll(t, w.ID)
			}
		}
	})
	e.sequence(t)
	for e.isDue(t, w.ID) {
		e.deliverAll(t, w.ID)
	}
	settings, err := e.EventSettings(t.Context(), e.tenant)
	if got := e.webhook(t, w.ID); err != nil || got.Cursor != settings.Next-1 || settings.Next != entries+2 {
		t.Errorf("the webhook is at position %d, and the next event gets %d, %v", got.Cursor, settings.Next, err)
	}
}

// deliverAll delivers all events of a webhook, if it is due, until it is idle.
func (e *env) deliverAll(t tb, id atrium.WebhookID) {
	t.Helper()
	lease, claimed, err := e.ClaimWebhook(t.Context(), store.DueWebhook{TenantID: e.tenant, WebhookID: id}, []byte("node"), leaseLife)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	if !claimed {
		return
	}
	w, err := e.LeasedWebhook(t.Context(), lease)
	if err != nil {
		t.Fatalf("read a webhook: %v", err)
	}
	cursor := w.Cursor
	for number := int64(1); ; number++ {
		events, err := e.Events(t.Context(), e.tenant, cursor, 10)
		if err != nil {
			t.Fatalf("events: %v", err)
		}
		var outcomes []store.Outcome
		for i := range events {
			outcomes = append(outcomes, e.attempted(&events[i], atrium.DeliverySucceeded))
			cursor = events[i].Position
		}
		e.results(t, lease, number, cursor, outcomes...)
		if ended, err := e.IdleWebhook(t.Context(), lease); err != nil || ended {
			if err != nil {
				t.Errorf("idle: %v", err)
			}
			return
		}
	}
}

func retriesDue(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	events := e.happens(t, 0, "a.example")
	lease := e.claim(t, w.ID)
	e.results(t, lease, 1, 2, e.attempted(&events[0], atrium.DeliveryPending), e.attempted(&events[1], atrium.DeliverySucceeded))
	due := func(want ...int64) (all []atrium.Delivery) {
		t.Helper()
		all, err := e.DueDeliveries(t.Context(), lease, 10)
		var got []int64
		for _, d := range all {
			got = append(got, d.Position)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("due %v, %v, want %v", got, err, want)
		}
		return all
	}
	due()
	e.wantIdle(t, lease, true)
	if e.isDue(t, w.ID) {
		t.Error("due before the retry")
	}
	e.clock.step(6 * time.Second)
	if !e.isDue(t, w.ID) {
		t.Error("not due for the retry")
	}
	lease = e.claim(t, w.ID)
	all := due(1)
	e.wantIdle(t, lease, false)
	e.results(t, lease, 1, 2, e.again(all[0], atrium.DeliverySucceeded))
	due()
	e.wantIdle(t, lease, true)
	if got := e.webhook(t, w.ID); got.FailingSince != nil {
		t.Errorf("failing since %v after a success", got.FailingSince)
	}
	_, attempts, err := e.Delivery(t.Context(), e.tenant, w.ID, events[0].ID)
	if err != nil || len(attempts) != 2 || attempts[1].Number != 2 {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
}

func deliveriesInOrder(t *testing.T, e *env) {
	w := e.newWebhook(t, ordered)
	events := e.happens(t, 0, "a.example", "a.example", "b.example") // created and entries 1-2 of a, 3; of b 4-5
	lease := e.claim(t, w.ID)
	found, err := e.UnfinishedSubjects(t.Context(), lease, []string{string(events[0].AccountID)})
	if err != nil || len(found) > 0 {
		t.Errorf("unfinished %v, %v", found, err)
	}
	const pending, waiting = atrium.DeliveryPending, atrium.DeliveryWaiting
	e.results(t, lease, 1, 5, e.attempted(&events[0], pending), e.attempted(&events[1], waiting), e.attempted(&events[2], waiting),
		e.attempted(&events[3], atrium.DeliverySucceeded), e.attempted(&events[4], atrium.DeliverySucceeded))
	found, err = e.UnfinishedSubjects(t.Context(), lease, []string{string(events[0].AccountID), string(events[3].AccountID)})
	if err != nil || !reflect.DeepEqual(found, map[string]bool{string(events[0].AccountID): true}) {
		t.Errorf("unfinished %v, %v", found, err)
	}
	e.clock.step(time.Minute)
	next := func(position int64, state atrium.DeliveryState, number int64) {
		t.Helper()
		due, err := e.DueDeliveries(t.Context(), lease, 10)
		if err != nil || len(due) != 1 || due[0].Position != position {
			t.Fatalf("due %+v, %v, want position %d", due, err, position)
		}
		e.results(t, lease, number, 5, e.again(due[0], state))
	}
	next(1, atrium.DeliveryFailed, 2)
	next(2, atrium.DeliveryCanceled, 3)
	next(3, atrium.DeliverySucceeded, 4)
	e.wantStates(t, w.ID, map[int64]atrium.DeliveryState{
		1: atrium.DeliveryFailed, 2: atrium.DeliveryCanceled, 3: atrium.DeliverySucceeded, 4: atrium.DeliverySucceeded, 5: atrium.DeliverySucceeded,
	})
	// An event that waits for a delivery that has finished in the meantime is due.
	more := e.happens(t, 5, "a.example")
	var own atrium.Event
	for i := range more {
		if more[i].AccountID == events[0].AccountID {
			own = more[i]
		}
	}
	e.results(t, lease, 5, own.Position, e.attempted(&own, waiting))
	next(own.Position, atrium.DeliverySucceeded, 6)
}

func webhookDisabled(t *testing.T, e *env) {
	w, gone := e.newWebhook(t, nil), e.newWebhook(t, nil)
	events := e.happens(t, 0, "a.example")
	lease := e.claim(t, w.ID)
	e.results(t, lease, 1, 1, e.attempted(&events[0], atrium.DeliveryPending))
	e.clock.step(atrium.MaxFailing - time.Minute)
	o := e.attempted(&events[1], atrium.DeliveryPending)
	if state := e.results(t, lease, 2, 2, o); !state.Enabled {
		t.Error("disabled too soon")
	}
	e.clock.step(time.Minute)
	o.Stored, o.Delivery.Attempts, o.Attempt.Number = true, 2, 2
	if state := e.results(t, lease, 3, 2, o); state.Enabled || state.Disabled != atrium.DisabledByFailures {
		t.Error("not disabled after five days of failures")
	}
	got := e.webhook(t, w.ID)
	if got.Enabled || got.DisabledReason != atrium.DisabledByFailures || got.Cursor != 2 || e.isDue(t, w.ID) {
		t.Errorf("webhook %+v", got)
	}
	e.wantIdle(t, lease, true)
	if e.isDue(t, w.ID) {
		t.Error("a disabled webhook is due for a retry")
	}
	last := e.claim(t, gone.ID)
	o = e.attempted(&events[0], atrium.DeliveryPending)
	o.Gone = true
	if state := e.results(t, last, 1, 0, o); state.Enabled {
		t.Error("not disabled by 410")
	}
	if got := e.webhook(t, gone.ID); got.DisabledReason != atrium.DisabledByGone {
		t.Errorf("webhook %+v", got)
	}
	e.wantEvents(t, 2, atrium.EventWebhookDisabled, atrium.EventWebhookDisabled)
}

func failureReported(t *testing.T, e *env) {
	w := e.newWebhook(t, nil)
	if err := e.TestWebhook(t.Context(), e.change(), w.ID); err != nil {
		t.Fatal(err)
	}
	events := e.happens(t, 0, "a.example")
	lease := e.claim(t, w.ID)
	var outcomes []store.Outcome
	for i := range events {
		outcomes = append(outcomes, e.attempted(&events[i], atrium.DeliveryFailed))
	}
	e.results(t, lease, 1, int64(len(events)), outcomes...)
	reports := e.wantEvents(t, int64(len(events)), atrium.EventWebhookExhausted, atrium.EventWebhookExhausted)
	if len(events) != 3 || events[0].Type != atrium.EventWebhookTest || len(reports) == 2 && reports[0].Audit.Subject != string(w.ID) {
		t.Errorf("events %+v, reports %+v", events, reports)
	}
}
