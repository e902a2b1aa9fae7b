package receive_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
	"atrium/internal/telemetry"
)

// A late is a body that arrives after a delay, in which something happens.
type late struct {
	io.Reader
	by      time.Duration
	happens func()
}

func (l *late) Read(to []byte) (int, error) {
	if l.by > 0 {
		time.Sleep(l.by)
		l.by = 0
		l.happens()
	}
	return l.Reader.Read(to)
}

func TestSlowBodyIsVerifiedByTheReceiverOfItsEnd(t *testing.T) {
	const slow, body = 27 * time.Second, `{"a":1}`
	signed := func() *http.Request { return github(body, "push", "d") }
	token := func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/in/"+string(id), nil)
		r.Header.Set("X-Token", secret)
		return r
	}
	timed := func() *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/in/"+string(id), nil)
		timestamp := strconv.FormatInt(time.Now().Add(-4*time.Minute-50*time.Second).Unix(), 10)
		r.Header.Set("Stripe-Signature", "t="+timestamp+",v1="+hex.EncodeToString(sign(secret, timestamp+"."+body)))
		return r
	}
	for name, c := range map[string]struct {
		provider atrium.ReceiverProvider
		request  func() *http.Request
		change   func(f *fake)
		status   int
	}{
		"unchanged, signed":        {atrium.ProviderGitHub, signed, func(*fake) {}, http.StatusOK},
		"unchanged, with a token":  {atrium.ProviderToken, token, func(*fake) {}, http.StatusOK},
		"rotated, signed":          {atrium.ProviderGitHub, signed, func(f *fake) { f.secrets = []atrium.ReceiverSecret{{Value: []byte("another")}} }, http.StatusUnauthorized},
		"rotated, with a token":    {atrium.ProviderToken, token, func(f *fake) { f.secrets = []atrium.ReceiverSecret{{Value: []byte("another")}} }, http.StatusUnauthorized},
		"disabled":                 {atrium.ProviderGitHub, signed, func(f *fake) { f.receiver.Enabled = false }, http.StatusUnauthorized},
		"deleted":                  {atrium.ProviderGitHub, signed, func(f *fake) { f.receiver.ID = "receiver_00000000000000000000000007" }, http.StatusUnauthorized},
		"the signature is now old": {atrium.ProviderStripe, timed, func(*fake) {}, http.StatusUnauthorized},
		"the end of a secret passed": {atrium.ProviderGitHub, signed, func(f *fake) {
			now := atrium.At(time.Now())
			f.secrets = []atrium.ReceiverSecret{{Value: []byte(secret), ExpiresAt: &now}}
		}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, h := newFake(c.provider, atrium.Mapping{})
				f.receiver.Verification = atrium.Verification{Header: "X-Token"}
				r := c.request()
				r.Body = io.NopCloser(&late{strings.NewReader(body), slow, func() { c.change(f) }})
				want(t, send(h, r), c.status, "")
				if stored := len(f.entries) == 1; stored != (c.status == http.StatusOK) {
					t.Errorf("%d entries are stored, the status is %d", len(f.entries), c.status)
				}
			})
		})
	}
}

func TestRequestsAreLimited(t *testing.T) {
	f, _ := newFake(atrium.ProviderGitHub, atrium.Mapping{})
	client := "192.0.2.1"
	h := f.handler(rest.Limits{
		AnonymousRate: limit.NewRates[netip.Addr](3, time.Hour, 10),
		Rates:         rest.NewRates(limit.NewRates[atrium.KeyID](2, time.Hour, 10), nil),
	})
	ask := func(r *http.Request) *httptest.ResponseRecorder { r.RemoteAddr = client + ":1"; return send(h, r) }
	for range 2 {
		want(t, ask(github("{}", "push", "d")), http.StatusOK, "")
	}
	want(t, ask(github("{}", "push", "d")), http.StatusTooManyRequests, "This receiver may send 2 requests per hour")
	for i, status := range []int{401, 401, 401, 429} {
		r := httptest.NewRequest(http.MethodPost, fmt.Sprintf("/in/receiver_0000000000000000000000001%d", i), nil)
		want(t, ask(r), status, "")
	}
	r := github("{}", "push", "d") // not verified, and not counted: its receiver is known
	r.Header.Del("X-Hub-Signature-256")
	want(t, ask(r), http.StatusUnauthorized, "")
	large := github(`{"a":"`+strings.Repeat("a", 64<<10)+`"}`, "push", "d")
	want(t, ask(large), http.StatusRequestEntityTooLarge, "65536 bytes")
}

