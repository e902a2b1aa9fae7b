package atrium

import "time"

// A Receiver is an address, /in/{receiver_id}, to which another system sends its own webhooks. Each
// verified request becomes entries or is filtered out. If it cannot be mapped, it waits in quarantine.
type Receiver struct {
	ID       ReceiverID
	TenantID TenantID
	ReceiverSpec
	Enabled     bool
	Quarantined int64 // deliveries that wait for a corrected mapping
	CreatedAt   Time
	UpdatedAt   Time // of the last change of the fields above, except for Quarantined, or of its secrets
}

// A ReceiverSpec has the settings of a receiver that operators choose.
type ReceiverSpec struct {
	Name         string
	Provider     ReceiverProvider
	Verification Verification // of ProviderHMAC, ProviderToken and ProviderBasic; else zero
	Source       string       // of the entries
	Mapping      Mapping
}

// A ReceiverProvider names the system that sends webhooks to a Receiver, or the way in which they are verified.
type ReceiverProvider string

// The providers.
const (
	ProviderGitHub           ReceiverProvider = "github"
	ProviderStripe           ReceiverProvider = "stripe"
	ProviderHubSpot          ReceiverProvider = "hubspot" // signatures of version 3
	ProviderSlack            ReceiverProvider = "slack"
	ProviderShopify          ReceiverProvider = "shopify"
	ProviderIntercom         ReceiverProvider = "intercom"
	ProviderSegment          ReceiverProvider = "segment"
	ProviderMeta             ReceiverProvider = "meta"
	ProviderStandardWebhooks ReceiverProvider = "standard_webhooks"

	ProviderHMAC  ReceiverProvider = "hmac"  // a signature as Verification describes it
	ProviderToken ReceiverProvider = "token" // a shared token in a header
	ProviderBasic ReceiverProvider = "basic" // HTTP basic authentication (RFC 7617)
)

// ReceiverProviders returns all providers.
func ReceiverProviders() []ReceiverProvider {
	return []ReceiverProvider{
		ProviderGitHub, ProviderStripe, ProviderHubSpot, ProviderSlack, ProviderShopify, ProviderIntercom, ProviderSegment, ProviderMeta,
		ProviderStandardWebhooks, ProviderHMAC, ProviderToken, ProviderBasic,
	}
}

// A Verification says how the requests of a receiver without a known provider are verified.
type Verification struct {
	Header    string // with the signature or the token; Authorization for ProviderToken has the scheme Bearer
	Algorithm string // of ProviderHMAC: sha1, sha256 or sha512
	Encoding  string // of ProviderHMAC: hex or base64
	Prefix    string // of the value of Header, such as "sha256="; not part of the signature
	Content   string // what ProviderHMAC signs: text with {body}, {timestamp} and {id}; "" for {body}

	TimestampHeader string // with {timestamp}, in seconds or milliseconds since 1970, or in RFC 3339
	IDHeader        string // with {id}, which is also the event's identifier
	Tolerance       int64  // maximum difference between the timestamp and the clock, in seconds

	Username string // of ProviderBasic; the password is the secret
}

// A Mapping says how a delivery becomes entries: expressions in CEL, each "" for the default of the provider.
type Mapping struct {
	Filter     string // a bool: false acknowledges the delivery without an entry
	Type       string // a text, "" for DefaultType
	AccountID  string // a text, "" for none, as the next three
	Domain     string
	Email      string // whose domain names the account, unless it is that of a public mail provider
	Name       string
	OccurredAt string // a text in RFC 3339, a number of seconds or of milliseconds since 1970, or null
	EventID    string // a text or an integer; "" or null for the hash of the payload
}

// Bytes returns the total length of the texts of a specification.
func (s *ReceiverSpec) Bytes() int {
	v, m := &s.Verification, &s.Mapping
	return len(s.Name) + len(s.Source) +
		len(v.Header) + len(v.Algorithm) + len(v.Encoding) + len(v.Prefix) + len(v.Content) + len(v.TimestampHeader) + len(v.IDHeader) + len(v.Username) +
		len(m.Filter) + len(m.Type) + len(m.AccountID) + len(m.Domain) + len(m.Email) + len(m.Name) + len(m.OccurredAt) + len(m.EventID)
}

// Limits of receivers.
const (
	MaxReceivers             = 1000 // of a tenant
	MaxReceiverName          = 200  // code points
	MaxReceiverExpression    = 4 << 10
	MaxReceiverSecret        = 500       // bytes
	MaxReceiverElements      = 1000      // of an array of a delivery
	MaxQuarantined           = 10_000    // deliveries of a tenant; more are refused
	MaxQuarantinedBytes      = 256 << 20 // of their headers, queries and bodies, as MaxQuarantined
	MaxVerificationText      = 200       // code points of each text of a Verification
	MaxReceiverTolerance     = 24 * 60 * 60
	DefaultReceiverTolerance = 5 * 60
)

// A ReceiverSecret is a secret with which requests to a receiver are verified, stored encrypted.
type ReceiverSecret struct {
	ID        ReceiverSecretID
	Value     []byte // not encrypted
	CreatedAt Time
	ExpiresAt *Time // nil for the current one
}

// A QuarantinedDelivery is a verified request that could not be mapped. It is stored as it was received.
type QuarantinedDelivery struct {
	ID         QuarantinedID
	TenantID   TenantID
	ReceiverID ReceiverID
	ReceivedAt Time
	Headers    []Header // without those that authenticate the request
	Query      string
	Body       []byte
	BodyBytes  int64     // the length of Body, also in lists, which leave out Headers, Query and Body
	Fault      string    // why it could not be mapped
	RequestID  RequestID // of the request that brought it
}

// A QuarantineFilter selects deliveries by the time at which they were received. Zero fields match every delivery.
type QuarantineFilter struct {
	Since, Until *Time
}

// How long deliveries are in quarantine before they are deleted.
const (
	DefaultQuarantineRetention = 30 * 24 * time.Hour
	MinQuarantineRetention     = 24 * time.Hour
	MaxQuarantineRetention     = 365 * 24 * time.Hour
)

// A Header is a field of a request.
type Header struct {
	Name  string // in lower case
	Value string
}
