package telemetry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// Clients choose the path and the method: neither creates a series.
func TestRequestsCannotCreateSeries(t *testing.T) {
	m := NewMetrics("v1")
	m.Request(exchange(200))
	for _, text := range []string{"A", "B", "C"} {
		unknown := exchange(404)
		unknown.Route, unknown.Method = "", text
		m.Request(unknown)
		refused := exchange(405)
		refused.Method = text
		m.Request(refused)
	}
	text := scrape(t, m)
	for _, series := range []string{
		`{method="GET",route="/v0/accounts/{account_id}",status="200"} 1`,
		`{method="other",route="other",status="404"} 3`,
		`{method="other",route="/v0/accounts/{account_id}",status="405"} 3`,
	} {
		if !strings.Contains(text, "\natrium_http_request_duration_seconds_count"+series+"\n") {
			t.Errorf("there is no %s", series)
		}
	}
	if n := strings.Count(text, "\natrium_http_request_duration_seconds_count{"); n != 3 {
		t.Errorf("there are %d series of requests, want 3", n)
	}
}

func TestIgnoredFieldsAreCountedByRoute(t *testing.T) {
	m := NewMetrics("v1")
	for _, ignored := range []int{0, 2, 3} {
		x := exchange(200)
		x.IgnoredFields = ignored
		m.Request(x)
	}
	other := exchange(200)
	other.Route = "/v0/pages"
	m.Request(other)
	wantSeries(t, m, `atrium_http_ignored_fields_total{route="/v0/accounts/{account_id}"} 5`)
	if n := strings.Count(scrape(t, m), "\natrium_http_ignored_fields_total{"); n != 1 {
		t.Errorf("there are %d series of ignored fields, want 1", n)
	}
}

func BenchmarkMetricsRequest(b *testing.B) {
	m, x := NewMetrics("v1"), exchange(200)
	b.ReportAllocs()
	for b.Loop() {
		m.Request(x)
	}
}
