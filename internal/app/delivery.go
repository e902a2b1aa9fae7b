package app

import (
	"context"
	"fmt"
	"time"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/delivery"
	"atrium/internal/limit"
	"atrium/internal/resource"
	"atrium/internal/rest"
	"atrium/internal/webhook"
)

// A deliverer delivers events to webhooks.
type deliverer struct {
	*delivery.Dispatcher
	sender *webhook.Sender
}

// othersTime is how long after a request a tenant counts as using the node.
const othersTime = 2 * time.Second

// newDeliverer returns a deliverer, nil if the settings allow no requests to webhooks.
func newDeliverer(c Config, limits *rest.Limits, tenants *limit.Recent[atrium.TenantID]) (*deliverer, error) {
	if c.Settings.WebhookRequests == 0 {
		return nil, nil
	}
	allow, err := config.Networks(c.Settings.WebhookAllow)
	if err != nil {
		return nil, fmt.Errorf("webhook-allow: %w", err)
	}
	d := &deliverer{sender: webhook.NewSender(webhook.Config{Allow: allow})}
	settings := delivery.Config{
		Store: c.Store, Sender: d.sender, Encode: resource.Event, Log: c.Log, MaxRequests: c.Settings.WebhookRequests,
		AcquireHeavy: limits.AcquireDelivery,
		OthersActive: func(tenant atrium.TenantID) bool { return tenants.Others(tenant, time.Now().Add(-othersTime)) },
	}
	if c.Metrics != nil {
		settings.Observe = c.Metrics
		var failures []string
		for _, failure := range webhook.Failures() {
			failures = append(failures, string(failure))
		}
		c.Metrics.ExpectAttempts(failures)
	}
	d.Dispatcher = delivery.New(settings)
	return d, nil
}

// deliver delivers until ctx ends or stop is called. Requests in flight may then end until drain does. ended is closed after that.
func (a *App) deliver(ctx context.Context) (stop func(drain context.Context) (ended <-chan struct{})) {
	ended := make(chan struct{})
	if a.deliverer == nil {
		close(ended)
		return func(context.Context) <-chan struct{} { return ended }
	}
	delivering, end := context.WithCancel(ctx)
	sending, abort := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		defer a.deliverer.sender.Close()
		a.deliverer.Run(delivering, sending)
	}()
	return func(drain context.Context) <-chan struct{} {
		end()
		context.AfterFunc(drain, abort)
		return ended
	}
}

// measureDeliveries registers the gauges of webhooks.
func (a *App) measureDeliveries(c Config) {
	m := c.Metrics
	m.Gauge("atrium_webhook_leases", "Webhooks for which this node delivers now.", func() float64 {
		if a.deliverer == nil {
			return 0
		}
		return float64(a.deliverer.Leases())
	})
	m.Gauge("atrium_webhook_requests_in_flight", "Requests to webhooks in flight.", func() float64 {
		if a.deliverer == nil {
			return 0
		}
		return float64(a.deliverer.InFlight())
	})
	m.Gauge("atrium_webhook_lag_seconds", "Age of the oldest event that was read for a webhook of this node and has no result yet.", func() float64 {
		if a.deliverer == nil {
			return 0
		}
		return a.deliverer.Lag().Seconds()
	})
	m.Gauge("atrium_webhook_wait_seconds", "Time for which the webhook that has waited longest has been due, and no node has leased it.", func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		backlog, err := c.Store.Backlog(ctx)
		if err != nil || backlog.Waiting == nil {
			return 0
		}
		return max(0, c.Store.Now().Sub(backlog.Waiting.Std()).Seconds())
	})
}
