package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/resource"
	"atrium/internal/store"
	"atrium/internal/webhook"
)

func TestEventsThatAreNotSelectedDelayNoOther(t *testing.T) {
	f, r := newFixture(t), newReceiver(t, nil)
	f.webhook(r.URL, func(s *atrium.WebhookSpec) { s.Filter = "data.payload.n == 3000" })
	f.post(1, 3000, "a.example")
	until(t, "the events have positions", func() bool {
		settings, err := f.EventSettings(t.Context(), f.tenant)
		return err == nil && settings.Next > 3000
	})
	f.deliver(f.Store, func(d *Dispatcher) { d.timing.poll = time.Hour }) // a session that waits for a poll does not read on
	until(t, "the last event arrives", func() bool { return len(r.accepted()) == 1 })
}

func TestWebhooksOfATenantTakeTurns(t *testing.T) {
	f := newFixture(t)
	var mu sync.Mutex
	reached := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reached[r.URL.Path] = true
	}))
	t.Cleanup(server.Close)
	const n = maxTenantSessions + 4
	for i := range n {
		f.webhook(fmt.Sprint(server.URL, "/", i), nil)
	}
	f.post(1, 1, "a.example")
	f.deliver(f.Store, func(d *Dispatcher) {
		d.timing.linger, d.timing.slice = time.Hour, 100*time.Millisecond // no session ends by itself
	})
	until(t, "all webhooks get the event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(reached) == n
	})
}

func TestSelectionIsHeavyWorkOfItsTenant(t *testing.T) {
	f, r := newFixture(t), newReceiver(t, nil)
	f.webhook(r.URL, nil)
	f.post(1, 5, "a.example")
	var refused, held, encoded, outside atomic.Int64
	f.deliver(f.Store, func(d *Dispatcher) {
		d.config.AcquireHeavy = func(_ context.Context, tenant atrium.TenantID) (func(), error) {
			if tenant != f.tenant {
				t.Errorf("heavy work of %s", tenant)
			}
			if refused.Add(1) <= 3 {
				return nil, errors.New("busy")
			}
			held.Add(1)
			return func() { held.Add(-1) }, nil
		}
		d.config.Encode = func(e *atrium.Event) ([]byte, error) {
			encoded.Add(1)
			if held.Load() == 0 {
				outside.Add(1)
			}
			return resource.Event(e)
		}
	})
	f.wantAll(r, 5, 1)
	if encoded.Load() == 0 || outside.Load() > 0 {
		t.Errorf("%d of %d events were encoded outside of heavy work", outside.Load(), encoded.Load())
	}
}

func TestSlowEndpointsOfSeveralTenantsLeaveRequestsForOthers(t *testing.T) {
	f, r := newFixture(t), newReceiver(t, nil)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	for range 6 {
		other, _, err := f.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Other")
		if err != nil {
			t.Fatal(err)
		}
		g := &fixture{f.Store, t, other.ID}
		for range 4 {
			g.webhook(slow.URL, nil)
		}
		g.post(1, initialConcurrency, "a.example")
	}
	f.webhook(r.URL, nil)
	sender := webhook.NewSender(webhook.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: time.Hour})
	d, crash := f.deliver(f.Store, func(d *Dispatcher) { d.config.Sender = sender })
	defer sender.Close()
	defer crash()
	until(t, "most requests are in flight", func() bool { return d.InFlight() >= 56 })
	f.post(1, 5, "a.example")
	f.wantAll(r, 5, 1)
}

func TestRequestsOfATenantBeginAtARate(t *testing.T) {
	var d tenantDeliveries
	const interval = 10 * time.Millisecond
	now := time.Now()
	for n := range 2 * maxBurst {
		if wait, want := d.reserveStart(now, interval, bytesPerRequest-1), max(0, time.Duration(n+1-maxBurst)*interval); max(0, wait) != want {
			t.Fatalf("request %d waits for %v, want %v", n, wait, want)
		}
	}
	if wait := d.reserveStart(now.Add(time.Hour), interval, 0); wait > 0 {
		t.Errorf("after an hour, a request waits for %v", wait)
	}
	if wait := d.reserveStart(now.Add(2*time.Hour), interval, (maxBurst+9)*bytesPerRequest); wait != 10*interval {
		t.Errorf("a request with a large body waits for %v", wait)
	}
	for n, a := range map[int]webhook.Attempt{0: {Received: freeReceived + receivedPerRequest - 1}, 10: {Received: freeReceived + 10*receivedPerRequest}, handshakeRequests: {Received: 1, Handshake: true}} {
		if got := moreRequests(&a); got != n {
			t.Errorf("%+v counts as %d more requests, want %d", a, got, n)
		}
	}
	d.charge(moreRequests(&webhook.Attempt{Handshake: true}), interval)
	if wait := d.reserveStart(now.Add(2*time.Hour), interval, 0); wait != (10+handshakeRequests+1)*interval {
		t.Errorf("after a TLS handshake, a request waits for %v", wait)
	}
}

