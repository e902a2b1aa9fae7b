package receive_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/mapping"
	"atrium/internal/provider"
	"atrium/internal/receive"
	"atrium/internal/rest"
	"atrium/internal/telemetry"
)

const (
	id     = atrium.ReceiverID("receiver_00000000000000000000000001")
	tenant = atrium.TenantID("tenant_00000000000000000000000001")
	secret = "a secret of the test"
)

// A fake is the store of one receiver, and its quarantine and writer. Its fields are guarded by mu, except for receiver.
type fake struct {
	receiver atrium.Receiver
	secrets  []atrium.ReceiverSecret
	lookups  atomic.Int64
	anyID    bool // the receiver is found by any identifier

	mu          sync.Mutex
	entries     map[string]*atrium.Draft // by key
	quarantined []atrium.QuarantinedDelivery
	fails       func(*atrium.Draft) error
	full        error // of the quarantine
	observed    []string
	exchange    telemetry.Exchange // of the last request
}

func (f *fake) FindReceiver(_ context.Context, given atrium.ReceiverID) (atrium.Receiver, []atrium.ReceiverSecret, error) {
	f.lookups.Add(1)
	found := f.receiver
	if f.anyID {
		found.ID = given
	}
	if given != found.ID {
		return atrium.Receiver{}, nil, atrium.NotFound()
	}
	return found, f.secrets, nil
}

func (f *fake) Quarantine(_ context.Context, d atrium.QuarantinedDelivery) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full == nil {
		f.quarantined = append(f.quarantined, d)
	}
	return f.full
}

func (f *fake) Submit(_ context.Context, d *atrium.Draft) (r atrium.Receipt, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fails != nil {
		if err := f.fails(d); err != nil {
			return r, err
		}
	}
	if f.entries == nil {
		f.entries = map[string]*atrium.Draft{}
	}
	_, r.Replayed = f.entries[d.IdempotencyKey]
	f.entries[d.IdempotencyKey] = d
	r.EntryID, r.AccountID = atrium.NewID[atrium.EntryID](), atrium.NewID[atrium.AccountID]()
	return r, nil
}

// newFake returns a fake with a receiver of a provider, and its handler.
func newFake(p atrium.ReceiverProvider, m atrium.Mapping) (*fake, http.Handler) {
	f := &fake{secrets: []atrium.ReceiverSecret{{Value: []byte(secret)}}}
	f.receiver = atrium.Receiver{ID: id, TenantID: tenant, Enabled: true, ReceiverSpec: atrium.ReceiverSpec{Provider: p, Source: "github", Mapping: m}}
	return f, f.handler(rest.Limits{})
}

func (f *fake) handler(limits rest.Limits) http.Handler {
	api := &rest.API{Log: slog.New(slog.DiscardHandler), Limits: limits, MaxBody: 64 << 10, Observe: func(_ context.Context, x *telemetry.Exchange) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.exchange = *x
	}}
	h := &receive.Handler{
		API: api, Receivers: receive.NewReceivers(f), Mappings: mapping.NewCache(), Logs: f, Quarantine: f, PublicURL: "https://atrium.example", Now: time.Now,
		Observe: func(provider, outcome string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.observed = append(f.observed, provider+" "+outcome)
		},
	}
	return api.Handler(nil, h.Handlers())
}

func sign(key, content string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(content))
	return mac.Sum(nil)
}

// github returns a signed request of GitHub.
func github(body, event, delivery string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/in/"+string(id), strings.NewReader(body))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sign(secret, body)))
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", delivery)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func want(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), body) {
		t.Errorf("%d %s, want %d %s", w.Code, w.Body, status, body)
	}
}

func TestVerifiedDeliveryBecomesAnEntry(t *testing.T) {
	f, h := newFake(atrium.ProviderGitHub, atrium.Mapping{})
	const body = ` {"action" : "opened", "organization":{"login":"octo"}} `
	want(t, send(h, github(body, "issues", "d-1")), http.StatusOK, `{"entries":1,"replayed":0,"filtered":0,"quarantined":false}`)
	d := f.entries["in:"+string(id)+":d-1"]
	if d == nil || string(d.Payload) != strings.TrimSpace(body) || d.Type != "issues.opened" || d.Source != "github" || d.TenantID != tenant || d.SubmittedBy != string(id) || d.RequestID == "" || len(d.Fingerprint) == 0 || d.Fingerprint[0] != 2 {
		t.Errorf("%+v", d)
	}
	w := send(h, github(`{"action":"closed"}`, "issues", "d-1"))
	want(t, w, http.StatusOK, `"replayed":1`)
	if w.Header().Get("Idempotency-Replayed") != "true" {
		t.Error("the response is not marked as a replay")
	}
	if got := fmt.Sprint(f.observed); got != "[github stored github replayed]" {
		t.Error(got)
	}
	if f.exchange.TenantID != tenant || f.exchange.Receiver != id || f.exchange.EntryID == "" {
		t.Errorf("%+v", f.exchange)
	}
}

