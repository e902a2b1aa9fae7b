package store

import "atrium/internal/store/webhooks"

// ErrLeaseLost means that the lease of a webhook has passed to another node, or the webhook was deleted.
var ErrLeaseLost = webhooks.ErrLeaseLost

// What nodes exchange with the Store to deliver events.
type (
	// A DueWebhook is a webhook that a node may lease.
	DueWebhook = webhooks.DueWebhook
	// A Lease is the right of a node to deliver for a webhook.
	Lease = webhooks.Lease
	// A LeaseState is what a node looks at while it delivers for a webhook.
	LeaseState = webhooks.LeaseState
	// A LeasedWebhook has what its node needs to deliver for a webhook.
	LeasedWebhook = webhooks.LeasedWebhook
	// Results are what a node has done for a webhook since the last time.
	Results = webhooks.Results
	// An Outcome is a delivery with the result of an attempt.
	Outcome = webhooks.Outcome
)
