package atrium

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// Actors that are no keys.
const (
	ActorCommandLine = "command line" // somebody at a terminal, with the database
	ActorSchedule    = "schedule"     // what was scheduled and came due
)

// The actions that may take the details out of earlier rows (Store.redact).
const (
	ActionEraseAccount   = "account.erase"
	ActionDeleteProspect = "prospect.delete"
)

// OperatorChain is the identifier under which acts are recorded that concern no
// tenant. No tenant has it.
const OperatorChain TenantID = "tenant_00000000000000000000000000"

// A Change is what every change that is made for an operator carries.
type Change struct {
	TenantID  TenantID // whose data is changed; OperatorChain for what is no tenant's
	Actor     string   // the identifier of a key, or one of the other actors
	RequestID string   // "" if it was no request

	// With an idempotency key the change is made once, and what came of it is
	// returned again to the same request.
	IdempotencyKey string
	Fingerprint    []byte // what makes it the same request as another; nil without a key
}

// CommandLine returns what a change to a tenant's data carries that is made at the
// command line; that of no tenant's for OperatorChain.
func CommandLine(tenant TenantID) Change {
	return Change{TenantID: tenant, Actor: ActorCommandLine}
}

// An AuditRow is the record of one change, and a link of the chain of its tenant:
// its hash covers the hash of the row before it, so that a row which is altered or
// missing breaks the chain.
type AuditRow struct {
	Number     int64 // 1 for the first of its tenant, and one more for each
	At         Time
	Actor      string
	Action     string // what was done, as in page.publish
	Subject    string // the identifier of what it was done to
	RequestID  string // "" if it was no request
	Detail     []byte // a JSON object, with what was before and after; nil once redacted
	Salt       []byte // makes DetailHash tell nothing of Detail; nil once redacted
	DetailHash []byte // SHA-256 of Salt and Detail
	Hash       []byte // SHA-256 over all of the row but Detail and Salt, and the hash before it
}

// Seal makes the row the one after that with the hash, in the chain of the tenant.
// The first row of a chain comes after nil.
func (r *AuditRow) Seal(tenant TenantID, previous []byte) {
	r.Salt = make([]byte, 16)
	_, _ = rand.Read(r.Salt) // never fails: crypto/rand ends the process instead
	r.DetailHash = r.detailHash()
	r.Hash = r.hash(tenant, previous)
}

// Follows reports whether the row is what was sealed, after the row with the hash,
// in the chain of the tenant. Of a row that was redacted it says nothing about the
// detail.
func (r *AuditRow) Follows(tenant TenantID, previous []byte) bool {
	return (r.Redacted() || bytes.Equal(r.DetailHash, r.detailHash())) && bytes.Equal(r.Hash, r.hash(tenant, previous))
}

// Redacted reports whether the detail was taken out.
func (r *AuditRow) Redacted() bool { return r.Detail == nil && r.Salt == nil }

func (r *AuditRow) detailHash() []byte {
	h := sha256.New()
	h.Write(r.Salt)
	h.Write(r.Detail)
	return h.Sum(nil)
}

// hash is the SHA-256 of the format's version and of the members in their order,
// each with its length before it.
func (r *AuditRow) hash(tenant TenantID, previous []byte) []byte {
	const version = 1
	b := []byte{version}
	for _, part := range [][]byte{
		previous, []byte(tenant), binary.BigEndian.AppendUint64(nil, uint64(r.Number)), binary.BigEndian.AppendUint64(nil, uint64(r.At)),
		[]byte(r.Actor), []byte(r.Action), []byte(r.Subject), []byte(r.RequestID), r.DetailHash,
	} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}