func TestRequestsThatAreNotVerifiedHaveTheSameResponse(t *testing.T) {
	const body = `{"a":1}`
	f, h := newFake(atrium.ProviderGitHub, atrium.Mapping{})
	disabled, hd := newFake(atrium.ProviderGitHub, atrium.Mapping{})
	disabled.receiver.Enabled = false
	stripe, hs := newFake(atrium.ProviderStripe, atrium.Mapping{})
	old := func() *http.Request {
		r := github(body, "push", "d")
		timestamp := strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)
		r.Header.Set("Stripe-Signature", "t="+timestamp+",v1="+hex.EncodeToString(sign(secret, timestamp+"."+body)))
		return r
	}
	change := func(f func(r *http.Request)) *http.Request { r := github(body, "push", "d"); f(r); return r }
	other := func(r *http.Request, target string) *http.Request {
		made := httptest.NewRequest(r.Method, target, strings.NewReader(body))
		made.Header = r.Header
		return made
	}
	bodies := map[string]bool{}
	for name, c := range map[string]struct {
		handler http.Handler
		request *http.Request
		detail  string // for operators; "" if no tenant has it
	}{
		"altered body":   {h, other(github(body+" ", "push", "d"), "/in/"+string(id)), "Receiver " + string(id) + ": the signature does not match"},
		"no signature":   {h, change(func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }), "the header x-hub-signature-256 is missing"},
		"two signatures": {h, change(func(r *http.Request) { r.Header.Add("X-Hub-Signature-256", "sha256=00") }), "is repeated"},
		"wrong secret": {h, change(func(r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sign("b", body)))
		}), "the signature does not match"},
		"old timestamp":     {hs, old(), "the timestamp differs"},
		"disabled receiver": {hd, github(body, "push", "d"), "the receiver is disabled"},
		"unknown receiver":  {h, other(github(body, "push", "d"), "/in/receiver_00000000000000000000000002"), ""},
		"no identifier":     {h, other(github(body, "push", "d"), "/in/x"), ""},
		"get":               {h, httptest.NewRequest(http.MethodGet, "/in/"+string(id), nil), "the method must be POST"},
		"get of unknown":    {h, httptest.NewRequest(http.MethodGet, "/in/receiver_00000000000000000000000002", nil), ""},
	} {
		c.request.Header.Set("X-Request-Id", "same")
		c.request.Header.Set("User-Agent", "hostile")
		f.exchange, disabled.exchange, stripe.exchange = telemetry.Exchange{}, telemetry.Exchange{}, telemetry.Exchange{}
		w := send(c.handler, c.request)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		bodies[fmt.Sprint(w.Body, w.Header())] = true
		x := f.exchange
		for _, o := range []*fake{disabled, stripe} {
			if o.exchange.RequestID != "" {
				x = o.exchange
			}
		}
		if c.detail == "" && x.TenantID != "" || c.detail != "" && (x.TenantID != tenant || x.Receiver != id || !strings.Contains(x.Detail, c.detail) || x.UserAgent != "" || x.Code != atrium.CodeUnverified) {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if len(bodies) != 1 {
		t.Errorf("%d different responses: %v", len(bodies), bodies)
	}
	if len(f.entries)+len(f.quarantined)+len(disabled.entries)+len(stripe.entries) > 0 {
		t.Error("something was stored")
	}
	want(t, send(h, httptest.NewRequest(http.MethodPut, "/in/"+string(id), nil)), http.StatusMethodNotAllowed, "GET, HEAD, POST")
}

func TestDeliveryThatCannotBeMappedIsQuarantinedAsItIs(t *testing.T) {
	f, h := newFake(atrium.ProviderGitHub, atrium.Mapping{Name: "body.name"})
	for _, body := range []string{`{"a":1}`, `{"name":1,"a":"\ud800"}`, `not JSON`, ``, `[{"name":"a"},{}]`, "\xff\x00"} {
		f.quarantined = nil
		r := github(body, "push\xff", "d")
		r.URL.RawQuery = "a=\xff"
		r.Header.Set("Authorization", "Bearer x")
		r.Header.Set("Cookie", "x")
		r.Header.Set("X-Api-Key", "x")
		want(t, send(h, r), http.StatusAccepted, `{"entries":0,"replayed":0,"filtered":0,"quarantined":true}`)
		if len(f.quarantined) != 1 {
			t.Fatalf("%q: %v", body, f.quarantined)
		}
		d := f.quarantined[0]
		if string(d.Body) != body || d.TenantID != tenant || d.ReceiverID != id || d.ID == "" || d.RequestID == "" || d.ReceivedAt == 0 || d.Fault == "" || d.Query != "a=\ufffd" {
			t.Errorf("%q: %+v", body, d)
		}
		if got, want := fmt.Sprint(d.Headers), "[{content-type application/json} {x-github-delivery d} {x-github-event push\ufffd}]"; got != want {
			t.Errorf("headers %s, want %s", got, want)
		}
	}
	if len(f.entries) > 0 {
		t.Errorf("%d entries", len(f.entries))
	}
	f.full = atrium.Unavailable(nil)
	want(t, send(h, github("{}", "push", "d")), http.StatusServiceUnavailable, "")
	f.full = atrium.NotFound()
	want(t, send(h, github("{}", "push", "d")), http.StatusUnauthorized, `"code":"unverified"`)
}

func TestMappingThatDoesNotCompileQuarantinesEverything(t *testing.T) {
	f, h := newFake(atrium.ProviderGitHub, atrium.Mapping{Name: "body.name +"})
	want(t, send(h, github("{}", "push", "d")), http.StatusAccepted, `"quarantined":true`)
	if len(f.quarantined) != 1 || !strings.HasPrefix(f.quarantined[0].Fault, "name: line 1") {
		t.Errorf("%+v", f.quarantined)
	}
}

func TestArrayIsAcknowledgedWhenAllOfItIsStored(t *testing.T) {
	f, h := newFake(atrium.ProviderGitHub, atrium.Mapping{EventID: "body.id", Filter: "body.id != 2", Type: `"t"`})
	const body = `[{"id":1},{"id":2},{"id":3}]`
	f.fails = func(d *atrium.Draft) error {
		if strings.HasSuffix(d.IdempotencyKey, ":3") {
			return atrium.Unavailable(nil)
		}
		return nil
	}
	want(t, send(h, github(body, "push", "d")), http.StatusServiceUnavailable, "")
	f.fails = nil
	want(t, send(h, github(body, "push", "d")), http.StatusOK, `{"entries":2,"replayed":1,"filtered":1,"quarantined":false}`)
	for _, fault := range []error{atrium.NotFound(), atrium.Errorf(atrium.CodeIdempotencyKeyReused, "x")} {
		f.quarantined, f.fails = nil, func(d *atrium.Draft) error {
			if strings.HasSuffix(d.IdempotencyKey, ":3") {
				return fault
			}
			return nil
		}
		want(t, send(h, github(body, "push", "d")), http.StatusAccepted, `"quarantined":true`)
		if len(f.quarantined) != 1 || string(f.quarantined[0].Body) != body || !strings.HasPrefix(f.quarantined[0].Fault, "element 2: ") {
			t.Errorf("%+v", f.quarantined)
		}
	}
	f.fails = func(*atrium.Draft) error { return errors.New("a bug") }
	want(t, send(h, github(body, "push", "d")), http.StatusInternalServerError, "")
	f.fails = func(*atrium.Draft) error { panic("a bug") }
	want(t, send(h, github(body, "push", "d")), http.StatusInternalServerError, "")
	f.fails = func(*atrium.Draft) error { return atrium.NoTenant() }
	want(t, send(h, github(body, "push", "d")), http.StatusUnauthorized, "")
	f.fails = nil
	want(t, send(h, github(`{"id":2}`, "push", "d")), http.StatusOK, `{"entries":0,"replayed":0,"filtered":1,"quarantined":false}`)
	want(t, send(h, github(`[]`, "push", "d")), http.StatusOK, `{"entries":0,`)
}

func TestSlackGetsItsChallengeAndNothingElse(t *testing.T) {
	f, h := newFake(atrium.ProviderSlack, atrium.Mapping{})
	slack := func(body string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/in/"+string(id), strings.NewReader(body))
		timestamp := strconv.FormatInt(time.Now().Unix(), 10)
		r.Header.Set("X-Slack-Request-Timestamp", timestamp)
		r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(sign(secret, "v0:"+timestamp+":"+body)))
		return r
	}
	w := send(h, slack(`{"type":"url_verification","challenge":"abc"}`))
	if w.Code != http.StatusOK || w.Body.String() != "abc" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	for _, body := range []string{`{"type":"event_callback","event_id":"Ev1","event":{"type":"message"}}`, `not JSON`} {
		if w := send(h, slack(body)); w.Code != http.StatusOK || w.Body.Len() != 0 {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
	r := slack(`{"type":"url_verification","challenge":"abc"}`)
	r.Header.Set("X-Slack-Signature", "v0=00")
	want(t, send(h, r), http.StatusUnauthorized, "")
	if len(f.entries) != 1 || len(f.quarantined) != 1 {
		t.Errorf("%d entries, %d in quarantine", len(f.entries), len(f.quarantined))
	}
	if got := fmt.Sprint(f.observed); got != "[slack challenge slack stored slack quarantined slack unverified]" {
		t.Error(got)
	}
}

func TestMetaSubscribesWithTheVerifyToken(t *testing.T) {
	_, h := newFake(atrium.ProviderMeta, atrium.Mapping{})
	get := func(token string) *httptest.ResponseRecorder {
		return send(h, httptest.NewRequest(http.MethodGet, "/in/"+string(id)+"?hub.mode=subscribe&hub.challenge=77&hub.verify_token="+token, nil))
	}
	if w := get(provider.VerifyToken([]byte(secret))); w.Code != http.StatusOK || w.Body.String() != "77" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	want(t, get("x"), http.StatusUnauthorized, "")
}

func TestHubSpotSignsThePublicAddress(t *testing.T) {
	f, h := newFake(atrium.ProviderHubSpot, atrium.Mapping{})
	hubspot := func(host string) *http.Request {
		const body = `[{"eventId":1,"subscriptionType":"contact.creation"},{"eventId":2,"subscriptionType":"contact.creation"}]`
		r := httptest.NewRequest(http.MethodPost, "/in/"+string(id)+"?a=%2F", strings.NewReader(body))
		timestamp := strconv.FormatInt(time.Now().UnixMilli(), 10)
		r.Header.Set("X-HubSpot-Request-Timestamp", timestamp)
		r.Header.Set("X-HubSpot-Signature-v3", base64.StdEncoding.EncodeToString(sign(secret, "POST"+host+"/in/"+string(id)+"?a=/"+body+timestamp)))
		return r
	}
	want(t, send(h, hubspot("https://atrium.example")), http.StatusOK, `"entries":2`)
	want(t, send(h, hubspot("http://example.com")), http.StatusUnauthorized, "")
	if len(f.entries) != 2 {
		t.Errorf("%d entries", len(f.entries))
	}
}

func TestReceiversAreCachedForAFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := newFake(atrium.ProviderGitHub, atrium.Mapping{})
		for range 10 {
			want(t, send(h, github("{}", "push", "d")), http.StatusOK, "")
		}
		if n := f.lookups.Load(); n != 1 {
			t.Errorf("%d lookups", n)
		}
		f.receiver.Enabled = false
		time.Sleep(auth.CacheTime)
		want(t, send(h, github("{}", "push", "d")), http.StatusUnauthorized, "")
		f.receiver.Enabled, f.receiver.Mapping.Type = true, `"changed"`
		ends := atrium.At(time.Now().Add(auth.CacheTime + time.Second))
		f.secrets[0].ExpiresAt = &ends
		time.Sleep(auth.CacheTime)
		want(t, send(h, github("{}", "push", "e")), http.StatusOK, "")
		if d := f.entries["in:"+string(id)+":e"]; d == nil || d.Type != "changed" {
			t.Errorf("%+v", d)
		}
		time.Sleep(time.Second) // the secret ends before the cached receiver does
		want(t, send(h, github("{}", "push", "e")), http.StatusUnauthorized, "")
	})
}

func FuzzRequest(f *testing.F) {
	f.Add("{}", "push", "d", "")
	f.Add("a=%zz", "\xff", "", "hub.mode=subscribe")
	f.Fuzz(func(t *testing.T, body, event, delivery, query string) {
		store, h := newFake(atrium.ProviderGitHub, atrium.Mapping{Type: `headers["x-github-event"] + query[?"a"].orValue("")`})
		r := github(body, event, delivery)
		r.URL.RawQuery = query
		w := send(h, r)
		if ok := w.Code == http.StatusOK && len(store.entries)+len(store.quarantined) <= 1000 || w.Code == http.StatusAccepted && len(store.quarantined) == 1; !ok {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
