// Package webhooks stores webhooks and their deliveries.
//
// An event becomes a delivery when its first result is known, or when a replay schedules it. Until then it is only in
// the feed, after the position of the webhook (column position). A webhook that is a million events behind therefore
// stores as much as one that is up to date.
//
// One node at a time delivers for a webhook: the one that has leased it. Each lease has an epoch, which is higher
// than those before it. A transaction that writes results locks the row of the webhook and compares the epoch, so
// a node that has lost its lease without noticing writes nothing.
//
// No event is left behind. A webhook is idle, and has no row in webhook_due, only if IdleWebhook has seen that its
// position is the end of the feed, with the head of the feed locked. Every transaction that moves the head calls Wake.
// The lock orders the two: if that transaction commits first, IdleWebhook sees the new head; otherwise, Wake finds the
// webhook idle. A webhook that is not idle has a row in webhook_due, which is due at the end of its lease at the latest.
//
// Transactions lock the head of the feed first, then webhooks, then their other rows, then the head of the audit log.
package webhooks

import (
	"errors"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Store stores webhooks and deliveries. It is safe for concurrent use.
type Store struct {
	db   *kernel.DB
	feed Feed

	// DeliveryRetention is how long finished deliveries are stored. Set it before the first call.
	DeliveryRetention time.Duration

	woken chan struct{}
}

// A Feed is what the Store needs of the events of a tenant.
type Feed struct {
	// Enable enables the events of the tenant of the change, unless they are enabled. It locks the head of the feed.
	Enable func(tx *kernel.Mutation) error

	// LockHead locks the head of a feed and returns the position of the next event.
	LockHead func(tx engine.Tx, tenant atrium.TenantID) (next int64, err error)

	// AnyAfter reports whether there may be events after a position, before that of the next event.
	AnyAfter func(tx engine.Tx, tenant atrium.TenantID, after, next int64) (bool, error)
}

// New returns a Store on a database.
func New(db *kernel.DB, feed Feed) *Store {
	return &Store{db: db, feed: feed, DeliveryRetention: atrium.DefaultDeliveryRetention, woken: make(chan struct{}, 1)}
}

// ErrLeaseLost means that the lease of a webhook has passed to another node, or the webhook was deleted. Nothing was
// written.
var ErrLeaseLost = errors.New("the lease of the webhook was lost")

// A Lease is the right of a node to deliver for a webhook.
type Lease struct {
	TenantID  atrium.TenantID
	WebhookID atrium.WebhookID
	Epoch     int64
}

// args returns the key of the webhook as arguments.
func (l *Lease) args(more ...any) engine.Args {
	return append(engine.Args{kernel.IDArg(l.TenantID), kernel.IDArg(l.WebhookID)}, more...)
}

// The values of webhooks.idle.
const (
	notIdle  = 0
	idle     = 1
	disabled = 2
)