func TestQuarantineHasAShareOfTheChangesOfItsTenant(t *testing.T) {
	f, _ := newFake(atrium.ProviderGitHub, atrium.Mapping{Domain: "body.missing"})
	bounds := limit.SemaphoreBounds{Slots: 2, Waiting: 1, Timeout: time.Millisecond}
	limits := rest.Limits{Changes: limit.NewSemaphore[atrium.TenantID](bounds), LargeChanges: limit.NewSemaphore[atrium.TenantID](bounds)}
	h := f.handler(limits)
	small, large := "{}", `{"a":"`+strings.Repeat("a", 16<<10)+`"}`
	for body, slots := range map[string]*limit.Semaphore[atrium.TenantID]{small: limits.Changes, large: limits.LargeChanges} {
		if err := slots.Acquire(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		stored := len(f.quarantined)
		want(t, send(h, github(body, "push", "d")), http.StatusServiceUnavailable, "")
		if len(f.quarantined) != stored {
			t.Error("a delivery was stored while the tenant had its share of changes")
		}
		slots.Release(tenant)
		want(t, send(h, github(body, "push", "d")), http.StatusAccepted, "")
		if held := slots.Held(); held != 0 {
			t.Errorf("%d slots are held afterwards", held)
		}
	}
}

func TestReceiverInUseIsServedWhenItsClientHasGuessedOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFake(atrium.ProviderGitHub, atrium.Mapping{})
		h := f.handler(rest.Limits{AnonymousRate: limit.NewRates[netip.Addr](1, time.Hour, 10)})
		guess := func() *http.Request {
			return httptest.NewRequest(http.MethodPost, "/in/receiver_00000000000000000000000009", nil)
		}
		want(t, send(h, github("{}", "push", "d")), http.StatusOK, "")
		want(t, send(h, guess()), http.StatusUnauthorized, "")
		want(t, send(h, guess()), http.StatusTooManyRequests, "")
		want(t, send(h, github("{}", "push", "e")), http.StatusOK, "")
		time.Sleep(auth.CacheTime)
		want(t, send(h, github("{}", "push", "f")), http.StatusOK, "")
		f.receiver.ID = "receiver_00000000000000000000000007" // it was deleted
		time.Sleep(auth.CacheTime)
		want(t, send(h, github("{}", "push", "g")), http.StatusUnauthorized, "")
		want(t, send(h, github("{}", "push", "g")), http.StatusTooManyRequests, "")
	})
}

func TestBoundedNumberOfReceiversIsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		const many = 1500
		f, h := newFake(atrium.ProviderGitHub, atrium.Mapping{})
		f.anyID = true
		f.secrets = append(f.secrets, atrium.ReceiverSecret{Value: make([]byte, 30<<10)}) // more than a receiver can have: about 1,000 fit
		ask := func(prefix string, i int) {
			r := github("{}", "push", "d")
			r.URL.Path = fmt.Sprintf("/in/receiver_%s%022d", prefix, i)
			want(t, send(h, r), http.StatusOK, "")
		}
		again := func(prefix string, n int) int64 {
			before := f.lookups.Load()
			for i := range n {
				ask(prefix, i)
			}
			return f.lookups.Load() - before
		}
		f.receiver.TenantID = "tenant_00000000000000000000000002"
		again("aaaa", 400)
		f.receiver.TenantID = tenant
		again("bbbb", many)
		if n := again("bbbb", many); n < many-1024 {
			t.Errorf("%d of %d receivers were looked up again, want those beyond 1000", n, many)
		}
		if n := again("aaaa", 400); n != 0 {
			t.Errorf("%d receivers of a tenant with a smaller share were looked up again", n)
		}
	})
}

// slowly is a body of which much has arrived, but not all.
type slowly struct {
	arrived int
	end     chan struct{}
	blocked func()
}

func (s *slowly) Read(to []byte) (int, error) {
	if s.arrived == 0 {
		s.blocked()
		<-s.end
		return 0, io.EOF
	}
	n := min(s.arrived, len(to))
	s.arrived -= n
	return copy(to, strings.Repeat("a", n)), nil
}

