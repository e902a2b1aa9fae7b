package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

// delivered delivers events of a new webhook with some states, and returns both with the lease.
func (e *env) delivered(t tb, change func(*atrium.WebhookSpec), states ...atrium.DeliveryState) (atrium.Webhook, []atrium.Event, store.Lease) {
	t.Helper()
	w := e.newWebhook(t, change)
	var domains []string
	for range len(states) - 1 { // the first entry causes two events
		domains = append(domains, string(w.ID[len(w.ID)-20:])+".example")
	}
	events := e.happens(t, w.Cursor, domains...)
	lease := e.claim(t, w.ID)
	var outcomes []store.Outcome
	for i, state := range states {
		outcomes = append(outcomes, e.attempted(&events[i], state))
	}
	e.results(t, lease, 1, events[len(states)-1].Position, outcomes...)
	return w, events, lease
}

func deliveriesListed(t *testing.T, e *env) {
	const ok, failed, pending = atrium.DeliverySucceeded, atrium.DeliveryFailed, atrium.DeliveryPending
	w, events, _ := e.delivered(t, nil, ok, failed, pending, ok, ok)
	since := e.clock.instant() + 1
	for _, c := range []struct {
		filter atrium.DeliveryFilter
		want   []int64
	}{
		{atrium.DeliveryFilter{}, []int64{5, 4, 3, 2, 1}},
		{atrium.DeliveryFilter{State: ok}, []int64{5, 4, 1}},
		{atrium.DeliveryFilter{State: failed}, []int64{2}},
		{atrium.DeliveryFilter{State: atrium.DeliveryCanceled}, nil},
		{atrium.DeliveryFilter{EventID: events[2].ID}, []int64{3}},
		{atrium.DeliveryFilter{EventID: events[2].ID, State: ok}, nil},
		{atrium.DeliveryFilter{EntryID: events[1].EntryID}, []int64{2}},
		{atrium.DeliveryFilter{EntryID: events[1].EntryID, EventID: events[2].ID}, nil},
		{atrium.DeliveryFilter{Since: &since}, nil},
		{atrium.DeliveryFilter{Until: &since}, []int64{5, 4, 3, 2, 1}},
	} {
		for _, size := range []int{1, 2, 10} {
			var got []int64
			var after *atrium.Position
			for {
				page, next, err := e.Deliveries(t.Context(), e.tenant, w.ID, c.filter, after, size)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range page {
					got = append(got, d.Position)
				}
				if after = next; next == nil {
					break
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v by %d: %v, want %v", c.filter, size, got, c.want)
			}
		}
	}
	_, _, err := e.Delivery(t.Context(), e.tenant, w.ID, atrium.NewID[atrium.EventID]())
	wantCode(t, err, atrium.CodeNotFound)
}

func redelivered(t *testing.T, e *env) {
	w, events, lease := e.delivered(t, nil, atrium.DeliverySucceeded, atrium.DeliveryFailed)
	e.results(t, lease, 2, 2)
	reports := e.happens(t, 2) // of the failure
	var outcomes []store.Outcome
	for i := range reports {
		outcomes = append(outcomes, e.attempted(&reports[i], atrium.DeliverySucceeded))
	}
	e.results(t, lease, 3, reports[len(reports)-1].Position, outcomes...)
	e.wantIdle(t, lease, true)
	d, err := e.Redeliver(t.Context(), e.change(), w.ID, events[1].ID)
	if err != nil || d.State != atrium.DeliveryPending || d.Earlier != 1 || d.FinishedAt != nil || !e.isDue(t, w.ID) {
		t.Errorf("redelivered %+v, %v", d, err)
	}
	lease = e.claim(t, w.ID)
	due, err := e.DueDeliveries(t.Context(), lease, 10)
	if err != nil || len(due) != 1 || !reflect.DeepEqual(due[0], d) {
		t.Fatalf("due %+v, want %+v, %v", due, d, err)
	}
	e.results(t, lease, 1, 2, e.again(d, atrium.DeliverySucceeded))
	_, attempts, err := e.Delivery(t.Context(), e.tenant, w.ID, events[1].ID)
	if err != nil || len(attempts) != 2 {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
	_, err = e.Redeliver(t.Context(), e.change(), w.ID, atrium.NewID[atrium.EventID]())
	wantCode(t, err, atrium.CodeNotFound)
	if _, err := e.EnableWebhook(t.Context(), e.change(), w.ID, false, accept[atrium.Webhook]); err != nil {
		t.Fatal(err)
	}
	_, err = e.Redeliver(t.Context(), e.change(), w.ID, events[1].ID)
	wantCode(t, err, atrium.CodeConflict)
}

// replay begins a replay of a webhook from the first event.
func (e *env) replay(t tb, w atrium.Webhook, to int64, failedOnly bool) atrium.Replay {
	t.Helper()
	r, _, err := e.CreateReplay(t.Context(), e.change(), atrium.Replay{ID: atrium.NewID[atrium.ReplayID](), WebhookID: w.ID, From: 1, To: to, Rate: 10, FailedOnly: failedOnly})
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	return r
}

func undelivered(events []atrium.Event) (all []atrium.Delivery) {
	for i := range events {
		all = append(all, atrium.Delivery{
			EventID: events[i].ID, Position: events[i].Position, Type: events[i].Type, Subject: string(events[i].AccountID), EntryID: events[i].EntryID,
		})
	}
	return all
}

func replayed(t *testing.T, e *env) {
	const ok, failed, pending = atrium.DeliverySucceeded, atrium.DeliveryFailed, atrium.DeliveryPending
	w, events, lease := e.delivered(t, nil, ok, failed, ok, pending)
	r := e.replay(t, w, 0, true)
	if r.To != 4 || r.Cursor != 0 || r.FinishedAt != nil {
		t.Errorf("replay %+v", r)
	}
	if state, err := e.LeaseState(t.Context(), lease); err != nil || state.Replay != r.ID {
		t.Errorf("state %+v, %v", state, err)
	}
	schedule := func(id atrium.ReplayID, cursor int64) {
		t.Helper()
		if err := e.ScheduleReplay(t.Context(), lease, id, cursor, undelivered(events[:cursor])); err != nil {
			t.Fatal(err)
		}
	}
	due := func(want string) {
		t.Helper()
		all, err := e.DueDeliveries(t.Context(), lease, 10)
		var got []string
		for _, d := range all {
			got = append(got, fmt.Sprintf("%d with %d of %d attempts", d.Position, d.Attempts-d.Earlier, d.Attempts))
		}
		slices.Sort(got)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("due are %v, %v, want %s", got, err, want)
		}
	}
	schedule(r.ID, 3)
	e.wantStates(t, w.ID, map[int64]atrium.DeliveryState{1: ok, 2: pending, 3: ok, 4: pending})
	e.wantIdle(t, lease, false)
	due("[2 with 0 of 1 attempts]")
	schedule(r.ID, 4) // 4 is tried again now
	due("[2 with 0 of 1 attempts 4 with 1 of 1 attempts]")
	got, err := e.Replay(t.Context(), e.tenant, w.ID, r.ID)
	if err != nil || got.FinishedAt == nil || got.Cursor != 4 || got.Scheduled != 2 {
		t.Errorf("replay %+v, %v", got, err)
	}
	again := e.replay(t, w, 0, true)
	schedule(again.ID, 4) // since then, 2 has had no attempt
	if got, err := e.Replay(t.Context(), e.tenant, w.ID, again.ID); err != nil || got.Scheduled != 1 {
		t.Errorf("the same again %+v, %v", got, err)
	}
	all := e.replay(t, w, 3, false)
	schedule(all.ID, 3)
	schedule(all.ID, 3) // nothing more
	e.wantStates(t, w.ID, map[int64]atrium.DeliveryState{1: pending, 2: pending, 3: pending, 4: pending})
	canceled := e.replay(t, w, 3, false)
	if got, err := e.CancelReplay(t.Context(), e.change(), w.ID, canceled.ID); err != nil || got.FinishedAt == nil {
		t.Errorf("canceled %+v, %v", got, err)
	}
	list, more, err := e.Replays(t.Context(), e.tenant, w.ID, nil, 2)
	if err != nil || !more || len(list) != 2 || list[0].ID != canceled.ID || list[1].ID != all.ID {
		t.Errorf("replays %+v, %v, %v", list, more, err)
	}
	_, _, err = e.CreateReplay(t.Context(), e.change(), atrium.Replay{ID: atrium.NewID[atrium.ReplayID](), WebhookID: w.ID, From: 5, Rate: 1})
	wantCode(t, err, atrium.CodeConflict) // it has not reached that
	for range atrium.MaxReplays {
		e.replay(t, w, 3, false)
	}
	_, _, err = e.CreateReplay(t.Context(), e.change(), atrium.Replay{ID: atrium.NewID[atrium.ReplayID](), WebhookID: w.ID, From: 1, Rate: 1})
	wantCode(t, err, atrium.CodeConflict)
}

func replayedInOrder(t *testing.T, e *env) {
	const ok, pending, waiting = atrium.DeliverySucceeded, atrium.DeliveryPending, atrium.DeliveryWaiting
	w, events, lease := e.delivered(t, ordered, ok, ok, ok)
	r := e.replay(t, w, 3, false)
	if err := e.ScheduleReplay(t.Context(), lease, r.ID, 3, undelivered(events)); err != nil {
		t.Fatal(err)
	}
	e.wantStates(t, w.ID, map[int64]atrium.DeliveryState{1: pending, 2: waiting, 3: waiting})
	for number := int64(2); number < 5; number++ {
		due, err := e.DueDeliveries(t.Context(), lease, 10)
		if err != nil || len(due) != 1 || due[0].Position != number-1 || due[0].Earlier != 1 {
			t.Fatalf("due %+v, %v", due, err)
		}
		e.results(t, lease, number, 3, e.again(due[0], ok))
	}
	if d, err := e.Redeliver(t.Context(), e.change(), w.ID, events[1].ID); err != nil || d.State != pending {
		t.Errorf("redelivered %+v, %v", d, err)
	}
	if d, err := e.Redeliver(t.Context(), e.change(), w.ID, events[2].ID); err != nil || d.State != waiting {
		t.Errorf("redelivered after another one of the subject %+v, %v", d, err)
	}
}

func deliveriesExpire(t *testing.T, e *env) {
	const ok, pending = atrium.DeliverySucceeded, atrium.DeliveryPending
	w, _, _ := e.delivered(t, nil, ok, pending, ok)
	e.replay(t, w, 3, false)
	deleted, _, _ := e.delivered(t, nil, ok, pending)
	if err := e.DeleteWebhook(t.Context(), e.change(), deleted.ID, accept[atrium.Webhook]); err != nil {
		t.Fatal(err)
	}
	count := func(want string) {
		t.Helper()
		rows := e.dump(t)
		if got := fmt.Sprint(len(rows["deliveries"]), len(rows["delivery_attempts"]), len(rows["webhook_hours"]), len(rows["webhook_replays"])); got != want {
			t.Errorf("%s deliveries, attempts, hours and replays, want %s", got, want)
		}
	}
	expire := func() {
		t.Helper()
		if _, err := e.DeleteExpiredDeliveries(t.Context(), e.before()); err != nil {
			t.Fatal(err)
		}
	}
	count("5 5 2 1")
	expire()
	count("3 3 1 1")
	e.clock.step(e.DeliveryRetention - time.Hour)
	expire()
	count("3 3 1 1")
	e.clock.step(2 * time.Hour)
	expire()
	count("1 1 0 1") // what is not finished stays
}

func attemptsBounded(t *testing.T, e *env) {
	const ok, stored = atrium.DeliverySucceeded, 100
	w, events, lease := e.delivered(t, nil, ok, ok, ok, ok, ok, ok, ok, ok)
	for number := int64(2); number <= stored+5; number++ { // as after redeliveries
		var again []store.Outcome
		for i := range events[:7] {
			d, _, err := e.Delivery(t.Context(), e.tenant, w.ID, events[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, e.again(d, ok))
		}
		e.results(t, lease, number, 8, again...)
	}
	d, attempts, err := e.Delivery(t.Context(), e.tenant, w.ID, events[0].ID)
	if err != nil || d.Attempts != stored+5 || len(attempts) != stored || attempts[0].Number != 6 || attempts[stored-1].Number != stored+5 {
		t.Errorf("%d attempts, of which %d are stored, %v", d.Attempts, len(attempts), err)
	}
	if n := len(e.dump(t)["delivery_attempts"]); n != 7*stored+1 {
		t.Errorf("%d attempts are stored, want %d", n, 7*stored+1)
	}
	if err := e.DeleteWebhook(t.Context(), e.change(), w.ID, accept[atrium.Webhook]); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DeleteExpiredDeliveries(t.Context(), e.before()); err != nil {
		t.Fatal(err)
	}
	if rows := e.dump(t); len(rows["deliveries"])+len(rows["delivery_attempts"])+len(rows["webhook_hours"]) > 0 {
		t.Errorf("%d deliveries, %d attempts and %d hours of a deleted webhook are left", len(rows["deliveries"]), len(rows["delivery_attempts"]), len(rows["webhook_hours"]))
	}
}
