package rest_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/rest"
	"atrium/internal/telemetry"
)

// siteKeys are the keys of one tenant: one for sites, and one for the other API.
type siteKeys struct{ tenant atrium.TenantID }

func (k siteKeys) Authenticate(_ context.Context, _ netip.Addr, key string) (auth.Principal, error) {
	who := auth.Principal{TenantID: k.tenant, KeyID: atrium.KeyID(key)}
	switch key {
	case "site":
		who.Scopes, who.Origins = atrium.Scopes{atrium.ScopeContentRead}, []string{"https://site.example"}
	case "sender":
		who.Scopes = atrium.ExternalScopes()
	default:
		return auth.Principal{}, atrium.Errorf(atrium.CodeUnauthenticated, "no such key")
	}
	return who, nil
}

// A site is an API with a route for sites, and one for other clients of the same tenant.
type site struct {
	tenant  atrium.TenantID
	public  bool
	body    any
	rows    int
	during  func() // runs during a request for a site
	refused []telemetry.Refusal
	handler http.Handler
}

func newSite(limits rest.Limits) *site {
	s := &site{tenant: atrium.NewID[atrium.TenantID](), public: true, body: "content"}
	api := &rest.API{Keys: siteKeys{s.tenant}, Log: slog.New(slog.DiscardHandler), Limits: limits, Observe: func(_ context.Context, x *telemetry.Exchange) {
		s.refused = append(s.refused, x.Refused)
	}}
	s.handler = api.Handler([]rest.Route{
		{
			Method: http.MethodGet, Pattern: "/sites/{tenant_id}/page", Scope: atrium.ScopeContentRead, ForSites: true,
			Handle: func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
				if s.during != nil {
					during := s.during
					s.during = nil
					during()
				}
				response := rest.Response{Body: s.body, Rows: s.rows}
				if s.public {
					response.MaxAge = new(time.Duration)
					*response.MaxAge = time.Minute
				}
				return response, nil
			},
		},
		{
			Method: http.MethodGet, Pattern: "/other", Scope: atrium.ScopePagesRead,
			Handle: func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
				return rest.Response{Body: s.body}, nil
			},
		},
	}, nil)
	return s
}

// get sends a request and returns its status.
func (s *site) get(client, key string) int { return s.ask(client, key).Code }

