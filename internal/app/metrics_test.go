package app_test

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/telemetry"
)

var update = flag.Bool("update", false, "write the golden files")

// busy returns a service that has handled requests of every kind.
func busy(t *testing.T) *service {
	t.Helper()
	s := start(t)
	account := s.post(t, `{"source":"crm","domain":"acme.example","payload":{}}`)
	s.send(t, http.MethodPatch, "/v0/accounts/"+account, s.key, `{"name":"Acme"}`)
	for _, target := range []string{"/v0/accounts/" + account, "/v0/pages", "/docs", "/errors/", "/healthz"} {
		s.get(t, target, s.key)
	}
	s.get(t, "/v0/pages?misspelled=1", s.key)
	s.get(t, "/v0/pages", "")                                                 // 401
	s.get(t, "/v0/accounts/"+account, s.pages)                                // 403
	s.get(t, "/nowhere", s.key)                                               // 404, without a route
	s.send(t, "FROB", "/v0/pages", s.key, "")                                 // 405
	s.send(t, http.MethodPost, "/v0/account_logs", s.key, `{}`)               // 400
	s.send(t, http.MethodPatch, "/v0/accounts/"+account, s.key, `{"name":1}`) // 400
	return s
}

func (s *service) scrape(t *testing.T) string {
	t.Helper()
	a := send(t, http.MethodGet, "http://"+s.metricsAddr+"/metrics", "")
	if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d, %s", a.status, a.header)
	}
	return a.body
}

var label = regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)

// described returns the name, type, label names and help of each of our metrics, by name.
// A metric without a series has no labels here.
func described(text string) (all []string) {
	help, kind, labels := map[string]string{}, map[string]string{}, map[string][]string{}
	var names []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP atrium_"); ok {
			name, text, _ := strings.Cut("atrium_"+rest, " ")
			names, help[name] = append(names, name), text
		} else if rest, ok := strings.CutPrefix(line, "# TYPE atrium_"); ok {
			name, text, _ := strings.Cut("atrium_"+rest, " ")
			kind[name] = text
		} else if strings.HasPrefix(line, "atrium_") {
			name := names[len(names)-1]
			for _, m := range label.FindAllStringSubmatch(line, -1) {
				if m[1] != "le" && !slices.Contains(labels[name], m[1]) {
					labels[name] = append(labels[name], m[1])
				}
			}
		}
	}
	for _, name := range names {
		slices.Sort(labels[name])
		all = append(all, fmt.Sprintf("%s %s {%s} %s", name, kind[name], strings.Join(labels[name], ","), help[name]))
	}
	return all
}

func TestMetricsMatchTheGoldenFile(t *testing.T) {
	got := strings.Join(described(scrapeAll(t)), "\n") + "\n"
	file := filepath.Join("testdata", "metrics.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the metrics are\n%s\nwant\n%s\ngo test ./internal/app -update writes the file; docs/metrics.md explains each", got, want)
	}
}

// scrapeAll returns the metrics of a service after every event that creates a series; a
// vector without one is not exposed. A checkpoint is simulated, because only a large WAL
// has one.
func scrapeAll(t *testing.T) string {
	t.Helper()
	s := busy(t)
	s.metrics.Checkpointed("passive", 1, true)
	s.metrics.Rejected(s.tenant)
	return s.scrape(t)
}

func TestMetricsPageIsComplete(t *testing.T) {
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^### `(atrium_[a-z_]+)`\n\n([A-Z][a-z]+)[,.](.*)$").FindAllStringSubmatch(string(b), -1) {
		var labels []string
		for _, l := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		page[fmt.Sprintf("%s %s {%s}", m[1], strings.ToLower(m[2]), strings.Join(labels, ","))] = true
	}
	exposed := map[string]bool{}
	text := scrapeAll(t)
	for _, line := range described(text) {
		line, _, _ = strings.Cut(line, "}")
		line += "}"
		exposed[line] = true
		if !page[line] {
			t.Errorf("the page has no section on %s", line)
		}
	}
	for line := range page {
		if !exposed[line] {
			t.Errorf("the page documents %s, which differs from what is exposed", line)
		}
	}
	for _, name := range regexp.MustCompile(`\b(atrium|go|process)_[a-z_]+`).FindAllString(string(b), -1) {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("the page refers to %s, which is not exposed", name)
		}
	}
}

func TestMetricsFollowTheConventionsOfPrometheus(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrapeAll(t))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "atrium_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestMetricsCountEvents(t *testing.T) {
	s := busy(t)
	text := s.scrape(t)
	for _, series := range []string{
		`atrium_http_request_duration_seconds_count{method="POST",route="/v0/account_logs",status="201"} 1`,
		`atrium_http_request_duration_seconds_count{method="POST",route="/v0/account_logs",status="400"} 1`,
		`atrium_http_request_duration_seconds_count{method="PATCH",route="/v0/accounts/{account_id}",status="200"} 1`,
		`atrium_http_request_duration_seconds_count{method="GET",route="/v0/accounts/{account_id}",status="403"} 1`,
		`atrium_http_request_duration_seconds_count{method="GET",route="/v0/pages",status="401"} 1`,
		`atrium_http_request_duration_seconds_count{method="other",route="/v0/pages",status="405"} 1`,
		`atrium_http_request_duration_seconds_count{method="other",route="other",status="404"} 1`,
		`atrium_ingest_batch_entries_sum 1`,
		`atrium_ingest_entries_total{source="crm",tenant="` + string(s.tenant) + `"} 1`,
		`atrium_ingest_wait_seconds_count 1`,
		`atrium_ingest_rejected_total 0`,
		`atrium_ingest_queue_entries 0`,
		`atrium_store_connections 0`,
		`atrium_ready 1`,
		`atrium_auth_key_lookups_total{source="store"} 2`,
		`atrium_auth_cached_keys 2`,
	} {
		if !strings.Contains(text, "\n"+series+"\n") {
			t.Errorf("missing series %s", series)
		}
	}
	if regexp.MustCompile(`(?m)^atrium_sqlite_(file|wal)_bytes 0$`).MatchString(text) {
		t.Error("the database or the WAL is empty after a commit")
	}
}

