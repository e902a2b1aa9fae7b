package atrium

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"
)

// An Identifier is text: a prefix that names its kind, an underscore, and 26
// characters. Those that Atrium makes are TypeIDs (a UUIDv7, RFC 9562 section
// 5.7, in lower-case Crockford base32), so they sort by the time at which
// they were made. Those that arrive may be any [a-z0-9]{26}: they are compared
// as they are and never normalized.
type Identifier interface {
	~string
	// Prefix returns what every identifier of the kind begins with.
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
	// MoveID names a Move.
	MoveID string
	// RequestID names one request to the HTTP API.
	RequestID string
)

func (TenantID) Prefix() string   { return "tenant_" }
func (KeyID) Prefix() string      { return "key_" }
func (AccountID) Prefix() string  { return "account_" }
func (ProspectID) Prefix() string { return "prospect_" }
func (EntryID) Prefix() string    { return "prospectlog_" }
func (PageID) Prefix() string     { return "page_" }
func (AudienceID) Prefix() string { return "audience_" }
func (VersionID) Prefix() string  { return "version_" }
func (BrandID) Prefix() string    { return "brand_" }
func (MoveID) Prefix() string     { return "move_" }
func (RequestID) Prefix() string  { return "req_" }

// SuffixLen is the length of an identifier without its prefix.
const SuffixLen = 26

// NewID makes an identifier that this process has not made before and that
// sorts after every other one it made. It is safe for concurrent use.
func NewID[T Identifier]() T {
	var zero T
	id := ids.next(time.Now())
	return T(string(appendBase32(append(make([]byte, 0, len(zero.Prefix())+SuffixLen), zero.Prefix()...), id)))
}

// ParseID returns s as an identifier of kind T, or false if s does not have
// the kind's form: its prefix and 26 characters of [a-z0-9].
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

// uuids makes UUIDv7 values that only ever grow, by method 3 of RFC 9562
// section 6.2: the 12 bits after the milliseconds hold a fraction of one. When
// the clock stands still or steps back, the sequence goes on from its last
// value by the smallest step instead of following the clock.
type uuids struct {
	mu   sync.Mutex
	last uint64 // 48 bits of milliseconds and 12 of their fraction, as last given out
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

// base32Alphabet is Crockford's, in lower case, as the TypeID specification
// (version 0.3) has it.
const base32Alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// appendBase32 appends the 26 characters of id: 128 bits with two zero bits
// before them, five to a character.
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
