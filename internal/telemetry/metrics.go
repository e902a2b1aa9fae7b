package telemetry

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"atrium"
)

// Metrics are the Prometheus metrics of the service. It implements the observers of the other
// packages and is safe for concurrent use. docs/metrics.md explains each metric; a test
// compares the page with the metrics registered here.
type Metrics struct {
	registry *prometheus.Registry
	isReady  func() bool // nil until Ready

	requests    *prometheus.HistogramVec
	batch       prometheus.Histogram
	wait        prometheus.Histogram
	rejected    prometheus.Counter
	entries     *byTenant
	refusals    *byTenant
	transaction *prometheus.HistogramVec
	checkpoint  *prometheus.HistogramVec
	cache       *prometheus.CounterVec
	signIns     *prometheus.CounterVec
	refused     *prometheus.CounterVec
	ignored     *prometheus.CounterVec
	accept      prometheus.Counter
	headerWait  prometheus.Counter
	jobs        *prometheus.GaugeVec
	ready       prometheus.Gauge
	webhooks    *webhookMetrics
	received    *prometheus.CounterVec
}

// durations range from a fast read to the longest time that a client waits.
var durations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// NewMetrics returns metrics at zero. version is that of the binary.
func NewMetrics(version string) *Metrics {
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(histogram("atrium_http_request_duration_seconds",
			"Time from the headers of a request to the end of its response.", durations), []string{"method", "route", "status"}),
		batch: prometheus.NewHistogram(histogram("atrium_ingest_batch_entries",
			"Entries per commit.", []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024})),
		wait: prometheus.NewHistogram(histogram("atrium_ingest_wait_seconds",
			"Time from queuing an entry to the start of its commit.", durations)),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "atrium_ingest_rejected_total",
			Help: "Entries rejected because the queue was full or the service was stopping.",
		}),
		entries: newByTenant("atrium_ingest_entries_total", "Entries stored, by tenant and source.", true),
		refusals: newByTenant("atrium_tenant_refused_total",
			"Requests and entries refused by a limit or a full queue, by tenant.", false),
		transaction: prometheus.NewHistogramVec(histogram("atrium_store_write_duration_seconds",
			"Duration of a write transaction, including the durable commit.", durations), []string{"result"}),
		checkpoint: prometheus.NewHistogramVec(histogram("atrium_sqlite_checkpoint_duration_seconds",
			"Duration of a WAL checkpoint.", durations), []string{"mode", "result"}),
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atrium_auth_key_lookups_total", Help: "API key lookups, by source: cache or store.",
		}, []string{"source"}),
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atrium_console_sign_ins_total", Help: "Sign-ins to the console through the identity provider, by result.",
		}, []string{"result"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atrium_limit_refused_total", Help: "Connections and requests refused, by limit.",
		}, []string{"limit"}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atrium_http_ignored_fields_total",
			Help: "Fields and query parameters of requests to the external API that had no effect, by route.",
		}, []string{"route"}),
		accept: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "atrium_http_accept_errors_total", Help: "Failed attempts to accept a connection.",
		}),
		headerWait: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "atrium_http_header_wait_seconds_total", Help: "Time that HTTP/2 connections were paused for large header blocks.",
		}),
		jobs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "atrium_job_last_success_timestamp_seconds",
			Help: "When a background job last succeeded, or the process started.",
		}, []string{"name"}),
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atrium_receiver_requests_total", Help: "Requests to receivers, by provider and outcome.",
		}, []string{"provider", "outcome"}),
		ready: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "atrium_ready", Help: "1 if /readyz returns 200, otherwise 0.",
		}),
	}
	for _, by := range refusals {
		m.refused.WithLabelValues(string(by))
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "atrium_build_info", Help: "Always 1; the labels have the versions.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.batch, m.wait, m.rejected, m.entries, m.refusals, m.transaction, m.checkpoint, m.cache, m.signIns,
		m.refused, m.ignored, m.accept, m.headerWait, m.received, m.jobs, m.ready, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.webhooks = newWebhookMetrics(m.registry)
	return m
}

