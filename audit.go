package atrium

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Actors that are no keys.
const (
	ActorCommandLine = "command line" // somebody at a terminal, with the database
	ActorSchedule    = "schedule"     // what was scheduled and came due
)

// The actions that may redact earlier rows. Their own rows are never redacted, since
// they are what justifies a redaction.
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

	// Admit waits until a transaction of the change may begin. It is called with large set
	// if the transaction turned out to read or write much: only few of those run at a time.
	// nil admits every transaction.
	Admit func(ctx context.Context, large bool) (release func(), err error)
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
	Salt       []byte // saltLen random bytes that keep DetailHash from telling Detail; nil once redacted
	DetailHash []byte // SHA-256 over Salt and Detail
	Hash       []byte // SHA-256 over all of the row but Detail and Salt, and the hash before it
}

// The versions of the seal: DetailHash and Hash. Version 1 hashes Salt and Detail without
// their lengths, and is unambiguous only because the length of Salt is fixed.
const (
	sealVersion1 = 1
	sealVersion2 = 2
)

// saltLen is the length of Salt in bytes.
const saltLen = 16

// Seal makes the row the one after that with the hash, in the chain of the tenant.
// The first row of a chain comes after nil. The seal has the newest version.
func (r *AuditRow) Seal(tenant TenantID, previous []byte) {
	r.Salt = make([]byte, saltLen)
	_, _ = rand.Read(r.Salt) // never fails: crypto/rand ends the process instead
	r.DetailHash = r.detailHash(sealVersion2)
	r.Hash = r.hash(sealVersion2, tenant, previous)
}

// SealVersion returns the version of the row's seal, or 0 if the row is not what was
// sealed after the row with the hash previous, in the chain of the tenant. Hash covers
// the version, so a row cannot claim another one. The detail of a redacted row cannot be
// checked. A row that has only one of salt and detail is not redacted: it returns 0.
func (r *AuditRow) SealVersion(tenant TenantID, previous []byte) int {
	for _, version := range []byte{sealVersion2, sealVersion1} {
		if bytes.Equal(r.Hash, r.hash(version, tenant, previous)) && (r.Redacted() || r.hasSealedDetail(version)) {
			return int(version)
		}
	}
	return 0
}

// Redacted reports whether both the detail and its salt were removed.
func (r *AuditRow) Redacted() bool { return r.Detail == nil && r.Salt == nil }

func (r *AuditRow) hasSealedDetail(version byte) bool {
	return len(r.Salt) == saltLen && len(r.Detail) > 0 && bytes.Equal(r.DetailHash, r.detailHash(version))
}

func (r *AuditRow) detailHash(version byte) []byte {
	if version == sealVersion1 {
		sum := sha256.Sum256(slices.Concat(r.Salt, r.Detail))
		return sum[:]
	}
	return hashParts(version, r.Salt, r.Detail)
}

func (r *AuditRow) hash(version byte, tenant TenantID, previous []byte) []byte {
	return hashParts(version,
		previous, []byte(tenant), binary.BigEndian.AppendUint64(nil, uint64(r.Number)), binary.BigEndian.AppendUint64(nil, uint64(r.At)),
		[]byte(r.Actor), []byte(r.Action), []byte(r.Subject), []byte(r.RequestID), r.DetailHash)
}

// hashParts returns the SHA-256 of the version and of the parts, each with its length
// before it.
func hashParts(version byte, parts ...[]byte) []byte {
	b := []byte{version}
	for _, part := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// An AuditFilter says which rows of an audit log are listed. What is left out does
// not matter.
type AuditFilter struct {
	Subject      string
	Actor        string
	Action       string // exactly, or all that begin with it if it ends in a dot
	Since, Until *Time
}
