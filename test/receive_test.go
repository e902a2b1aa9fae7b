package test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
)

// receiver creates a receiver of a tenant.
func (s *service) receiver(t *testing.T, tn tenant, spec atrium.ReceiverSpec, secret string) atrium.ReceiverID {
	t.Helper()
	spec.Name, spec.Source = "a receiver", "shop"
	made, _, err := s.store.CreateReceiver(t.Context(), atrium.CommandLine(tn.id), atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID](), ReceiverSpec: spec},
		atrium.ReceiverSecret{ID: atrium.NewID[atrium.ReceiverSecretID](), Value: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// signed returns a request of a provider, signed at a time.
func signed(p atrium.ReceiverProvider, id atrium.ReceiverID, secret, body string, at time.Time) request {
	mac := func(content string) []byte {
		h := hmac.New(sha256.New, []byte(secret))
		h.Write([]byte(content))
		return h.Sum(nil)
	}
	legacy := hmac.New(sha1.New, []byte(secret))
	legacy.Write([]byte(body))
	seconds := strconv.FormatInt(at.Unix(), 10)
	r := request{method: http.MethodPost, target: "/in/" + string(id), body: []byte(body), header: []string{"Content-Type: application/json"}}
	switch p {
	case atrium.ProviderGitHub:
		r.header = append(r.header, "X-Hub-Signature-256: sha256="+hex.EncodeToString(mac(body)), "X-GitHub-Event: push", "X-GitHub-Delivery: 1")
	case atrium.ProviderStripe:
		r.header = append(r.header, "Stripe-Signature: t="+seconds+",v1="+hex.EncodeToString(mac(seconds+"."+body)))
	case atrium.ProviderShopify:
		r.header = append(r.header, "X-Shopify-Hmac-Sha256: "+base64.StdEncoding.EncodeToString(mac(body)), "X-Shopify-Topic: orders/create", "X-Shopify-Webhook-Id: 1")
	case atrium.ProviderSegment:
		r.header = append(r.header, "X-Signature: "+hex.EncodeToString(legacy.Sum(nil)))
	}
	return r
}

func TestConcurrentDeliveriesOfOneEventMakeOneEntry(t *testing.T) {
	inEveryPace(t, func(t *testing.T, s *service, pace string) {
		const secret = "a secret of the test"
		id := s.receiver(t, s.north, atrium.ReceiverSpec{Provider: atrium.ProviderStripe}, secret)
		responses := s.atOnce(t, pace, 10, func(i int) request {
			return signed(atrium.ProviderStripe, id, secret, fmt.Sprintf(`{"id":"evt_1","type":"invoice.paid","attempt":%d}`, i), time.Now())
		})
		replayed := 0
		for _, a := range responses {
			if a.status != http.StatusOK || !strings.Contains(string(a.body), `"entries":1`) {
				t.Errorf("%s", a)
			}
			if a.header.Get("Idempotency-Replayed") != "" {
				replayed++
			}
		}
		if replayed != 9 {
			t.Errorf("%d responses are replays", replayed)
		}
		if n := s.count(t, s.north, `"idempotencyKey":"in:`+string(id)+`:evt_1"`); n != 1 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestUnverifiedDeliveriesHaveOneResponseAndStoreNothing(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		const secret = "a secret of the test"
		const body = `{"id":"evt_1","type":"x","canary":true}`
		var first []byte
		refused := func(name string, r request) {
			t.Helper()
			r.header = append(r.header, "X-Request-Id: same")
			a := s.send(t, r)
			if a.status != http.StatusUnauthorized {
				t.Errorf("%s: %s", name, a)
			}
			if first == nil {
				first = a.body
			}
			if !bytes.Equal(a.body, first) {
				t.Errorf("%s: %s, want %s", name, a.body, first)
			}
		}
		for _, p := range []atrium.ReceiverProvider{atrium.ProviderGitHub, atrium.ProviderStripe, atrium.ProviderShopify, atrium.ProviderSegment} {
			id := s.receiver(t, s.north, atrium.ReceiverSpec{Provider: p}, secret)
			altered := signed(p, id, secret, body, time.Now())
			altered.body = bytes.Replace(altered.body, []byte("true"), []byte("null"), 1)
			refused(string(p)+" altered", altered)
			refused(string(p)+" with another secret", signed(p, id, secret+"x", body, time.Now()))
			missing := signed(p, id, secret, body, time.Now())
			missing.header = missing.header[:1]
			refused(string(p)+" without headers", missing)
			if p == atrium.ProviderStripe {
				refused("old", signed(p, id, secret, body, time.Now().Add(-10*time.Minute)))
			}
			refused("unknown", signed(p, "receiver_zzzzzzzzzzzzzzzzzzzzzzzzzz", secret, body, time.Now()))
			disabled := s.receiver(t, s.north, atrium.ReceiverSpec{Provider: p}, secret)
			if _, err := s.store.EnableReceiver(t.Context(), atrium.CommandLine(s.north.id), disabled, false, func(atrium.Receiver) error { return nil }); err != nil {
				t.Fatal(err)
			}
			refused("disabled", signed(p, disabled, secret, body, time.Now()))
		}
		if n := s.count(t, s.north, "canary"); n != 0 {
			t.Errorf("%d lines of the export have it", n)
		}
	})
}

func TestVerifiedDeliveryThatCannotBeMappedIsInQuarantine(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *service) {
		const secret = "a secret of the test"
		id := s.receiver(t, s.north, atrium.ReceiverSpec{Provider: atrium.ProviderGitHub, Mapping: atrium.Mapping{Name: "body.name"}}, secret)
		const body = "{\"a\":1,\"a\":2} "
		if a := s.send(t, signed(atrium.ProviderGitHub, id, secret, body, time.Now())); a.status != http.StatusAccepted {
			t.Fatal(a)
		}
		found, _, err := s.store.QuarantinedDeliveries(t.Context(), s.north.id, id, atrium.QuarantineFilter{}, nil, 10)
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		d, err := s.store.QuarantinedDelivery(t.Context(), s.north.id, id, found[0].ID)
		if err != nil || string(d.Body) != body || !strings.Contains(d.Fault, "duplicates") {
			t.Errorf("%+v, %v", d, err)
		}
		for _, h := range d.Headers {
			if strings.Contains(h.Name, "signature") {
				t.Errorf("the signature is stored: %+v", h)
			}
		}
	})
}