func TestBodiesOfUnverifiedRequestsLeaveMemoryForOtherSenders(t *testing.T) {
	const body = 60 << 10
	f, _ := newFake(atrium.ProviderGitHub, atrium.Mapping{})
	bodies := int64(1 << 20)
	limits := rest.Limits{Bodies: limit.NewQuota[atrium.TenantID](bodies), UnverifiedBodies: limit.NewQuota[netip.Addr](bodies / 2)}
	h := f.handler(limits)
	from := func(client string, r *http.Request) *http.Request { r.RemoteAddr = client + ":1"; return r }
	end := make(chan struct{})
	var arrived, running sync.WaitGroup
	for range 20 {
		arrived.Add(1)
		running.Go(func() {
			var once sync.Once
			done := func() { once.Do(arrived.Done) }
			r := github("", "push", "d")
			r.Body, r.ContentLength = io.NopCloser(&slowly{body, end, done}), body+1
			send(h, from("192.0.2.1", r))
			done() // it was refused
		})
	}
	arrived.Wait()
	large := `{"a":"` + strings.Repeat("a", body) + `"}`
	want(t, send(h, from("192.0.2.1", github(large, "push", "d"))), http.StatusServiceUnavailable, "")
	want(t, send(h, from("192.0.2.2", github(large, "push", "d"))), http.StatusOK, "")
	close(end)
	running.Wait()
	want(t, send(h, from("192.0.2.1", github(large, "push", "e"))), http.StatusOK, "")
}

func TestMemoryOfEntriesCountsAsThatOfTheTenantUntilTheyAreStored(t *testing.T) {
	f, _ := newFake(atrium.ProviderGitHub, atrium.Mapping{
		Name:   `"` + strings.Repeat("😀", 250) + `" + string(body.?a.orValue(1))`,
		Filter: `body.?l.orValue([]).all(a, body.l.all(b, a == b))`,
	})
	bodies := limit.NewQuota[atrium.TenantID](4 << 20)
	h := f.handler(rest.Limits{Bodies: bodies})
	array := func(n int) string { return "[" + strings.Repeat("{},", n) + "{}]" }
	want(t, send(h, github(array(900), "push", "a")), http.StatusServiceUnavailable, "")
	if len(f.entries) > 0 || f.exchange.Refused != telemetry.ByBodyMemory {
		t.Errorf("%d entries were stored, refused by %q", len(f.entries), f.exchange.Refused)
	}
	f.fails = func(*atrium.Draft) error {
		if bodies.Take(tenant, bodies.Alone()*3/4) {
			t.Error("the memory is not counted while the entries are stored")
		}
		return nil
	}
	want(t, send(h, github(array(200), "push", "b")), http.StatusOK, `"entries":201`)
	f.fails = nil
	// This one has a fault at its end, unless it is refused before, while it waits for a processor.
	costly := `{"l":[` + strings.Repeat("1,", 80) + `1]}`
	want(t, send(h, github("["+strings.Repeat("{},", 600)+strings.Repeat(costly+",", 300)+costly+"]", "push", "c")), http.StatusServiceUnavailable, "")
	if !bodies.Take(tenant, bodies.Alone()) {
		t.Error("memory is counted after the requests have ended")
	}
	want(t, send(h, github("{}", "push", "d")), http.StatusOK, `"entries":1`) // small ones need no memory of it
}

func TestBodyIsNotReadIfItsHeadersAreNotVerified(t *testing.T) {
	f, h := newFake(atrium.ProviderToken, atrium.Mapping{})
	f.receiver.Verification = atrium.Verification{Header: "X-Token"}
	// Its share of the memory for unverified requests is used up: a token needs none.
	limits := rest.Limits{Bodies: limit.NewQuota[atrium.TenantID](1 << 20), UnverifiedBodies: limit.NewQuota[netip.Addr](0)}
	ask := func(h http.Handler, token string, body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/in/"+string(id), body)
		r.Header.Set("X-Token", token)
		return send(h, r)
	}
	want(t, ask(h, "wrong", &slowly{blocked: func() { t.Error("the body was read") }}), http.StatusUnauthorized, "")
	want(t, ask(f.handler(limits), secret, strings.NewReader(`{"a":"`+strings.Repeat("a", 60<<10)+`"}`)), http.StatusOK, "")
	f.receiver.Provider = atrium.ProviderGitHub
	h = f.handler(rest.Limits{})
	for _, signature := range []string{"", "sha256=00", "sha1=" + strings.Repeat("0", 64)} {
		r := github("", "push", "d")
		r.Header.Set("X-Hub-Signature-256", signature)
		r.Body = io.NopCloser(&slowly{blocked: func() { t.Error("the body was read") }})
		want(t, send(h, r), http.StatusUnauthorized, "")
	}
}
