package atrium

import "time"

// A Webhook is an address to which Atrium sends the events of a tenant. Each event that it selects is
// delivered at least once, always with the same identifier and the same body.
type Webhook struct {
	ID       WebhookID
	TenantID TenantID
	WebhookSpec

	Enabled        bool
	DisabledReason DisabledReason // "" while it is enabled
	DisabledAt     *Time          // nil while it is enabled, and for DisabledByCopy

	// FailingSince is the time of the first failed attempt after the last successful one, nil if there is none.
	FailingSince *Time

	Cursor       int64 // the position up to which every event is recorded as a delivery or not selected
	Lost         int64 // events that expired in the feed before the webhook reached them, selected or not
	FilterFaults int64 // events that were delivered because Filter failed for them
	CreatedAt    Time
	UpdatedAt    Time // of the last change of the fields above, except for FailingSince, Cursor, Lost and FilterFaults, or of its secrets
}

// A WebhookSpec has the settings of a webhook that operators choose. Empty selections select every event.
type WebhookSpec struct {
	Description string
	URL         string
	EventTypes  []EventType
	Sources     []string  // of entries; a webhook with sources gets no events without an entry
	EntryTypes  []string  // as Sources
	AccountID   AccountID // whose events are selected; "" for all
	Filter      string    // a CEL expression, evaluated after the other selections; "" for none
	Format      WebhookFormat
	Ordered     bool  // one delivery of an account, or of another subject, is in flight at a time
	RateLimit   int64 // requests a second; 0 for no limit
}

// A WebhookFormat is the form of the requests of a webhook.
type WebhookFormat string

// The formats.
const (
	FormatStandard    WebhookFormat = "standard"    // the body of Atrium, signed as Standard Webhooks
	FormatLegacy      WebhookFormat = "legacy"      // the body and headers of the hosted service whose API Atrium implements
	FormatCloudEvents WebhookFormat = "cloudevents" // the structured mode of CloudEvents 1.0, signed as Standard Webhooks
)

// A DisabledReason says why a webhook is disabled.
type DisabledReason string

// The reasons.
const (
	DisabledByOperator DisabledReason = "operator"
	DisabledByFailures DisabledReason = "failures" // all attempts have failed for MaxFailing
	DisabledByGone     DisabledReason = "gone"     // the endpoint has responded with 410
	DisabledByCopy     DisabledReason = "copy"     // the database is a copy, and two must not deliver
)

// Limits of webhooks.
const (
	MaxWebhooks           = 100 // of a tenant
	MaxWebhookDescription = 200 // code points
	MaxWebhookURL         = 2048
	MaxWebhookSelections  = 50 // of event types, of sources, and of entry types
	MaxWebhookFilter      = 4 << 10
	MaxWebhookRate        = 10_000

	// MaxFailing is how long all attempts of a webhook may fail before it is disabled.
	MaxFailing = 5 * 24 * time.Hour

	// MaxDeliveryAttempts is the number of attempts after which a delivery has failed.
	MaxDeliveryAttempts = 10
)

// A WebhookSecret is a value of a webhook that is stored encrypted.
type WebhookSecret struct {
	ID        WebhookSecretID
	Kind      WebhookSecretKind
	Value     []byte // not encrypted
	CreatedAt Time
	ExpiresAt *Time // nil for a current one
}

// A WebhookSecretKind says what a WebhookSecret is.
type WebhookSecretKind string

// The kinds.
const (
	SecretSigning WebhookSecretKind = "signing" // the key of the signatures
	SecretHeaders WebhookSecretKind = "headers" // the custom headers
)

// A Delivery is the delivery of one event to one webhook. It is created with the first result of the event, or by a
// replay. Until then, the event waits in the feed.
type Delivery struct {
	TenantID   TenantID
	WebhookID  WebhookID
	EventID    EventID
	Position   int64 // of the event in the feed
	Type       EventType
	Subject    string  // the account, or what else the event is about; "" for nothing
	EntryID    EntryID // "" for none
	State      DeliveryState
	Attempts   int64
	Earlier    int64         // of Attempts, those before it was last delivered again: they do not count for MaxDeliveryAttempts
	NextAt     *Time         // when the next attempt is due; nil unless it is pending
	CreatedAt  Time          // when its first result was known, or a replay scheduled it
	FinishedAt *Time         // nil while it is pending or waiting
	Status     int           // of the last response; 0 for none
	Error      string        // why the last attempt failed or the delivery was canceled; "" after a success
	Latency    time.Duration // of the last attempt
}

// A DeliveryState is the state of a Delivery.
type DeliveryState string

// The states.
const (
	DeliveryPending   DeliveryState = "pending"   // the next attempt is due at NextAt
	DeliveryWaiting   DeliveryState = "waiting"   // ordered: an earlier delivery of the subject is not finished
	DeliverySucceeded DeliveryState = "succeeded" // a response with a 2xx status
	DeliveryFailed    DeliveryState = "failed"    // MaxDeliveryAttempts attempts have failed
	DeliveryCanceled  DeliveryState = "canceled"  // the data of the event was erased, or it is no longer stored
)

// DeliveryStates returns all states.
func DeliveryStates() []DeliveryState {
	return []DeliveryState{DeliveryPending, DeliveryWaiting, DeliverySucceeded, DeliveryFailed, DeliveryCanceled}
}

// An Attempt is one request of a Delivery.
type Attempt struct {
	Number   int64 // 1 for the first of the delivery
	At       Time
	Duration time.Duration
	Status   int    // of the response; 0 for none
	Error    string // "" for a response with a 2xx status
	Response []byte // the first MaxAttemptResponse bytes of the response's body
}

// How long finished deliveries are stored.
const (
	DefaultDeliveryRetention = 30 * 24 * time.Hour
	MinDeliveryRetention     = 24 * time.Hour
	MaxDeliveryRetention     = 365 * 24 * time.Hour
)

// MaxAttemptResponse is the number of bytes of a response that are stored.
const MaxAttemptResponse = 4 << 10

// A DeliveryFilter selects the deliveries of a webhook that match all of its fields. Zero fields match every
// delivery.
type DeliveryFilter struct {
	State        DeliveryState
	EventID      EventID
	EntryID      EntryID
	Since, Until *Time // of CreatedAt
}

// A Replay delivers the selected events of a range of positions again, in the background.
type Replay struct {
	ID         ReplayID
	TenantID   TenantID
	WebhookID  WebhookID
	From, To   int64 // the first and the last position
	Cursor     int64 // the position up to which events are scheduled
	Rate       int64 // events a second
	FailedOnly bool  // only deliveries that have failed
	Scheduled  int64 // events that were scheduled so far
	Actor      string
	CreatedAt  Time
	FinishedAt *Time // when all were scheduled, or it was canceled; nil while it runs
}

// Limits of replays.
const (
	MaxReplays        = 10 // of a webhook that run
	DefaultReplayRate = 50
	MaxReplayRate     = 1000
)

// A WebhookHour has the attempts of a webhook in one hour.
type WebhookHour struct {
	StartsAt   Time
	Attempts   int64
	Succeeded  int64
	Latency    time.Duration // the sum over all attempts
	MaxLatency time.Duration
}

// ActorDelivery is the actor of changes that the delivery of events makes.
const ActorDelivery = "delivery"