// SignIn counts a sign-in to the console through the identity provider.
func (m *Metrics) SignIn(result string) { m.signIns.WithLabelValues(result).Inc() }

// ExpectSignIns adds a series for each result that SignIn counts.
func (m *Metrics) ExpectSignIns(results []string) {
	for _, result := range results {
		m.signIns.WithLabelValues(result)
	}
}

// Received counts a request to a receiver. Provider and outcome have few values.
func (m *Metrics) Received(provider, outcome string) {
	m.received.WithLabelValues(provider, outcome).Inc()
}

// ExpectReceived adds the series that Received counts.
func (m *Metrics) ExpectReceived(provider, outcome string) {
	m.received.WithLabelValues(provider, outcome)
}

// Gauge registers a value that is read when metrics are gathered.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Counter registers a counter that value returns.
func (m *Metrics) Counter(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// Ready sets the function that reports whether the service is ready. Call it before metrics
// are first gathered. Gather calls the function first, so that the connection with which it
// pings the database does not count as in use.
func (m *Metrics) Ready(is func() bool) { m.isReady = is }

// Gather returns the current metrics.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	if m.isReady != nil {
		ready := 0.0
		if m.isReady() {
			ready = 1
		}
		m.ready.Set(ready)
	}
	return m.registry.Gather()
}

// Handler serves the metrics in the Prometheus formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m, promhttp.HandlerOpts{})
}

// Request counts a request. The route is a pattern and the method one that HTTP defines, so
// clients cannot create labels.
func (m *Metrics) Request(x *Exchange) {
	method, route := x.method(), x.Route
	if route == "" {
		method, route = "other", "other"
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(x.Status)).Observe(x.Duration.Seconds())
	if x.IgnoredFields > 0 {
		m.ignored.WithLabelValues(route).Add(float64(x.IgnoredFields))
	}
	if x.Refused != "" {
		m.Refused(x.Refused)
		if x.TenantID != "" {
			m.refusals.refused(x.TenantID)
		}
	}
}

// Refused counts a connection or request that a limit refused.
func (m *Metrics) Refused(by Refusal) { m.refused.WithLabelValues(string(by)).Inc() }

// AcceptFailed counts a failed attempt to accept a connection.
func (m *Metrics) AcceptFailed() { m.accept.Inc() }

// HeadersPaused counts the time that an HTTP/2 connection was paused for large header blocks.
func (m *Metrics) HeadersPaused(d time.Duration) { m.headerWait.Add(d.Seconds()) }

// Batch counts a commit and its entries.
func (m *Metrics) Batch(entries int) { m.batch.Observe(float64(entries)) }

// Waited counts the time that an entry spent in the queue.
func (m *Metrics) Waited(d time.Duration) { m.wait.Observe(d.Seconds()) }

// Stored counts the entries that a commit has stored.
func (m *Metrics) Stored(drafts []*atrium.Draft, outcomes []atrium.Outcome) {
	m.entries.stored(drafts, outcomes)
}

// Rejected counts an entry that was rejected.
func (m *Metrics) Rejected(tenant atrium.TenantID) {
	m.rejected.Inc()
	m.refusals.refused(tenant)
}

// Wrote counts a write transaction.
func (m *Metrics) Wrote(_ context.Context, d time.Duration, _ int, committed bool) {
	m.transaction.WithLabelValues(transactionResult(committed)).Observe(d.Seconds())
}

func transactionResult(committed bool) string {
	if committed {
		return "committed"
	}
	return "rolled_back"
}

// Checkpointed counts a checkpoint of a write-ahead log.
func (m *Metrics) Checkpointed(mode string, d time.Duration, done bool) {
	result := "failed"
	if done {
		result = "done"
	}
	m.checkpoint.WithLabelValues(mode, result).Observe(d.Seconds())
}

// LookedUp counts a key that was verified from the cache or from the store.
func (m *Metrics) LookedUp(cached bool) {
	source := "store"
	if cached {
		source = "cache"
	}
	m.cache.WithLabelValues(source).Inc()
}

// JobSucceeded records that a background job ran without an error.
func (m *Metrics) JobSucceeded(name string) { m.jobs.WithLabelValues(name).SetToCurrentTime() }
