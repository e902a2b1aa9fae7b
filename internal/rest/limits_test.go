package rest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
)

// costs are the maximum allocations of the limits per request: without limits, with the
// default limits, and with rates.
var costs = []struct {
	name   string
	limits Limits
	allocs float64
}{
	{"none", Limits{}, 0},
	{"default", Limits{URL: 8 << 10, HeaderFields: 100, QueryParameters: 100, InFlight: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2048, Waiting: 2048, Timeout: time.Second})}, 0},
	{"rates", Limits{
		URL: 8 << 10, HeaderFields: 100, QueryParameters: 100, InFlight: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{Slots: 2048, Waiting: 2048, Timeout: time.Second}),
		Rates: NewRates(limit.NewRates[atrium.KeyID](1_000_000, time.Second, 1000), limit.NewRates[atrium.TenantID](1_000_000, time.Second, 1000)),
	}, 2},
}

// pass returns a function that checks a request against all limits.
func pass(l *Limits) func(tb testing.TB) {
	r := httptest.NewRequest(http.MethodGet, "/v0/pages?limit=20&status=draft", nil)
	for _, name := range []string{"Accept", "User-Agent", "X-Api-Key", "If-None-Match", "Accept-Encoding", "X-Request-Id"} {
		r.Header.Set(name, "a")
	}
	w := &recorder{ResponseWriter: httptest.NewRecorder()}
	who := auth.Principal{KeyID: atrium.NewID[atrium.KeyID](), TenantID: atrium.NewID[atrium.TenantID]()}
	return func(tb testing.TB) {
		w.Client = l.Proxies.Client(r.RemoteAddr, r.Header["X-Forwarded-For"])
		if err := l.checkHeaders(r); err != nil {
			tb.Fatal(err)
		}
		if err := l.Rates.check(who, w); err != nil {
			tb.Fatal(err)
		}
		if err := admit(r.Context(), w, l.InFlight, who.TenantID); err != nil {
			tb.Fatal(err)
		}
		l.InFlight.Release(who.TenantID)
	}
}

func TestLimitsAllocateNothingWithoutRates(t *testing.T) {
	for _, c := range costs {
		request := pass(&c.limits)
		if n := testing.AllocsPerRun(1000, func() { request(t) }); n > c.allocs {
			t.Errorf("%s: %v allocations per request, want at most %v", c.name, n, c.allocs)
		}
	}
}

func TestAnErrorAboutTheRateSaysWhoseItIsAndWhatItAllows(t *testing.T) {
	keys := func(count int, window time.Duration) *limit.Rates[atrium.KeyID] {
		return limit.NewRates[atrium.KeyID](count, window, 10)
	}
	tenants := limit.NewRates[atrium.TenantID](2, 90*time.Second, 10)
	const after = " Try again after the time in Retry-After."
	for _, c := range []struct {
		rates *Rates
		who   auth.Principal
		want  string
	}{
		{NewRates(keys(1, time.Second), nil), auth.Principal{KeyID: "k", TenantID: "t"}, "This key may send 1 request per second." + after},
		{NewRates(keys(100, time.Minute), nil), auth.Principal{KeyID: "k", TenantID: "t"}, "This key may send 100 requests per minute." + after},
		{NewRates(keys(5, time.Hour), nil), auth.Principal{UserID: "u", TenantID: "t"}, "This user may send 5 requests per hour." + after},
		{NewRates(nil, tenants), auth.Principal{KeyID: "k", TenantID: "t"}, "All keys of this tenant together may send 2 requests per 90 seconds." + after},
	} {
		var err error
		for range 101 {
			if err = c.rates.check(c.who, &recorder{ResponseWriter: httptest.NewRecorder()}); err != nil {
				break
			}
		}
		if e, ok := errors.AsType[*atrium.Error](err); !ok || e.Code != atrium.CodeRateLimited || e.Detail != c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func BenchmarkLimits(b *testing.B) {
	for _, c := range costs {
		b.Run(c.name, func(b *testing.B) {
			request := pass(&c.limits)
			b.ReportAllocs()
			for b.Loop() {
				request(b)
			}
		})
	}
}
