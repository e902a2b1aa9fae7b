package telemetry

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"atrium"
)

// webhookMetrics are the metrics of deliveries to webhooks.
type webhookMetrics struct {
	attempts   *prometheus.HistogramVec
	deliveries *prometheus.CounterVec
	lost       prometheus.Counter
	disabled   *prometheus.CounterVec
}

// delivered is the result of an attempt that succeeded.
const delivered = "succeeded"

func newWebhookMetrics(r prometheus.Registerer) *webhookMetrics {
	m := &webhookMetrics{
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "atrium_webhook_attempt_duration_seconds", Help: "Time of an attempt to deliver an event to a webhook, by result.", Buckets: durations,
		}, []string{"result"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atrium_webhook_deliveries_total", Help: "Deliveries of events to webhooks that have ended, by state.",
		}, []string{"state"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "atrium_webhook_lost_events_total", Help: "Events that expired before a webhook reached them.",
		}),
		disabled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "atrium_webhook_disabled_total", Help: "Webhooks that this node has disabled, by reason.",
		}, []string{"reason"}),
	}
	m.attempts.WithLabelValues(delivered)
	for _, state := range []atrium.DeliveryState{atrium.DeliverySucceeded, atrium.DeliveryFailed, atrium.DeliveryCanceled} {
		m.deliveries.WithLabelValues(string(state))
	}
	for _, reason := range []atrium.DisabledReason{atrium.DisabledByFailures, atrium.DisabledByGone} {
		m.disabled.WithLabelValues(string(reason))
	}
	r.MustRegister(m.attempts, m.deliveries, m.lost, m.disabled)
	return m
}

// Attempted counts an attempt to deliver an event to a webhook. failure is "" for one that succeeded.
func (m *Metrics) Attempted(failure string, d time.Duration) {
	m.webhooks.attempts.WithLabelValues(cmp.Or(failure, delivered)).Observe(d.Seconds())
}

// ExpectAttempts adds a series for each failure that Attempted counts.
func (m *Metrics) ExpectAttempts(failures []string) {
	for _, failure := range failures {
		m.webhooks.attempts.WithLabelValues(failure)
	}
}

// Finished counts a delivery that has ended in a state.
func (m *Metrics) Finished(state atrium.DeliveryState) {
	m.webhooks.deliveries.WithLabelValues(string(state)).Inc()
}

// Lost counts events that expired before a webhook reached them.
func (m *Metrics) Lost(events int64) { m.webhooks.lost.Add(float64(events)) }

// Disabled counts a webhook that was disabled.
func (m *Metrics) Disabled(reason atrium.DisabledReason) {
	m.webhooks.disabled.WithLabelValues(string(reason)).Inc()
}