func (s *site) ask(client, key string, headers ...string) *httptest.ResponseRecorder {
	target := "/sites/" + string(s.tenant) + "/page"
	if key == "sender" {
		target = "/other"
	}
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	r.RemoteAddr = client
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

const (
	clientA = "192.0.2.1:1"
	clientB = "198.51.100.1:1"
)

func TestVisitorsOfSitesShareSlotsWithNoOtherClients(t *testing.T) {
	two := func() *limit.Semaphore[atrium.TenantID] {
		return limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
	}
	for _, key := range []string{"site", ""} {
		s := newSite(rest.Limits{InFlight: two(), Sites: two(), Anonymous: two()})
		s.during = func() {
			for _, c := range []struct {
				client, key string
				want        int
			}{{clientA, key, 503}, {clientA, "sender", 200}, {clientB, "", 200}} {
				if got := s.get(c.client, c.key); got != c.want {
					t.Errorf("while a request with the key %q is in flight, one with %q gets %d, want %d", key, c.key, got, c.want)
				}
			}
		}
		if got := s.get(clientA, key); got != 200 {
			t.Errorf("with the key %q: %d", key, got)
		}
		if got := s.get(clientA, key); got != 200 {
			t.Errorf("with the key %q again: %d", key, got)
		}
	}
}

func TestVisitorsOfSitesShareMemoryWithNoOtherClients(t *testing.T) {
	const size = 100 << 10
	for _, key := range []string{"site", ""} {
		quota := limit.NewQuota[atrium.TenantID](4 * size)
		s := newSite(rest.Limits{Bodies: quota})
		s.body = strings.Repeat("x", size)
		if !quota.Take(s.tenant, 2*size) {
			t.Fatal("the tenant cannot have half of the quota")
		}
		if sender, visitor := s.get(clientA, "sender"), s.get(clientA, key); sender != 503 || visitor != 200 {
			t.Errorf("while the tenant has used up its share, it gets %d, and a request with the key %q %d", sender, key, visitor)
		}
	}
}

func TestRequestsWithoutAKeyAreLimitedByClient(t *testing.T) {
	s := newSite(rest.Limits{AnonymousRate: limit.NewRates[netip.Addr](2, time.Hour, 100)})
	for _, c := range []struct {
		client, key string
		want        int
	}{
		{clientA, "", 200},
		{clientA, "", 200},
		{clientA, "", 429},
		{clientA, "site", 200},
		{clientA, "wrong", 401},
		{clientB, "", 200},
		{"[2001:db8::1]:1", "", 200},
		{"[2001:db8::2]:1", "", 200},
		{"[2001:db8::3]:1", "", 429}, // the same network
	} {
		s.refused = nil
		w := s.ask(c.client, c.key)
		refused := telemetry.Refusal("")
		if c.want == 429 {
			refused = telemetry.ByAnonymousRate
		}
		if w.Code != c.want || s.refused[0] != refused || (w.Header().Get("Retry-After") != "") != (c.want == 429) {
			t.Errorf("%s with the key %q: %d %v, refused by %q", c.client, c.key, w.Code, w.Header(), s.refused)
		}
	}
}

func TestLargeResponsesWithoutAKeyCountAsSeveralRequests(t *testing.T) {
	s := newSite(rest.Limits{AnonymousRate: limit.NewRates[netip.Addr](5, time.Hour, 100)})
	s.body = strings.Repeat("x", 200<<10) // counts as 4
	for n, want := range []int{200, 200, 429} {
		if w := s.ask(clientA, ""); w.Code != want {
			t.Errorf("request %d: %d", n, w.Code)
		}
	}
	if w := s.ask(clientB, "", "If-None-Match: *"); w.Code != 304 {
		t.Fatal(w.Code)
	}
	s.body = "small"
	for range 4 { // the client has the large response already
		if got := s.get(clientB, ""); got != 200 {
			t.Errorf("after a 304: %d", got)
		}
	}
	s.body = strings.Repeat("x", 900<<10)
	for range 3 {
		if got := s.get("203.0.113.1:1", "site"); got != 200 {
			t.Errorf("with a key: %d", got)
		}
	}
}

func TestVisitorsOfSitesDoNotUseUpTheRateOfTheTenant(t *testing.T) {
	s := newSite(rest.Limits{Rates: rest.NewRates(limit.NewRates[atrium.KeyID](4, time.Hour, 100), limit.NewRates[atrium.TenantID](1, time.Hour, 100))})
	if w := s.ask(clientA, "site"); w.Code != 200 || w.Header().Get("RateLimit-Policy")+w.Header().Get("RateLimit") != "" {
		t.Errorf("a public response, which caches share, has the rate of a key: %d %v", w.Code, w.Header())
	}
	s.public = false
	for n := range 3 {
		if w := s.ask(clientA, "site"); w.Code != 200 || w.Header().Get("RateLimit-Policy") != `"key";q=4;w=3600` {
			t.Errorf("request %d: %d %v", n, w.Code, w.Header())
		}
	}
	if got := s.get(clientA, "site"); got != 429 {
		t.Errorf("above the rate of the key: %d", got)
	}
	if got := s.get(clientA, "sender"); got != 200 {
		t.Errorf("another key of the tenant: %d", got)
	}
}

func TestWhatIsNotPublicLooksNonexistentWithoutAKey(t *testing.T) {
	s := newSite(rest.Limits{})
	s.public = false
	if w := s.ask(clientA, "site"); w.Code != 200 || w.Header().Get("Cache-Control") != "private, no-cache" || w.Header().Get("Vary") != "Origin" {
		t.Errorf("with a key: %d %v", w.Code, w.Header())
	}
	hidden := s.ask(clientA, "", "X-Request-Id: same").Body.String()
	s.tenant = "x" // malformed
	if got := s.ask(clientA, "", "X-Request-Id: same").Body.String(); got != hidden || !strings.Contains(got, "not_found") {
		t.Errorf("what is not public is %s, what does not exist %s", hidden, got)
	}
}

func TestSeveralOriginsAreNotAllowed(t *testing.T) {
	s := newSite(rest.Limits{})
	for _, headers := range [][]string{
		{"Origin: https://site.example", "Origin: https://site.example"}, {"Origin: "}, {"Origin: https://site.example/"}, {"Origin: https://SITE.example"},
		{"Origin: https://site.example https://site.example"},
	} {
		if w := s.ask(clientA, "site", headers...); w.Code != 403 {
			t.Errorf("%q: %d %v", headers, w.Code, w.Header())
		}
	}
}

// Otherwise a browser would report the error as a failed fetch, without its cause.
func TestAnySiteMayReadWhyItsRequestWasRefusedButNotTheContent(t *testing.T) {
	s := newSite(rest.Limits{Rates: rest.NewRates(limit.NewRates[atrium.KeyID](3, time.Hour, 100), nil)})
	s.public = false
	for _, c := range []struct {
		key, origin, allowed string
		want                 int
	}{
		{"site", "https://site.example", "https://site.example", 200},
		{"site", "https://other.example", "*", 403},
		{"wrong", "https://other.example", "*", 401},
		{"site", "", "", 200},
		{"site", "https://other.example", "*", 429},
	} {
		headers := []string{}
		if c.origin != "" {
			headers = append(headers, "Origin: "+c.origin)
		}
		w := s.ask(clientA, c.key, headers...)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != c.allowed || w.Code != c.want {
			t.Errorf("the key %q from %q: %d, allows %q, want %d and %q", c.key, c.origin, w.Code, got, c.want, c.allowed)
		}
		if w.Code != 200 && w.Header().Get("Cache-Control") != "private, no-cache" {
			t.Errorf("a cache may keep the error: %v", w.Header())
		}
	}
}

func TestCachedResponsesAreSeparateByTenantAndKey(t *testing.T) {
	cache := &rest.ResponseCache{Version: func(string) ([2]uint64, bool) { return [2]uint64{1}, true }, Bytes: 1 << 20}
	for _, c := range []struct {
		tenant atrium.TenantID
		key    string
	}{{"a", "page"}, {"a", "other"}, {"b", "page"}} {
		for range 2 {
			want := string(c.tenant) + c.key
			loaded := func() (rest.Response, error) { return rest.Response{Body: want}, nil }
			response, err := cache.GetByKey(c.tenant, c.key, loaded)
			if body, _ := response.Body.(rest.Encoded); err != nil || string(body) != `"`+want+`"` {
				t.Errorf("%+v: %s, %v", c, body, err)
			}
		}
	}
}

func TestLargeContentIsHeavyWorkForAllVisitors(t *testing.T) {
	heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 1})
	s := newSite(rest.Limits{Heavy: heavy})
	if err := heavy.Acquire(t.Context(), "another tenant"); err != nil {
		t.Fatal(err)
	}
	if first, second := s.get(clientA, ""), s.get(clientB, ""); first != 200 || second != 200 {
		t.Errorf("small responses: %d and %d", first, second)
	}
	s.rows = 50
	if first, second := s.get(clientA, ""), s.get(clientB, ""); first != 200 || second != 503 {
		t.Errorf("the first response of many rows is a %d, and the second, while no processor is free, a %d", first, second)
	}
	s = newSite(rest.Limits{Heavy: heavy})
	s.body = strings.Repeat("x", 100<<10)
	if first, second := s.get(clientA, ""), s.get(clientB, ""); first != 200 || second != 503 {
		t.Errorf("the first large response is a %d, and the second, while no processor is free, a %d", first, second)
	}
	heavy.Release("another tenant")
	if got := s.get(clientB, ""); got != 200 || heavy.Held() != 0 {
		t.Errorf("with a free processor: %d, and %d slots are held", got, heavy.Held())
	}
}

