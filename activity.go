package atrium

// DefaultType is the type of an entry that was sent without one.
const DefaultType = "webhook"

// A Claim is what a sender said about the account of an entry, as it was sent.
// "" stands for a member that was left out: none of them can be empty.
type Claim struct {
	AccountID AccountID
	Domain    string
	Name      string
}

// A Submission is a piece of account activity as an upstream system sent it,
// valid by the contract.
type Submission struct {
	Source         string // 1 to MaxSource code points
	Type           string // 1 to MaxType code points
	Payload        []byte // a JSON object, byte for byte as it was sent
	Claim          Claim
	OccurredAt     *Time  // when it happened, as the sender knows; nil if it did not say
	IdempotencyKey string // at most MaxIdempotencyKey code points; "" for none
}

// A Draft is a Submission made ready to be recorded for a tenant: with the
// canonical forms by which it is matched.
type Draft struct {
	ID       EntryID // given out before the first attempt to record it, so that a second one is known
	TenantID TenantID
	Submission
	Domain       string // the canonical form of Claim.Domain, "" if there is none
	LegacyDomain string // the legacy form of Claim.Domain (canonical.DomainForms), "" if there is none
	NameKey      string // the case-folded form of Claim.Name, "" if there is none
	Fingerprint  []byte // what makes it the same request as another, nil without an idempotency key
}

// Size is about how many bytes the draft holds in memory.
func (d *Draft) Size() int {
	return 512 + len(d.Payload) + len(d.Source) + len(d.Type) + len(d.IdempotencyKey) +
		len(d.Claim.Domain) + len(d.Claim.Name) + len(d.Domain) + len(d.LegacyDomain) + len(d.NameKey)
}

// An Entry is a recorded piece of account activity. Nothing of it ever changes but
// the account that it belongs to, which operators may correct.
type Entry struct {
	ID             EntryID
	TenantID       TenantID
	AccountID      AccountID
	AcknowledgedID AccountID // the account that its receipt names, if that is another one; else ""
	CreatedAt      Time
	Submission
}

// A Receipt acknowledges an entry. It is given only once the entry is durable,
// and is the same for every request with the same idempotency key.
type Receipt struct {
	EntryID   EntryID
	AccountID AccountID
	CreatedAt Time
	Source    string
	Type      string
	Replayed  bool // an earlier request with the same key recorded it
}

// An Outcome is what became of one Draft: a Receipt, or the reason why there
// is none.
type Outcome struct {
	Receipt
	Err error
}
