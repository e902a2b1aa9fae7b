package atrium

import "time"

// A Read is a request that has read personal data: prospects, payloads, or audit records about them. Equal
// requests within a second are one Read, with a count.
type Read struct {
	ID        ReadID
	TenantID  TenantID
	At        Time   // of the first
	Count     int64  // at least 1
	RequestID string // of the first
	Kind      ReadKind
	Subject   string // the identifier of the account, prospect, entry or delivery; "" for a list or an export
	Route     string // the pattern of the path
	KeyID     KeyID  // "" for a user
	UserID    UserID // "" for a key
}

// A ReadKind is what a request has read.
type ReadKind string

// The kinds.
const (
	ReadAccount  ReadKind = "account"  // with its prospects or its activity
	ReadProspect ReadKind = "prospect" // one
	ReadEntry    ReadKind = "entry"    // with its payload
	ReadDelivery ReadKind = "delivery" // in quarantine, with its body
	ReadList     ReadKind = "list"     // of entries, prospects or audit records
	ReadExport   ReadKind = "export"   // of a tenant, a person or an audit log
)

// ReadLife is how long a Read is stored.
const ReadLife = 90 * 24 * time.Hour

// A ReadFilter selects the reads that match all of its fields. Zero fields match every read.
type ReadFilter struct {
	Actor        string // the identifier of a user or key
	Subject      string
	Kind         ReadKind
	Since, Until *Time
}
