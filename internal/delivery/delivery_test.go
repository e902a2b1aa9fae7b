package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/resource"
	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/telemetry"
	"atrium/internal/webhook"
)

// A fixture is a store with a tenant, and a process that gives positions to events.
type fixture struct {
	*store.Store
	t      *testing.T
	tenant atrium.TenantID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(dir, "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.FinishUpgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "keys")
	if _, _, err := secrets.AddKey(path, false); err != nil {
		t.Fatal(err)
	}
	keys, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	s.UseSecrets(keys)
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.RunSequencer(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("sequence: %v", err)
			}
		}
	})
	return &fixture{s, t, tenant.ID}
}

// webhook stores a webhook with a receiver.
func (f *fixture) webhook(url string, change func(*atrium.WebhookSpec)) atrium.Webhook {
	f.t.Helper()
	w := atrium.Webhook{ID: atrium.NewID[atrium.WebhookID](), WebhookSpec: atrium.WebhookSpec{
		URL: url, Format: atrium.FormatStandard, EventTypes: []atrium.EventType{atrium.EventEntryCreated},
	}}
	if change != nil {
		change(&w.WebhookSpec)
	}
	w, _, err := f.CreateWebhook(f.t.Context(), atrium.CommandLine(f.tenant), w, []atrium.WebhookSecret{
		{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretSigning, Value: webhook.NewSecret()},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// post stores n entries of each of some accounts, which count up from the last ones.
func (f *fixture) post(first, n int, domains ...string) {
	f.t.Helper()
	var drafts []*atrium.Draft
	for i := range n {
		for _, domain := range domains {
			d, err := canonical.Draft(f.tenant, atrium.Submission{
				Source: "test", Type: "number", Payload: fmt.Appendf(nil, `{"n":%d}`, first+i), Claim: atrium.Claim{Domain: domain}, IdempotencyKey: fmt.Sprint(domain, first+i),
			})
			if err != nil {
				f.t.Fatal(err)
			}
			d.ID = atrium.NewID[atrium.EntryID]()
			drafts = append(drafts, d)
		}
	}
	for chunk := range slices.Chunk(drafts, 100) {
		outcomes, err := f.Append(f.t.Context(), chunk)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, o := range outcomes {
			if o.Err != nil {
				f.t.Fatal(o.Err)
			}
		}
	}
}

// deliver runs a Dispatcher until the end of the test. crash ends it and its requests in flight.
func (f *fixture) deliver(s Store, change func(*Dispatcher)) (d *Dispatcher, crash func()) {
	f.t.Helper()
	sender := webhook.NewSender(webhook.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 5 * time.Second})
	d = New(Config{
		Store: s, Sender: sender, Encode: resource.Event, Log: telemetry.NewLogger(io.Discard, "text", "error"), MaxRequests: 64,
	})
	d.timing.poll, d.timing.minPause, d.timing.maxPause, d.timing.linger = 50*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond, 30*time.Millisecond
	d.timing.flush, d.timing.storeRetry, d.timing.forget = 5*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	d.timing.next = func(attempts int, now time.Time, _ time.Duration) (time.Time, bool) {
		return now.Add(time.Duration(attempts) * 10 * time.Millisecond), attempts < webhook.MaxAttempts
	}
	if change != nil {
		change(d)
	}
	ctx, end := context.WithCancel(context.Background())
	drain, kill := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx, drain) })
	ended := sync.OnceFunc(func() {
		running.Wait()
		kill()
		sender.Close()
	})
	f.t.Cleanup(func() { end(); ended() })
	return d, func() { end(); kill(); ended() }
}

// A receiver records the events that it gets.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests int                              // guarded by mu
	got      []received                       // that were accepted; guarded by mu
	status   func(received, int) (status int) // given the number of requests of the event so far; guarded by mu
	seen     map[string]int                   // requests, by event; guarded by mu
	bodies   map[string]string                // by event; guarded by mu
	active   map[string]int                   // in flight, by account; guarded by mu
	most     int                              // in flight of one account; guarded by mu
}

type received struct {
	id      string
	Account string
	n       int
	Type    string
}

func newReceiver(t *testing.T, status func(r received, requests int) int) *receiver {
	t.Helper()
	r := &receiver{status: status, seen: map[string]int{}, bodies: map[string]string{}, active: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		var event struct {
			ID   string
			Type string
			Data struct {
				AccountID string
				Payload   struct{ N int }
			}
		}
		if err := json.Unmarshal(body, &event); err != nil || event.ID != request.Header.Get("webhook-id") {
			t.Errorf("event %s with id %s: %v", body, request.Header.Get("webhook-id"), err)
		}
		e := received{event.ID, event.Data.AccountID, event.Data.Payload.N, event.Type}
		r.mu.Lock()
		r.requests++
		r.seen[e.id]++
		if was, ok := r.bodies[e.id]; ok && was != string(body) {
			t.Errorf("the body of %s was %s and is %s", e.id, was, body)
		}
		r.bodies[e.id] = string(body)
		r.active[e.Account]++
		r.most = max(r.most, r.active[e.Account])
		status := http.StatusOK
		if r.status != nil {
			status = r.status(e, r.seen[e.id])
		}
		r.mu.Unlock()
		r.mu.Lock()
		r.active[e.Account]--
		if status != 0 && status < 300 {
			r.got = append(r.got, e)
		}
		r.mu.Unlock()
		if status == 0 { // no response
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
	}))
	r.Config.ErrorLog = nil
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) accepted() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// wantAll waits until all events have arrived: n of each of the accounts.
func (f *fixture) wantAll(r *receiver, n, accounts int) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		events := map[string]bool{}
		numbers := map[string]map[int]bool{}
		for _, e := range r.accepted() {
			events[e.id] = true
			if numbers[e.Account] == nil {
				numbers[e.Account] = map[int]bool{}
			}
			numbers[e.Account][e.n] = true
		}
		total := 0
		for _, of := range numbers {
			total += len(of)
		}
		if len(events) == n*accounts && total == n*accounts && len(numbers) == accounts {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d events of %d accounts have arrived, want %d of each of %d", len(events), len(numbers), n, accounts)
		}
	}
}

// wantIdle waits until all deliveries of a webhook are stored and it is idle, and returns it.
func (f *fixture) wantIdle(w atrium.Webhook) atrium.Webhook {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !f.idle(w); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("the webhook has work for a minute")
		}
	}
	got, err := f.Webhook(f.t.Context(), f.tenant, w.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// idle reports whether a webhook has reached the end of the feed and no delivery is pending.
func (f *fixture) idle(w atrium.Webhook) bool {
	f.t.Helper()
	got, err := f.Webhook(f.t.Context(), f.tenant, w.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	settings, err := f.EventSettings(f.t.Context(), f.tenant)
	if err != nil {
		f.t.Fatal(err)
	}
	pending, _, err := f.Deliveries(f.t.Context(), f.tenant, w.ID, atrium.DeliveryFilter{State: atrium.DeliveryPending}, nil, 10)
	if err != nil {
		f.t.Fatal(err)
	}
	return got.Cursor == settings.Next-1 && len(pending) == 0
}

// wantOrder fails the test unless the events of each account were accepted in order.
func (r *receiver) wantOrder(t *testing.T) {
	t.Helper()
	last := map[string]int{}
	for _, e := range r.accepted() {
		if e.n < last[e.Account] {
			t.Errorf("number %d of %s was accepted after %d", e.n, e.Account, last[e.Account])
		}
		last[e.Account] = e.n
	}
}
