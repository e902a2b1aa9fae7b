package crash

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/test/receiver"
)

// senderCount is the number of systems that send to a receiver at once.
const senderCount = 8

// A sender sends deliveries to a receiver as providers do: each again and again until it is accepted.
type sender struct {
	name    string
	made    int
	waiting string         // a delivery without a response of success, "" for none
	done    map[string]int // status of accepted deliveries, by identifier
}

// next returns the identifier of the delivery that is sent next.
func (s *sender) next() string {
	if s.waiting == "" {
		s.made++
		s.waiting = fmt.Sprintf("%s-%d", s.name, s.made)
	}
	return s.waiting
}

// mapped reports whether a delivery can be mapped.
func mapped(id string) bool { return !strings.HasSuffix(id, "2") }

// send sends one delivery.
func (s *sender) send(ctx context.Context, client *http.Client, address string) {
	id := s.next()
	body := fmt.Sprintf(`{"id":%q,"domain":"%s.example"}`, id, s.name)
	if mapped(id) {
		body = fmt.Sprintf(`{"id":%q,"domain":"%s.example","type":"deal.won"}`, id, s.name)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Token", receiverToken)
	response, err := client.Do(r)
	if err != nil {
		return // the server was killed, or starts
	}
	_ = response.Body.Close()
	if response.StatusCode/100 == 2 {
		s.done[id], s.waiting = response.StatusCode, ""
	}
}

const receiverToken = "a-token-of-a-test"

// addReceiver stores a receiver of a tenant and returns its path.
func (db *database) addReceiver(t *testing.T, keyFile string, tenant atrium.TenantID) (atrium.ReceiverID, string) {
	t.Helper()
	keys, err := secrets.Load(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), db.url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	s.UseSecrets(keys)
	if _, err := s.MissingSecretKeys(t.Context()); err != nil { // records the key
		t.Fatal(err)
	}
	made, _, err := s.CreateReceiver(t.Context(), atrium.CommandLine(tenant), atrium.Receiver{
		ID: atrium.NewID[atrium.ReceiverID](), ReceiverSpec: atrium.ReceiverSpec{
			Name: "Shop", Provider: atrium.ProviderToken, Source: "shop", Verification: atrium.Verification{Header: "X-Token"},
			Mapping: atrium.Mapping{Type: "body.type", Domain: "body.domain", EventID: "body.id"},
		},
	}, atrium.ReceiverSecret{ID: atrium.NewID[atrium.ReceiverSecretID](), Value: []byte(receiverToken)})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID, "/in/" + string(made.ID)
}

// Kills the server repeatedly while other systems send to a receiver. Each accepted delivery must be stored: as exactly one
// entry, or in quarantine. Each other one must be accepted when it is sent again.
func TestKillLosesAndDoublesNoDelivery(t *testing.T) {
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killWhileReceiving(t, newDatabase(t))
		})
	}
}

func killWhileReceiving(t *testing.T, db *database) {
	rng, keys, tenant := random(t), receiver.KeyFile(t), db.tenants[0]
	id, path := db.addReceiver(t, keys, tenant.id)
	senders := make([]*sender, senderCount)
	for i := range senders {
		senders[i] = &sender{name: fmt.Sprintf("s%d", i), done: map[string]int{}}
	}
	client := newHTTPClient(t)
	for round := range *kills + 1 {
		s := start(t, db.url, "--secrets-key-file", keys)
		ctx, cancel := context.WithTimeout(t.Context(), arrivalLimit)
		last := round == *kills
		var running sync.WaitGroup
		for _, sender := range senders {
			running.Go(func() {
				for n := 0; ctx.Err() == nil && (!last || sender.waiting != "" || n == 0); n++ {
					sender.send(ctx, client, s.base+path)
				}
			})
		}
		if last {
			running.Wait()
			cancel()
			s.stop()
			break
		}
		time.Sleep(time.Duration(200+rng.IntN(400)) * time.Millisecond)
		s.kill()
		cancel()
		running.Wait()
		s.checkLog()
	}
	db.checkDeliveries(t, senders, tenant, id)
}

// checkDeliveries checks that what was accepted is stored.
func (db *database) checkDeliveries(t *testing.T, senders []*sender, tenant *tenant, id atrium.ReceiverID) {
	t.Helper()
	stored := map[string]int{}
	for _, e := range db.read(t)[tenant].entries {
		stored[e.IdempotencyKey]++
	}
	quarantined := db.quarantined(t, tenant.id, id)
	accepted, inQuarantine := 0, 0
	for _, sender := range senders {
		for delivery, status := range sender.done {
			accepted++
			n := stored[fmt.Sprintf("in:%s:%s", id, delivery)]
			switch {
			case mapped(delivery) && (status != http.StatusOK || n != 1):
				t.Errorf("%s was accepted with the status %d, and is stored %d times", delivery, status, n)
			case !mapped(delivery) && (status != http.StatusAccepted || n != 0 || !quarantined[delivery]):
				t.Errorf("%s was accepted with the status %d, is stored %d times, and in quarantine: %v", delivery, status, n, quarantined[delivery])
			case !mapped(delivery):
				inQuarantine++
			}
		}
		if sender.waiting != "" {
			t.Errorf("%s was not accepted", sender.waiting)
		}
	}
	if accepted == 0 || inQuarantine == 0 {
		t.Errorf("%d deliveries were accepted, %d of them are in quarantine", accepted, inQuarantine)
	}
	t.Logf("killed %d times: accepted %d deliveries, %d of them are in quarantine", *kills, accepted, inQuarantine)
}

// quarantined returns the identifiers of the deliveries in quarantine.
func (db *database) quarantined(t *testing.T, tenant atrium.TenantID, receiver atrium.ReceiverID) map[string]bool {
	t.Helper()
	s, err := store.Open(t.Context(), db.url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ids := map[string]bool{}
	var after *atrium.Position
	for more := true; more; {
		var found []atrium.QuarantinedDelivery
		if found, more, err = s.QuarantinedDeliveries(t.Context(), tenant, receiver, atrium.QuarantineFilter{}, after, 100); err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			whole, err := s.QuarantinedDelivery(t.Context(), tenant, receiver, d.ID)
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(whole.Body), `"id":"`)
			delivery, _, _ := strings.Cut(rest, `"`)
			ids[delivery] = true
			after = atrium.PositionAt(d.ReceivedAt, d.ID)
		}
	}
	return ids
}
