// Package receiver records the events that arrive at webhooks in tests.
package receiver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store"
)

// The paths of the webhooks of a Receiver.
const (
	unordered = "/unordered"
	ordered   = "/ordered"
)

// A Receiver is the endpoint of two webhooks, one of which is ordered. It accepts every event, and fails the test if
// one arrives again with another body, or out of order at the ordered webhook. It is safe for concurrent use.
type Receiver struct {
	server *httptest.Server
	t      testing.TB

	mu       sync.Mutex
	requests int                  // guarded by mu
	repeated int                  // requests with an event that had arrived; guarded by mu
	webhooks map[string]*arrivals // by path; guarded by mu
}

// arrivals are the events that have arrived at a webhook.
type arrivals struct {
	entries map[atrium.EntryID]bool
	bodies  map[string]string          // by event
	last    map[atrium.AccountID]int64 // position of the last event that arrived for the first time
}

// New starts a Receiver, which stops when the test ends.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t, webhooks: map[string]*arrivals{}}
	for _, path := range []string{unordered, ordered} {
		r.webhooks[path] = &arrivals{map[atrium.EntryID]bool{}, map[string]string{}, map[atrium.AccountID]int64{}}
	}
	r.server = httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(r.server.Close)
	return r
}

// KeyFile creates a file with a key that encrypts the secrets of webhooks, and returns its name.
func KeyFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if _, _, err := secrets.AddKey(path, false); err != nil {
		t.Fatal(err)
	}
	return path
}

// Subscribe stores the webhooks of a Receiver for the new entries of a tenant. It opens the database, and closes it again.
func (r *Receiver) Subscribe(database, keyFile string, tenant atrium.TenantID) {
	r.t.Helper()
	keys, err := secrets.Load(keyFile)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := store.Open(r.t.Context(), database, store.Options{Unprepared: true})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
	}()
	s.UseSecrets(keys)
	if _, err := s.MissingSecretKeys(r.t.Context()); err != nil { // records the key
		r.t.Fatal(err)
	}
	for path := range r.webhooks {
		w := atrium.Webhook{ID: atrium.NewID[atrium.WebhookID](), WebhookSpec: atrium.WebhookSpec{
			URL: r.server.URL + path, Format: atrium.FormatStandard, EventTypes: []atrium.EventType{atrium.EventEntryCreated}, Ordered: path == ordered,
		}}
		if _, _, err := s.CreateWebhook(r.t.Context(), atrium.CommandLine(tenant), w, []atrium.WebhookSecret{
			{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretSigning, Value: []byte("0123456789abcdef0123456789abcdef")},
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *Receiver) receive(_ http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the sender was killed
	}
	var event struct {
		ID       string
		Position int64
		Data     struct {
			AccountLogID atrium.EntryID
			AccountID    atrium.AccountID
		}
	}
	if err := json.Unmarshal(body, &event); err != nil || event.ID != request.Header.Get("webhook-id") {
		r.t.Errorf("received %s as %q: %v", body, request.Header.Get("webhook-id"), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.webhooks[request.URL.Path]
	r.requests++
	if was, again := of.bodies[event.ID]; again {
		r.repeated++
		if was != string(body) {
			r.t.Errorf("%s arrived as %s and as %s", event.ID, was, body)
		}
		return
	}
	of.bodies[event.ID], of.entries[event.Data.AccountLogID] = string(body), true
	if last := of.last[event.Data.AccountID]; request.URL.Path == ordered && event.Position < last {
		r.t.Errorf("position %d of %s arrived after %d", event.Position, event.Data.AccountID, last)
	}
	of.last[event.Data.AccountID] = event.Position
}

// Requests returns how many requests have arrived.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// Repeated returns how many requests have brought an event again.
func (r *Receiver) Repeated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.repeated
}

// Arrived returns the entries whose events have arrived at the webhooks, by the path of the webhook.
func (r *Receiver) Arrived() map[string][]atrium.EntryID {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string][]atrium.EntryID{}
	for path, of := range r.webhooks {
		for entry := range of.entries {
			all[path] = append(all[path], entry)
		}
	}
	return all
}

// Wait waits until the events of all entries have arrived at both webhooks, or none has arrived for a time, and returns how
// many have not.
func (r *Receiver) Wait(entries map[atrium.EntryID]bool, patience time.Duration) (missing int) {
	last, limit := 0, time.Now().Add(patience)
	for {
		if n := r.Requests(); n > last {
			last, limit = n, time.Now().Add(patience)
		}
		if missing = r.missing(entries); missing == 0 || time.Now().After(limit) {
			return missing
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *Receiver) missing(entries map[atrium.EntryID]bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for entry := range entries {
		for _, of := range r.webhooks {
			if !of.entries[entry] {
				n++
			}
		}
	}
	return n
}
