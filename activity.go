package atrium

// DefaultType is the type of an entry that is sent without one.
const DefaultType = "webhook"

// A Claim is the account of an entry according to its sender, exactly as sent. A field
// is "" if the sender omitted it: the API rejects empty values.
type Claim struct {
	AccountID AccountID
	Domain    string
	Name      string
}

// A Submission is an account activity as an upstream system sent it. It is valid
// according to the API.
type Submission struct {
	Source         string // 1 to MaxSource code points
	Type           string // 1 to MaxType code points
	Payload        []byte // a JSON object, exactly as sent
	Claim          Claim
	OccurredAt     *Time  // when it happened according to the sender; nil if omitted
	IdempotencyKey string // at most MaxIdempotencyKey code points; "" for none
}

// A Draft is a Submission of a tenant that is ready to be recorded. It has the canonical
// forms of its claim, which determine its account.
type Draft struct {
	ID       EntryID // assigned before the first attempt to record it, so that a retry is detected
	TenantID TenantID
	Submission
	Domain       string // the canonical form of Claim.Domain; "" for none
	LegacyDomain string // the legacy form of Claim.Domain (canonical.DomainForms); "" for none
	NameKey      string // the case-folded form of Claim.Name; "" for none
	Words        int    // how many words of Claim a search would find, at most 32
	Fingerprint  []byte // identifies the request (canonical.Fingerprint); nil without an idempotency key

	// SubmittedBy and RequestID are those of the entry's Origin.
	SubmittedBy, RequestID string
}

// Size returns the approximate memory use of the draft in bytes.
func (d *Draft) Size() int {
	return 512 + len(d.Payload) + len(d.Source) + len(d.Type) + len(d.IdempotencyKey) +
		len(d.Claim.Domain) + len(d.Claim.Name) + len(d.Domain) + len(d.LegacyDomain) + len(d.NameKey)
}

// An Entry is a recorded account activity. It is immutable, except that operators can
// move it to another account.
type Entry struct {
	ID             EntryID
	TenantID       TenantID
	AccountID      AccountID
	AcknowledgedID AccountID // the account in its receipt, if it differs from AccountID; else ""
	CreatedAt      Time
	Submission

	// IdentifiedByKey means that every request with the idempotency key is the same one, whatever else it has: a delivery
	// to a receiver (canonical.KeyFingerprint).
	IdentifiedByKey bool
}

// A Receipt acknowledges an entry. It is returned only after the entry is durable, and
// is the same for every request with the same idempotency key.
type Receipt struct {
	EntryID   EntryID
	AccountID AccountID
	CreatedAt Time
	Source    string
	Type      string
	Replayed  bool // an earlier request with the same key recorded the entry
}

// An Outcome is the result of recording one Draft: a Receipt or an error.
type Outcome struct {
	Receipt
	Err error
}
