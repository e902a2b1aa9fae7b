package app

import (
	"context"
	"net/http"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/ingest"
	"atrium/internal/limit"
	"atrium/internal/requestlog"
	"atrium/internal/telemetry"
)

// observers receive the events of the service. A nil observer is not called.
type observers struct {
	ingest  ingest.Observer
	auth    auth.Observer
	trace   ingest.Tracer
	begin   func(*http.Request) context.Context
	request func(context.Context, *telemetry.Exchange)
	refused func(telemetry.Refusal) // reports a refused connection

	acceptFailed  func(error)
	headersPaused func(time.Duration)

	requests *requestlog.Recorder
	tenants  *limit.Recent[atrium.TenantID] // with requests
}

func newObservers(c Config) (w observers) {
	log, refusals := telemetry.RequestLog(c.Log, c.Settings.LogSample), telemetry.NewRefusalLog(c.Log)
	w.request = func(ctx context.Context, x *telemetry.Exchange) {
		log(ctx, x)
		refusals.Request(ctx, x)
	}
	w.refused = refusals.Connection
	w.acceptFailed = telemetry.AcceptErrorLog(c.Log)
	if c.Metrics != nil {
		w.ingest, w.auth, w.headersPaused = c.Metrics, c.Metrics, c.Metrics.HeadersPaused
		logged, warned, failed := w.request, w.refused, w.acceptFailed
		w.request = func(ctx context.Context, x *telemetry.Exchange) {
			c.Metrics.Request(x)
			logged(ctx, x)
		}
		w.refused = func(by telemetry.Refusal) {
			c.Metrics.Refused(by)
			warned(by)
		}
		w.acceptFailed = func(err error) {
			c.Metrics.AcceptFailed()
			failed(err)
		}
	}
	if traces := c.Export.Traces(); traces != nil {
		counted := w.request
		w.trace, w.begin = traces, traces.Begin
		w.request = func(ctx context.Context, x *telemetry.Exchange) {
			counted(ctx, x)
			traces.Request(ctx, x)
		}
	}
	w.requests = requestlog.New(c.Store, c.Store.Now)
	w.tenants = &limit.Recent[atrium.TenantID]{}
	reported := w.request
	w.request = func(ctx context.Context, x *telemetry.Exchange) {
		if x.TenantID != "" {
			w.tenants.Use(x.TenantID, time.Now())
		}
		reported(ctx, x)
		w.requests.Observe(x)
	}
	return w
}

// measure registers the gauges, and serves the metrics if they have a listener.
func (a *App) measure(c Config) {
	m, s := c.Metrics, c.Store
	m.Gauge("atrium_ingest_queue_entries", "Entries in the queue.", func() float64 { return float64(a.writer.Waiting()) })
	m.Gauge("atrium_http_connections", "Open client connections.", func() float64 { return float64(a.connections.Open()) })
	m.Gauge("atrium_http_requests_in_flight", "Requests in flight, as max-requests counts them.", func() float64 { return float64(a.limits.InFlight.Held()) })
	m.Gauge("atrium_http_site_requests_in_flight", "Requests for sites in flight: without a key, and with a key that has the scope content:read.", func() float64 { return float64(a.limits.Anonymous.Held() + a.limits.Sites.Held()) })
	m.Gauge("atrium_http_heavy_work", "Heavy work in progress, such as decoding large bodies.", func() float64 { return float64(a.limits.Heavy.Held()) })
	m.Gauge("atrium_store_connections", "Database connections in use.", func() float64 { return float64(s.Stats().Connections) })
	m.Gauge("atrium_store_connection_waits", "Statements and transactions that wait for a connection to a database server.", func() float64 { return float64(s.Stats().Waiting) })
	m.Gauge("atrium_sqlite_file_bytes", "Bytes in the database file.", func() float64 { return float64(s.Stats().FileBytes) })
	m.Gauge("atrium_sqlite_wal_bytes", "Bytes in the write-ahead log, as of the last commit.", func() float64 { return float64(s.Stats().WALBytes) })
	m.Gauge("atrium_auth_cached_keys", "API keys in the cache.", func() float64 { return float64(a.keys.Cached()) })

	m.Gauge("atrium_erasures_pending_tenants", "Tenants with incomplete erasures of persons, as of the last run of the job.", func() float64 { return float64(s.TenantsWithErasures()) })
	m.Gauge("atrium_tenant_deletions", "Tenants that are being deleted, as of the last run of the job.", func() float64 { return float64(s.TenantsBeingDeleted()) })
	m.Counter("atrium_retention_deleted_entries_total", "Entries that retention rules have deleted.", func() float64 { return float64(s.ExpiredEntries()) })
	m.Counter("atrium_events_sequenced_total", "Events that this node has given positions.", func() float64 { return float64(s.SequencedEvents()) })
	m.Gauge("atrium_events_unsequenced_age_seconds", "Age of the oldest event without a position, as of the last look at all tenants.", func() float64 { return s.UnsequencedAge().Seconds() })
	m.Gauge("atrium_webhooks_failing", "Enabled webhooks whose last attempt has failed, as of the last look at all tenants.", func() float64 { return float64(s.DeliveryProblems().FailingWebhooks) })
	m.Gauge("atrium_webhooks_disabled", "Webhooks that were disabled because their endpoints failed or are gone, as of the last look at all tenants.", func() float64 { return float64(s.DeliveryProblems().DisabledWebhooks) })
	m.Gauge("atrium_quarantined_deliveries", "Deliveries to receivers in quarantine, as of the last look at all tenants.", func() float64 { return float64(s.DeliveryProblems().Quarantined) })
	m.Counter("atrium_refused_requests_dropped_total", "Refused requests that are not in the list of their tenant, because too many others were.", func() float64 {
		return float64(a.requests.DroppedRefusedRequests())
	})
	m.Counter("atrium_reads_dropped_total", "Reads of personal data that were not recorded, because too many others were.", func() float64 {
		return float64(a.requests.DroppedReads())
	})
	m.Gauge("atrium_retention_waiting", "1 if, in the last run of the job, retention rules were not applied because the clock has not run steadily for a day.", func() float64 {
		if s.RetentionWaits() {
			return 1
		}
		return 0
	})
	m.Gauge("atrium_tls_certificate_expiry_timestamp_seconds", "Expiry of the TLS certificate, in seconds since 1970; +Inf without TLS.", a.certificate.expiry)
	m.Ready(func() bool { return a.ready.Load() && a.lacksKeys() == nil && ping(context.Background(), s) == nil })
	m.Gauge("atrium_time_seconds", "The clock of the process, in seconds since 1970.", func() float64 { return float64(time.Now().UnixMilli()) / 1000 })
	a.measureDeliveries(c)
	a.succeeded = m.JobSucceeded
	for _, j := range a.jobs {
		m.JobSucceeded(j.name) // so that the alert fires for a job that never succeeds
	}

	if a.measured == nil {
		return // exported, not served
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	if a.settings.Pprof {
		profile(mux)
	}
	a.metrics = newServer(c, mux)
}
