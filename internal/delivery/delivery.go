// Package delivery sends the events of tenants to their webhooks.
//
// A Dispatcher leases webhooks for which there may be work, and runs a session for each. A session reads the feed after
// the position of the webhook, sends the events that it selects, a few at a time, and stores the results, many in one
// transaction. The position follows: all events up to it are stored as deliveries or not selected. When a process dies,
// the next session begins at the stored position and leaves out the events that have a delivery, so each selected event
// is sent at least once, and twice only if its result was not stored.
//
// A first attempt that fails becomes a stored delivery, which is due again later. So one event that an endpoint
// refuses delays no other one, and retries do not depend on the feed's position.
//
// A circuit breaker protects failing endpoints: after maxConsecutiveFailures failures the session ends, and a later one probes the
// endpoint with a single request. The other events keep their attempts.
package delivery

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/webhook"
)

// A Store has the methods of store.Store that a Dispatcher uses.
type Store interface {
	Now() time.Time

	DueWebhooks(ctx context.Context, limit int) ([]store.DueWebhook, error)
	Woken() <-chan struct{}
	ClaimWebhook(ctx context.Context, due store.DueWebhook, node []byte, life time.Duration) (store.Lease, bool, error)
	LeasedWebhook(ctx context.Context, lease store.Lease) (store.LeasedWebhook, error)
	RenewLease(ctx context.Context, lease store.Lease, life time.Duration) (store.LeaseState, error)
	LeaseState(ctx context.Context, lease store.Lease) (store.LeaseState, error)
	ReleaseWebhook(ctx context.Context, lease store.Lease, at atrium.Time) error
	IdleWebhook(ctx context.Context, lease store.Lease) (bool, error)

	Events(ctx context.Context, tenant atrium.TenantID, after int64, limit int) ([]atrium.Event, error)
	EventsAt(ctx context.Context, tenant atrium.TenantID, positions []int64) ([]atrium.Event, error)
	EventsChanged(tenant atrium.TenantID) <-chan struct{}

	RecordResults(ctx context.Context, lease store.Lease, results store.Results) (store.LeaseState, error)
	DueDeliveries(ctx context.Context, lease store.Lease, limit int) ([]atrium.Delivery, error)
	RecordedPositions(ctx context.Context, lease store.Lease, first, last int64, limit int) (map[int64]bool, error)
	UnfinishedSubjects(ctx context.Context, lease store.Lease, subjects []string) (map[string]bool, error)

	Replay(ctx context.Context, tenant atrium.TenantID, webhook atrium.WebhookID, id atrium.ReplayID) (atrium.Replay, error)
	ScheduleReplay(ctx context.Context, lease store.Lease, id atrium.ReplayID, cursor int64, deliveries []atrium.Delivery) error
}

// A Sender sends a message to an endpoint once. webhook.Sender is one.
type Sender interface {
	Send(ctx context.Context, e webhook.Endpoint, m webhook.Message, now time.Time) webhook.Attempt
}

// An Observer receives what a Dispatcher does. Its methods must return at once and be safe for concurrent use.
type Observer interface {
	// Attempted reports an attempt. failure is a webhook.Failure, "" for an attempt that succeeded.
	Attempted(failure string, d time.Duration)

	// Finished reports a delivery that has ended in a state.
	Finished(state atrium.DeliveryState)

	// Disabled reports a webhook that was disabled because of the results of its attempts.
	Disabled(reason atrium.DisabledReason)

	// Lost reports events that expired before a webhook reached them.
	Lost(events int64)
}

// Config has what a Dispatcher needs.
type Config struct {
	Store   Store
	Sender  Sender
	Encode  func(*atrium.Event) ([]byte, error) // the JSON of an event; see resource.Event
	Log     *slog.Logger
	Observe Observer // nil for none

	MaxRequests int // in flight, of all webhooks

	// OthersActive reports whether other tenants use the process for anything but deliveries. If so, the rate of the tenant's
	// requests is limited. nil if only deliveries use the process.
	OthersActive func(atrium.TenantID) bool

	// AcquireHeavy waits until a tenant may use a processor for longer than a small request; nil for no limit. The
	// caller releases it.
	AcquireHeavy func(ctx context.Context, tenant atrium.TenantID) (release func(), err error)
}

// Limits of a process and of a webhook.
const (
	maxSessions       = 128 // leases that it holds
	maxTenantSessions = 32
	tenantShare       = 4 // a tenant has at most 1/tenantShare of MaxRequests in flight
	maxConcurrency    = 16
	windowEvents      = 128       // that a session reads at once, before it has sent half of them
	maxLiveBytes      = 512 << 10 // of the bodies of those that have no result; one read may exceed it
	maxStoring        = 2         // transactions of a tenant that store results: others need connections, too

	// maxOutcomes is the maximum number of outcomes per transaction. 256 throttles fast endpoints, because each transaction costs a
	// sync and an equal pause; 1024 delays appends.
	maxOutcomes = 512

	// maxLive is the maximum number of events that a session has read and whose results are not stored: those of a running
	// transaction, those of the next one, and those to be sent.
	maxLive = 2*maxOutcomes + 2*windowEvents

	skippedEvents          = 1000 // by which the cursor advances at most before it is stored, although no event was selected
	dueLimit               = 16   // deliveries that are read at once
	maxConsecutiveFailures = 5    // after which a session ends

	maxBurst        = 50       // requests of a tenant that begin at once
	bytesPerRequest = 64 << 10 // of a body; a longer one counts as several requests

	// handshakeRequests is how many more requests one with a TLS handshake counts as: it takes 3 to 4 ms of a processor.
	handshakeRequests = 12

	// A request counts as one more for each receivedPerRequest of a response, without its first freeReceived. With nothing but messages
	// of TLS that must be answered, they take 0.1 to 0.25 ms of a processor.
	freeReceived       = 4 << 10
	receivedPerRequest = 1 << 10

	// selectTime is how long a session selects events before other heavy work of its tenant may run. It selects at least one
	// event.
	selectTime = 20 * time.Millisecond
)

// requestInterval is the minimum interval between a tenant's requests while other tenants use the process. A request costs about
// 300 µs of processor time, including the storing of its result, so a tenant uses at most about a sixth of the processors.
var requestInterval = 2 * time.Millisecond / time.Duration(runtime.GOMAXPROCS(0))

// A timing has the times of a Dispatcher.
type timing struct {
	poll       time.Duration // between polls for what other processes have done
	lease      time.Duration
	flush      time.Duration // an outcome is stored after this time at the latest
	linger     time.Duration // a session without work ends after this time
	forget     time.Duration // an event that is not sent is read again after this time
	slice      time.Duration // a session ends after this time if others wait
	minPause   time.Duration // of a failing webhook
	maxPause   time.Duration
	storeRetry time.Duration // after an error of the store
	next       func(attempts int, now time.Time, retryAfter time.Duration) (at time.Time, more bool)
}

var usualTiming = timing{
	poll: time.Second, lease: 10 * time.Second, flush: 200 * time.Millisecond, linger: 3 * time.Second, forget: 5 * time.Second, slice: 10 * time.Second,
	minPause: 5 * time.Second, maxPause: 5 * time.Minute, storeRetry: time.Second, next: webhook.NextAttempt,
}