func TestMediumContentWaitsForOtherReadsOfItsTenant(t *testing.T) {
	slots := limit.NewGroupedSemaphore(limit.SemaphoreBounds{Slots: 2}, rest.HeavyGroup)
	s := newSite(rest.Limits{MediumReads: slots})
	s.rows = 20
	if got := s.get(clientA, "site"); got != 200 {
		t.Fatal(got)
	}
	if err := slots.Acquire(t.Context(), s.tenant); err != nil {
		t.Fatal(err)
	}
	if got := s.get(clientA, "site"); got != 503 {
		t.Errorf("while the tenant has as many reads as it may, its site gets %d", got)
	}
	slots.Release(s.tenant)
	if got := s.get(clientA, "site"); got != 200 || slots.Held() != 0 {
		t.Errorf("after that, it gets %d, and %d slots are held", got, slots.Held())
	}
}

func TestSitesOfATenantOccupyItsProcessors(t *testing.T) {
	heavy := limit.NewGroupedSemaphore(limit.SemaphoreBounds{Slots: 2}, rest.HeavyGroup)
	s := newSite(rest.Limits{Heavy: heavy})
	s.body = strings.Repeat("x", 100<<10)
	if got := s.get(clientA, "site"); got != 200 {
		t.Fatal(got)
	}
	if err := heavy.Acquire(t.Context(), s.tenant); err != nil {
		t.Fatal(err)
	}
	if got := s.get(clientA, "site"); got != 503 {
		t.Errorf("while the tenant uses a processor, its site gets %d", got)
	}
	heavy.Release(s.tenant)
	if got := s.get(clientA, "site"); got != 200 {
		t.Errorf("after that, it gets %d", got)
	}
}

func TestVisitorsFromManyAddressesUseHalfOfTheProcessors(t *testing.T) {
	heavy := limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2})
	s := newSite(rest.Limits{Heavy: heavy})
	s.body = strings.Repeat("x", 100<<10)
	if got := s.get(clientA, ""); got != 200 {
		t.Fatal(got)
	}
	s.during = func() {
		if got := s.get(clientB, ""); got != 503 {
			t.Errorf("while a visitor uses a processor, another address gets %d", got)
		}
		if err := heavy.Acquire(t.Context(), "a tenant"); err != nil {
			t.Errorf("while visitors use processors, none is free for others: %v", err)
		}
		heavy.Release("a tenant")
	}
	if got := s.get(clientA, ""); got != 200 {
		t.Errorf("the visitor gets %d", got)
	}
}