// A tenant whose sessions end, also because it deletes its webhooks, has its debt when the next ones begin.
func TestIdleTenantKeepsItsTokenBucket(t *testing.T) {
	d := New(Config{Store: &dueStore{}, MaxRequests: 1})
	due := store.DueWebhook{TenantID: atrium.NewID[atrium.TenantID](), WebhookID: atrium.NewID[atrium.WebhookID]()}
	d.reserve(due)
	d.tenants[due.TenantID].charge(maxBurst+int(time.Hour/requestInterval), requestInterval)
	d.unreserve(due)
	if d.othersActive(atrium.NewID[atrium.TenantID]()) {
		t.Error("a tenant with nothing but a debt is active")
	}
	d.reserve(due)
	if wait := d.tenants[due.TenantID].reserveStart(time.Now(), requestInterval, 0); wait < 59*time.Minute {
		t.Errorf("the debt is forgotten: a request waits for %v", wait)
	}
	d.tenants[due.TenantID].next = time.Now().Add(-time.Hour)
	if d.unreserve(due); len(d.tenants) != 0 {
		t.Error("a tenant without sessions or debt is not forgotten")
	}
}

// dueStore has webhooks that are due until they are leased. Their sessions do nothing until the process ends.
type dueStore struct {
	Store
	due    []store.DueWebhook
	leased []store.DueWebhook
}

func (s *dueStore) DueWebhooks(_ context.Context, limit int) ([]store.DueWebhook, error) {
	return slices.Clone(s.due[:min(limit, len(s.due))]), nil
}

func (s *dueStore) ClaimWebhook(_ context.Context, due store.DueWebhook, _ []byte, _ time.Duration) (store.Lease, bool, error) {
	s.leased = append(s.leased, due)
	s.due = slices.DeleteFunc(s.due, func(w store.DueWebhook) bool { return w == due })
	return store.Lease{TenantID: due.TenantID, WebhookID: due.WebhookID}, true, nil
}

func (s *dueStore) LeasedWebhook(ctx context.Context, _ store.Lease) (store.LeasedWebhook, error) {
	<-ctx.Done()
	return store.LeasedWebhook{}, ctx.Err()
}

func TestManyWebhooksOfATenantDelayNoOther(t *testing.T) {
	many, other := atrium.NewID[atrium.TenantID](), store.DueWebhook{TenantID: atrium.NewID[atrium.TenantID](), WebhookID: atrium.NewID[atrium.WebhookID]()}
	s := &dueStore{}
	for range maxSessions + 10 {
		s.due = append(s.due, store.DueWebhook{TenantID: many, WebhookID: atrium.NewID[atrium.WebhookID]()})
	}
	s.due = append(s.due, other) // has waited for the shortest time
	d := New(Config{Store: s, MaxRequests: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if complete, err := d.claim(ctx, ctx, &running); complete || err != nil {
		t.Fatalf("the first pass is complete: %v, %v", complete, err)
	}
	if !slices.Contains(s.leased, other) {
		t.Errorf("the first %d leases have none of the other tenant", len(s.leased))
	}
	for complete := false; !complete; {
		var err error
		if complete, err = d.claim(ctx, ctx, &running); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Leases(); n != maxTenantSessions+1 {
		t.Errorf("%d leases", n)
	}
	if d.crowded.Load() || !d.tenants[many].crowded.Load() || d.tenants[other.TenantID].crowded.Load() {
		t.Error("sessions of the other tenant end for those that wait, which cannot have their places")
	}
}
