package atrium

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"
)

// An Identifier is a string with a prefix for its kind, an underscore, and a suffix of 26
// characters. Identifiers that Atrium generates are TypeIDs: the suffix is a UUIDv7 (RFC
// 9562 section 5.7) in lower-case Crockford base32, so they sort by creation time.
// Identifiers from clients may have any suffix that matches [a-z0-9]{26}. They are compared
// byte by byte and never normalized.
type Identifier interface {
	~string
	// Prefix returns the prefix of the kind, including the underscore.
	Prefix() string
}

type (
	// TenantID names a Tenant.
	TenantID string
	// KeyID names an APIKey.
	KeyID string
	// AccountID names an Account.
	AccountID string
	// ProspectID names a Prospect.
	ProspectID string
	// EntryID names an Entry.
	EntryID string
	// PageID names a Page.
	PageID string
	// AudienceID names an Audience.
	AudienceID string
	// VersionID names a Version.
	VersionID string
	// BrandID names a Brand.
	BrandID string
	// PreviewID names a Preview.
	PreviewID string
	// MoveID names a Move.
	MoveID string
	// ErasureID names an Erasure.
	ErasureID string
	// UserID names a User.
	UserID string
	// SessionID names a Session.
	SessionID string
	// LoginLinkID names a LoginLink.
	LoginLinkID string
	// GroupMappingID names a GroupMapping.
	GroupMappingID string
	// RequestID names one request to the HTTP API.
	RequestID string
	// RefusedRequestID names a RefusedRequest.
	RefusedRequestID string
	// ReadID names a Read.
	ReadID string
	// EventID names an Event.
	EventID string
	// WebhookID names a Webhook.
	WebhookID string
	// ReceiverID names a Receiver.
	ReceiverID string
	// ReceiverSecretID names a ReceiverSecret.
	ReceiverSecretID string
	// QuarantinedID names a QuarantinedDelivery.
	QuarantinedID string
	// WebhookSecretID names a WebhookSecret.
	WebhookSecretID string
	// ReplayID names a Replay.
	ReplayID string
)

func (TenantID) Prefix() string       { return "tenant_" }
func (KeyID) Prefix() string          { return "key_" }
func (AccountID) Prefix() string      { return "account_" }
func (ProspectID) Prefix() string     { return "prospect_" }
func (EntryID) Prefix() string        { return "prospectlog_" }
func (PageID) Prefix() string         { return "page_" }
func (AudienceID) Prefix() string     { return "audience_" }
func (VersionID) Prefix() string      { return "version_" }
func (BrandID) Prefix() string        { return "brand_" }
func (PreviewID) Prefix() string      { return "preview_" }
func (MoveID) Prefix() string         { return "move_" }
func (ErasureID) Prefix() string      { return "erasure_" }
func (UserID) Prefix() string         { return "user_" }
func (SessionID) Prefix() string      { return "session_" }
func (LoginLinkID) Prefix() string    { return "link_" }
func (GroupMappingID) Prefix() string { return "mapping_" }
func (RequestID) Prefix() string      { return "req_" }

func (RefusedRequestID) Prefix() string { return "refused_" }
func (ReadID) Prefix() string           { return "read_" }
func (EventID) Prefix() string          { return "event_" }
func (WebhookID) Prefix() string        { return "webhook_" }
func (ReceiverID) Prefix() string       { return "receiver_" }
func (ReceiverSecretID) Prefix() string { return "receiversecret_" }
func (QuarantinedID) Prefix() string    { return "quarantined_" }
func (WebhookSecretID) Prefix() string  { return "secret_" }
func (ReplayID) Prefix() string         { return "replay_" }

// SuffixLen is the length of an identifier without its prefix.
const SuffixLen = 26

// NewID returns a new identifier. It sorts after all identifiers that the process has
// generated before. NewID is safe for concurrent use.
func NewID[T Identifier]() T {
	var zero T
	id := ids.next(time.Now())
	return T(string(appendBase32(append(make([]byte, 0, len(zero.Prefix())+SuffixLen), zero.Prefix()...), id)))
}

// DerivedID returns the identifier whose suffix encodes the first 16 bytes of a hash.
func DerivedID[T Identifier](hash []byte) T {
	var zero T
	return T(string(appendBase32([]byte(zero.Prefix()), [16]byte(hash[:16]))))
}

// FirstID returns an identifier that sorts before all that NewID returns from a time on, and after those
// that it has returned before. Times before 1970 count as 1970.
func FirstID[T Identifier](at time.Time) T {
	var zero T
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(max(0, at.UnixMilli()))<<16)
	return T(string(appendBase32([]byte(zero.Prefix()), id)))
}

// IDTime returns the time in an identifier that NewID has returned. For other identifiers, it is the
// latest time whose FirstID does not sort after the identifier.
func IDTime[T Identifier](id T) time.Time {
	var zero T
	var bits uint64 // the first ten characters: two zero bits and the time
	after := false  // a digit is not in the alphabet: the identifier sorts after all that begin with the digits before
	for _, c := range []byte(id[len(zero.Prefix()):][:10]) {
		digit := len(base32Alphabet) - 1
		for !after && base32Alphabet[digit] > c {
			digit--
		}
		after = after || base32Alphabet[digit] < c
		bits = bits<<5 | uint64(digit)
	}
	return time.UnixMilli(int64(min(bits, 1<<48-1)))
}

// ParseID returns s as an identifier of kind T. It returns false unless s is the prefix of
// the kind and 26 characters of [a-z0-9].
func ParseID[T Identifier](s string) (T, bool) {
	var zero T
	prefix := zero.Prefix()
	if len(s) != len(prefix)+SuffixLen || s[:len(prefix)] != prefix {
		return zero, false
	}
	return T(s), IsSuffix(s[len(prefix):])
}

// IsSuffix reports whether s is 26 characters of [a-z0-9].
func IsSuffix(s string) bool {
	if len(s) != SuffixLen {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

var ids uuids

// uuids generates monotonically increasing UUIDv7 values by method 3 of RFC 9562 section
// 6.2: the 12 bits after the milliseconds hold a fraction of a millisecond. While the clock
// does not advance past the last value, each value is the smallest possible increment of
// the last one.
type uuids struct {
	mu   sync.Mutex
	last uint64 // guarded by mu; 48 bits of milliseconds and 12 bits of the fraction
}

func (u *uuids) next(now time.Time) [16]byte {
	var id [16]byte
	_, _ = rand.Read(id[8:]) // never fails: crypto/rand ends the process instead

	u.mu.Lock()
	at := uint64(now.UnixMilli())<<12 | uint64(now.Nanosecond()%1e6)<<12/1e6
	u.last = max(at, u.last+1)
	at = u.last
	u.mu.Unlock()

	binary.BigEndian.PutUint64(id[:8], at>>12<<16|0x7000|at&0xfff)
	id[8] = id[8]&0x3f | 0x80
	return id
}

// base32Alphabet is Crockford's alphabet in lower case, as in the TypeID specification
// (version 0.3).
const base32Alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// appendBase32 appends the 26 characters of id: two zero bits and the 128 bits of id, five
// bits per character.
func appendBase32(b []byte, id [16]byte) []byte {
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	for shift := 125; shift >= 0; shift -= 5 {
		var bits uint64
		switch {
		case shift >= 64:
			bits = hi >> (shift - 64)
		case shift > 59:
			bits = hi<<(64-shift) | lo>>shift
		default:
			bits = lo >> shift
		}
		b = append(b, base32Alphabet[bits&31])
	}
	return b
}
