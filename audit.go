package atrium

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// Actors other than keys.
const (
	ActorCommandLine = "command line" // a user of the command line with database access
	ActorSchedule    = "schedule"     // the schedule of a page
	ActorRetention   = "retention"    // the jobs that apply retention rules and delete what was in quarantine for too long
	ActorExpiry      = "expiry"       // the job that reports keys that expire
)

// OtherActors returns all actors other than keys.
func OtherActors() []string {
	return []string{ActorCommandLine, ActorSchedule, ActorRetention, ActorExpiry, ActorDelivery}
}

// Actions that may redact earlier rows. Their own rows are never redacted, because they
// justify the redactions.
const (
	ActionEraseAccount   = "account.erase"
	ActionDeleteProspect = "prospect.delete"
	ActionErasureRedact  = "erasure.redact"
)

// OperatorChain identifies the audit log of changes that concern no tenant. It is not the
// identifier of any tenant.
const OperatorChain TenantID = "tenant_00000000000000000000000000"

// A Change is the context of a change by an operator.
type Change struct {
	TenantID  TenantID // owns the changed data; OperatorChain if no tenant does
	Actor     string   // the identifier of a key, or one of the actors above
	RequestID string   // "" if the change was not a request

	// IdempotencyKey makes a retry return the result of the first request instead of
	// repeating the change. Fingerprint identifies the request (canonical.RequestFingerprint).
	// Both are zero if the client sent no key.
	IdempotencyKey string
	Fingerprint    []byte

	// Admit waits until a transaction of the change may begin. large is set for a transaction
	// that reads or writes a lot: only a few of those run at a time. nil admits every
	// transaction.
	Admit func(ctx context.Context, large bool) (release func(), err error)
}

// CommandLine returns the context of a change from the command line. tenant is
// OperatorChain if the change concerns no tenant.
func CommandLine(tenant TenantID) Change {
	return Change{TenantID: tenant, Actor: ActorCommandLine}
}

// An AuditRow records one change in the audit log of a tenant. The log is a hash chain:
// the hash of a row covers the hash of the previous row, so that an altered or missing row
// breaks the chain.
type AuditRow struct {
	Number     int64 // 1 for the first row of a tenant, then consecutive
	At         Time
	Actor      string
	Action     string // for example page.publish
	Subject    string // the identifier of the changed resource
	RequestID  string // "" if the change was not a request
	Detail     []byte // a JSON object with the state before and after; nil once redacted
	Salt       []byte // saltLen random bytes, so that DetailHash does not reveal Detail; nil once redacted
	DetailHash []byte // SHA-256 of Salt and Detail
	Hash       []byte // SHA-256 of the previous hash and of the row without Detail and Salt
}

// Versions of the seal, which consists of DetailHash and Hash. Version 1 hashes Salt and
// Detail without their lengths. It is unambiguous only because the length of Salt is fixed.
const (
	sealVersion1 = 1
	sealVersion2 = 2
)

// saltLen is the length of Salt in bytes.
const saltLen = 16

// Seal sets Salt, DetailHash and Hash, which link the row to the chain of the tenant after the
// row with the hash previous, nil for the first row. The seal has the newest version.
func (r *AuditRow) Seal(tenant TenantID, previous []byte) {
	r.Salt = make([]byte, saltLen)
	_, _ = rand.Read(r.Salt) // never fails: crypto/rand ends the process instead
	r.DetailHash = r.detailHash(sealVersion2)
	r.Hash = r.hash(sealVersion2, tenant, previous)
}

// SealVersion verifies the row against the chain of the tenant and the hash of the previous
// row. It returns the version of the seal, or 0 if the row is invalid. Hash covers the
// version, so a row cannot pretend to have another one. The detail of a redacted row cannot
// be verified. A row with only one of salt and detail is invalid.
func (r *AuditRow) SealVersion(tenant TenantID, previous []byte) int {
	for _, version := range []byte{sealVersion2, sealVersion1} {
		if bytes.Equal(r.Hash, r.hash(version, tenant, previous)) && (r.Redacted() || r.hasSealedDetail(version)) {
			return int(version)
		}
	}
	return 0
}

// Redacted reports whether the row has neither detail nor salt.
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

// hashParts returns the SHA-256 of the version and the parts, each prefixed with its length.
func hashParts(version byte, parts ...[]byte) []byte {
	b := []byte{version}
	for _, part := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// An AuditFilter selects the rows of an audit log that match all of its fields. Zero fields
// match every row.
type AuditFilter struct {
	PageID       PageID // of a page, its audiences, and their versions and previews
	Subject      string
	Actor        string
	Action       string // a prefix if it ends with a dot
	Since, Until *Time
}

// Has reports whether a row has the subject, actor, action and time of the filter.
func (f *AuditFilter) Has(r *AuditRow) bool {
	return (f.Subject == "" || f.Subject == r.Subject) && (f.Actor == "" || f.Actor == r.Actor) &&
		(f.Action == "" || f.Action == r.Action || strings.HasSuffix(f.Action, ".") && strings.HasPrefix(r.Action, f.Action)) &&
		(f.Since == nil || r.At >= *f.Since) && (f.Until == nil || r.At < *f.Until)
}