func TestMetricsListenerServesOnlyMetrics(t *testing.T) {
	s := start(t)
	if a := s.get(t, "/metrics", s.key); a.status != http.StatusNotFound {
		t.Errorf("/metrics on the API's listener: %d", a.status)
	}
	for _, target := range []string{"/", "/metrics/", "/metrics/x", "/healthz", "/v0/pages", "/openapi.yaml", "/docs", "/errors/", "/debug/pprof/"} {
		if a := send(t, http.MethodGet, "http://"+s.metricsAddr+target, "", "x-api-key: "+s.key); a.status != http.StatusNotFound {
			t.Errorf("%s on the metrics listener: %d", target, a.status)
		}
	}
	if a := send(t, http.MethodPost, "http://"+s.metricsAddr+"/metrics", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", a.status)
	}
}

func TestNoMetricsListenerByDefault(t *testing.T) {
	a, err := newApp(t, "127.0.0.1:0", "", nil)
	if err != nil || a.MetricsAddr() != "" {
		t.Errorf("the metrics are at %q, %v", a.MetricsAddr(), err)
	}
	_ = a.Close(t.Context())
}

func TestCloseReleasesAServiceThatIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		a, err := newApp(t, freeAddr(t), freeAddr(t), telemetry.NewMetrics("v1"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for _, addr := range []string{a.Addr(), a.MetricsAddr()} {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
	})
}

func TestAddressInUseIsReportedBeforeServing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := freeAddr(t)
	if _, err := newApp(t, addr, taken.Addr().String(), telemetry.NewMetrics("v1")); err == nil || err.Error() != "metrics: listen on "+taken.Addr().String()+": address already in use: stop the other process, or choose another address with ATRIUM_METRICS_ADDR" {
		t.Fatalf("address in use: %v", err)
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the other listener is still open: %v", err)
	}
	_ = again.Close()
}

// freeAddr returns an address that nothing listens on, and that no client is given.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := postgrestest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func newApp(t *testing.T, addr, metricsAddr string, m *telemetry.Metrics) (*app.App, error) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := config.Default()
	c.Addr, c.MetricsAddr = addr, metricsAddr
	return app.New(t.Context(), app.Config{Settings: c, Store: s, Log: telemetry.NewLogger(t.Output(), "text", "warn"), Metrics: m})
}

func TestMetricsReportNotReadyWithoutADatabase(t *testing.T) {
	s := start(t)
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if text := s.scrape(t); !strings.Contains(text, "\natrium_ready 0\n") {
		t.Error("the metrics report ready")
	}
}

func TestMetricsHaveTheLastSuccessOfEachJob(t *testing.T) {
	s := start(t)
	text := s.scrape(t)
	for _, job := range []string{"activity", "activity-sweep", "attention", "counts", "delivery-expiry", "erasures", "event-expiry", "events", "key-expiry", "person-erasures", "quarantine-expiry", "request-log", "request-log-expiry", "requests", "retention", "schedules", "secret-keys", "sessions", "tenant-deletions", "tombstones", "upgrade"} {
		m := regexp.MustCompile(`\natrium_job_last_success_timestamp_seconds\{name="` + job + `"\} (\S+)\n`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no metric for %s", job)
		}
		at, err := strconv.ParseFloat(m[1], 64)
		if age := time.Since(time.UnixMilli(int64(at * 1000))); err != nil || age < -time.Minute || age > time.Minute {
			t.Errorf("%s last succeeded %s ago, %v", job, age, err)
		}
	}
	if err := s.store.Close(); err != nil { // later statements fail
		t.Fatal(err)
	}
	last := func() string {
		return regexp.MustCompile(`name="erasures"\} (\S+)`).FindString(s.scrape(t))
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.log.String(), "a job failed"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no job failed")
		}
	}
	before := last()
	time.Sleep(2 * time.Second)
	if after := last(); after != before {
		t.Errorf("the last success was at %s, and is %s without a database", before, after)
	}
}

func TestEachJobIsInTheRunbook(t *testing.T) {
	b, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "\n### AtriumJobLate\n")
	section, _, _ = strings.Cut(section, "\n### ")
	jobs := regexp.MustCompile(`\natrium_job_last_success_timestamp_seconds\{name="(.+)"\}`).FindAllStringSubmatch(start(t).scrape(t), -1)
	if len(jobs) < 20 {
		t.Errorf("found %d jobs", len(jobs))
	}
	for _, job := range jobs {
		if !regexp.MustCompile("(?m)^\\| .*`" + job[1] + "`.* \\| ").MatchString(section) {
			t.Errorf("docs/observability.md does not say what follows if the job %s is late", job[1])
		}
	}
}
