package delivery

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

func TestEachEventArrivesOnce(t *testing.T) {
	f, r := newFixture(t), newReceiver(t, nil)
	w := f.webhook(r.URL, nil)
	f.post(1, 100, "a.example", "b.example")
	f.deliver(f.Store, nil)
	f.wantAll(r, 100, 2)
	f.wantIdle(w)
	f.post(101, 1, "a.example", "b.example") // a webhook that was idle goes on
	f.wantAll(r, 101, 2)
	f.wantIdle(w)
	if r.requests != 202 {
		t.Errorf("%d requests, want 202", r.requests)
	}
	deliveries, _, err := f.Deliveries(t.Context(), f.tenant, w.ID, atrium.DeliveryFilter{State: atrium.DeliverySucceeded}, nil, 1000)
	if err != nil || len(deliveries) != 202 {
		t.Errorf("%d deliveries are stored, %v", len(deliveries), err)
	}
}

func TestAnEventThatIsRefusedDelaysNoOther(t *testing.T) {
	f := newFixture(t)
	var others atomic.Int64
	r := newReceiver(t, func(e received, requests int) int {
		if e.n%10 != 0 {
			others.Add(1)
			return http.StatusNoContent
		}
		if requests < 4 || others.Load() < 18 { // the others arrive first
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	w := f.webhook(r.URL, nil)
	f.post(1, 20, "a.example")
	f.deliver(f.Store, func(d *Dispatcher) {
		next := d.timing.next
		d.timing.next = func(_ int, now time.Time, after time.Duration) (time.Time, bool) {
			at, _ := next(1, now, after)
			return at, true
		}
	})
	f.wantAll(r, 20, 1)
	if got := f.wantIdle(w); got.FailingSince != nil {
		t.Errorf("failing since %v", got.FailingSince)
	}
}

func TestAnEndpointThatFailsDoesNotSpendTheAttemptsOfItsBacklog(t *testing.T) {
	f := newFixture(t)
	var down atomic.Bool
	down.Store(true)
	r := newReceiver(t, func(received, int) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	w := f.webhook(r.URL, nil)
	f.post(1, 300, "a.example")
	f.deliver(f.Store, func(d *Dispatcher) {
		d.timing.next = func(_ int, now time.Time, _ time.Duration) (time.Time, bool) {
			return now.Add(100 * time.Millisecond), true
		}
	})
	requests := func() (total, events int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.requests, len(r.seen)
	}
	for total, _ := requests(); total < 30; total, _ = requests() {
		time.Sleep(5 * time.Millisecond)
	}
	if _, events := requests(); events > 100 {
		t.Errorf("30 requests or a few more were sent for %d events", events)
	}
	got, err := f.Webhook(t.Context(), f.tenant, w.ID)
	if err != nil || got.FailingSince == nil || !got.Enabled {
		t.Errorf("webhook %+v, %v", got, err)
	}
	down.Store(false)
	f.wantAll(r, 300, 1)
	f.wantIdle(w)
}

func TestEventsOfAnAccountArriveInOrder(t *testing.T) {
	f := newFixture(t)
	r := newReceiver(t, func(e received, requests int) int {
		switch {
		case e.n%7 == 3 && requests < 3:
			return http.StatusInternalServerError
		case e.n%11 == 5 && requests < 2:
			return 0
		}
		return http.StatusOK
	})
	w := f.webhook(r.URL, func(s *atrium.WebhookSpec) { s.Ordered = true })
	f.post(1, 60, "a.example", "b.example", "c.example")
	f.deliver(f.Store, nil)
	f.wantAll(r, 60, 3)
	f.wantIdle(w)
	r.wantOrder(t)
	if r.most != 1 {
		t.Errorf("%d requests of an account were in flight", r.most)
	}
}

// A faultyStore fails calls that store results.
type faultyStore struct {
	*store.Store
	fail func(results store.Results) (before, after error)
}

func (s *faultyStore) RecordResults(ctx context.Context, lease store.Lease, results store.Results) (store.LeaseState, error) {
	before, after := s.fail(results)
	if before != nil {
		return store.LeaseState{}, before
	}
	state, err := s.Store.RecordResults(ctx, lease, results)
	if err == nil {
		err = after
	}
	return state, err
}

func TestNoEventIsLostWhenProcessesDie(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		f := newFixture(t)
		r := newReceiver(t, func(e received, requests int) int {
			if e.n%9 == 4 && requests == 1 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		w := f.webhook(r.URL, func(s *atrium.WebhookSpec) { s.Ordered = ordered })
		var stored atomic.Int64
		for n := range 12 {
			f.post(1+10*n, 10, "a.example", "b.example")
			dead := make(chan struct{})
			left := int64(n % 3) // results are stored so many times
			_, crash := f.deliver(&faultyStore{f.Store, func(results store.Results) (error, error) {
				if left--; left >= 0 {
					stored.Add(int64(len(results.Outcomes)))
					return nil, nil
				}
				if left == -1 {
					close(dead)
				}
				return errors.New("dead"), nil
			}}, func(d *Dispatcher) { d.timing.lease = 200 * time.Millisecond })
			for alive := true; alive && !f.idle(w); { // without an error if it needed fewer transactions
				select {
				case <-dead:
					alive = false
				case <-time.After(5 * time.Millisecond):
				}
			}
			crash()
		}
		f.deliver(f.Store, nil)
		f.wantAll(r, 120, 2)
		f.wantIdle(w)
		r.mu.Lock()
		for id, n := range r.seen {
			if n > 20 {
				t.Errorf("%s was sent %d times", id, n)
			}
		}
		r.mu.Unlock()
		if stored.Load() == 0 {
			t.Error("nothing was stored before a process died")
		}
		if ordered {
			firsts := map[string]bool{}
			last := map[string]int{}
			for _, e := range r.accepted() {
				if !firsts[e.id] && e.n < last[e.Account] {
					t.Errorf("number %d of %s arrived first after %d", e.n, e.Account, last[e.Account])
				}
				firsts[e.id] = true
				last[e.Account] = max(last[e.Account], e.n)
			}
		}
	}
}

func TestResultsWhoseOutcomeIsUnknownAreStoredOnce(t *testing.T) {
	f, r := newFixture(t), newReceiver(t, nil)
	w := f.webhook(r.URL, nil)
	f.post(1, 50, "a.example")
	n := 0
	f.deliver(&faultyStore{f.Store, func(store.Results) (error, error) {
		if n++; n%2 == 1 {
			return nil, atrium.Uncertain(errors.New("the connection was lost"))
		}
		return nil, nil
	}}, nil)
	f.wantAll(r, 50, 1)
	f.wantIdle(w)
	if r.requests != 50 {
		t.Errorf("%d requests, want 50", r.requests)
	}
	hours, err := f.WebhookHours(t.Context(), f.tenant, w.ID, 0)
	attempts := int64(0)
	for _, h := range hours {
		attempts += h.Attempts
	}
	if err != nil || attempts != 50 {
		t.Errorf("%d attempts were counted, %v", attempts, err)
	}
}

func TestProcessesShareTheWebhooks(t *testing.T) {
	f := newFixture(t)
	var receivers []*receiver
	for range 8 {
		r := newReceiver(t, nil)
		f.webhook(r.URL, nil)
		receivers = append(receivers, r)
	}
	f.deliver(f.Store, nil)
	f.deliver(f.Store, nil)
	f.post(1, 50, "a.example")
	for _, r := range receivers {
		f.wantAll(r, 50, 1)
		r.mu.Lock()
		if r.requests != 50 {
			t.Errorf("%d requests, want 50", r.requests)
		}
		r.mu.Unlock()
	}
}

func TestChangesOfAWebhookApplyToTheNextEvents(t *testing.T) {
	f, old, r := newFixture(t), newReceiver(t, nil), newReceiver(t, nil)
	w := f.webhook(old.URL, nil)
	d, _ := f.deliver(f.Store, nil)
	f.post(1, 5, "a.example")
	f.wantAll(old, 5, 1)
	c := atrium.CommandLine(f.tenant)
	accept := func(atrium.Webhook) error { return nil }
	if _, err := f.UpdateWebhook(t.Context(), c, w.ID, func(w atrium.Webhook) atrium.WebhookSpec {
		w.URL = r.URL
		return w.WebhookSpec
	}, nil, accept); err != nil {
		t.Fatal(err)
	}
	posted := 5
	until(t, "an event arrives at the new address", func() bool {
		posted++
		f.post(posted, 1, "a.example")
		return len(r.accepted()) > 0
	})
	until(t, "all events arrive", func() bool { return len(old.accepted())+len(r.accepted()) == posted })
	f.wantIdle(w)

	if _, err := f.EnableWebhook(t.Context(), c, w.ID, false, accept); err != nil {
		t.Fatal(err)
	}
	until(t, "the session ends", func() bool { return d.Leases() == 0 })
	arrived := len(r.accepted())
	before, err := f.EventSettings(t.Context(), f.tenant)
	if err != nil {
		t.Fatal(err)
	}
	f.post(posted+1, 5, "a.example")
	until(t, "the events have positions", func() bool {
		settings, err := f.EventSettings(t.Context(), f.tenant)
		return err == nil && settings.Next == before.Next+5
	})
	if n := len(r.accepted()); n != arrived || d.Leases() > 0 {
		t.Errorf("%d events have arrived although the webhook is disabled, and %d webhooks are leased", n-arrived, d.Leases())
	}
	if _, err := f.EnableWebhook(t.Context(), c, w.ID, true, accept); err != nil {
		t.Fatal(err)
	}
	until(t, "the other events arrive", func() bool { return len(r.accepted()) == arrived+5 })
}

// until returns when a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

func TestAnEndpointThatIsGoneGetsNoMore(t *testing.T) {
	f := newFixture(t)
	r := newReceiver(t, func(received, int) int { return http.StatusGone })
	w := f.webhook(r.URL, nil)
	f.post(1, 100, "a.example")
	f.deliver(f.Store, nil)
	for {
		got, err := f.Webhook(t.Context(), f.tenant, w.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Enabled {
			if got.DisabledReason != atrium.DisabledByGone {
				t.Errorf("disabled because of %s", got.DisabledReason)
			}
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests > 2*initialConcurrency+maxConcurrency {
		t.Errorf("%d requests", r.requests)
	}
}

func TestRedeliveriesAndReplaysAreSent(t *testing.T) {
	f, r := newFixture(t), newReceiver(t, nil)
	w := f.webhook(r.URL, nil)
	f.deliver(f.Store, nil)
	f.post(1, 20, "a.example")
	f.wantAll(r, 20, 1)
	f.wantIdle(w)
	c := atrium.CommandLine(f.tenant)
	if _, err := f.Redeliver(t.Context(), c, w.ID, atrium.EventID(r.accepted()[3].id)); err != nil {
		t.Fatal(err)
	}
	wait := func(requests int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if n := len(r.accepted()); n == requests {
				return
			} else if time.Now().After(deadline) || n > requests {
				t.Fatalf("%d requests, want %d", n, requests)
			}
		}
	}
	wait(21)
	replay, _, err := f.CreateReplay(t.Context(), c, atrium.Replay{ID: atrium.NewID[atrium.ReplayID](), WebhookID: w.ID, From: 1, Rate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	wait(41)
	f.wantIdle(w)
	if got, err := f.Replay(t.Context(), f.tenant, w.ID, replay.ID); err != nil || got.FinishedAt == nil || got.Scheduled != 20 {
		t.Errorf("replay %+v, %v", got, err)
	}
	if err := f.TestWebhook(t.Context(), c, w.ID); err != nil {
		t.Fatal(err)
	}
	wait(42)
	if last := r.accepted()[41]; last.Type != string(atrium.EventWebhookTest) {
		t.Errorf("the last event is %+v", last)
	}
}

// Events wait in memory for a slow endpoint. What is erased in the meantime is not sent.
func TestErasedDataThatWaitsIsNotSent(t *testing.T) {
	f := newFixture(t)
	r := newReceiver(t, nil)
	w := f.webhook(r.URL, func(w *atrium.WebhookSpec) { w.RateLimit = 10 })
	f.post(1, 20, "a.example")
	f.deliver(f.Store, nil)
	until(t, "the first event has arrived", func() bool { return len(r.accepted()) > 0 })
	account := atrium.AccountID(r.accepted()[0].Account)
	if done, err := f.EraseAccount(t.Context(), atrium.CommandLine(f.tenant), account, func(atrium.AccountDetail) error { return nil }); err != nil || !done {
		t.Fatalf("%v, %v", done, err)
	}
	time.Sleep(300 * time.Millisecond) // events read before are sent until they are forgotten
	before := len(r.accepted())
	if before == 20 {
		t.Fatal("all events were sent before the erasure")
	}
	f.wantIdle(w)
	for _, e := range r.accepted()[before:] {
		if e.n != 0 {
			t.Errorf("data of entry %d was sent after its erasure", e.n)
		}
	}
}
