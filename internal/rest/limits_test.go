package rest

import (
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
