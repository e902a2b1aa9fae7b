package main

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"time"

	"zombiezen.com/go/sqlite"
)

// suffixLength is the number of characters that follow the prefix and the
// underscore in an identifier: 128 bits in base 32.
const suffixLength = 26

// packedLength is the least number of bytes that holds every 26-digit number
// in base 36 (134.4 bits).
const packedLength = 17

// value is a column value: TEXT when blob is nil, BLOB otherwise.
type value struct {
	text string
	blob []byte
}

// bind sets parameter i (counted from 1) of the statement.
func (v value) bind(s *sqlite.Stmt, i int) {
	if v.blob != nil {
		s.BindBytes(i, v.blob)
		return
	}
	s.BindText(i, v.text)
}

// idForm is how an identifier is kept in a column. Every form orders as the
// identifiers themselves do when compared by bytes.
type idForm int

const (
	idSuffix idForm = iota // the 26 characters after the underscore, as TEXT
	idFull                 // the identifier as the API shows it, as TEXT
	idPacked               // the 26 characters as a base-36 number, 17 bytes
)

func (f idForm) columnType() string {
	if f == idPacked {
		return "BLOB"
	}
	return "TEXT"
}

// value returns what a column of this form holds for prefix_suffix.
func (f idForm) value(prefix, suffix string) value {
	switch f {
	case idFull:
		return value{text: prefix + "_" + suffix}
	case idPacked:
		b := pack(suffix)
		return value{blob: b[:]}
	default:
		return value{text: suffix}
	}
}

const (
	pow2  = 36 * 36
	pow12 = 4738381338321616896 // 36 to the 12th, the largest power of 36 below 2^63
)

// pack returns the 26 digits [0-9a-z] of the suffix as one big-endian number.
// It holds every value of the pattern, not only those that are well-formed
// UUIDs, because the contract accepts and echoes them all.
func pack(suffix string) (b [packedLength]byte) {
	high, low := digits(suffix[:12]), digits(suffix[12:24])
	last := digits(suffix[24:])

	// mid:lo = high*36^12 + low, below 36^24 < 2^125.
	mid, lo := bits.Mul64(high, pow12)
	lo, carry := bits.Add64(lo, low, 0)
	mid += carry

	// top:mid:lo = that * 36^2 + last.
	c1, l := bits.Mul64(lo, pow2)
	top, m := bits.Mul64(mid, pow2)
	l, carry = bits.Add64(l, last, 0)
	m, carry = bits.Add64(m, c1, carry)
	top += carry

	b[0] = byte(top)
	binary.BigEndian.PutUint64(b[1:], m)
	binary.BigEndian.PutUint64(b[9:], l)
	return b
}

// unpack is the inverse of pack.
func unpack(b [packedLength]byte) string {
	top := uint64(b[0])
	m := binary.BigEndian.Uint64(b[1:])
	l := binary.BigEndian.Uint64(b[9:])

	// Long division by 36^2, most significant limb first. The top limb is
	// below 36^2, so the first quotient is 0.
	mid, rem := bits.Div64(top, m, pow2)
	lo, last := bits.Div64(rem, l, pow2)
	high, low := bits.Div64(mid, lo, pow12)

	var s [suffixLength]byte
	putDigits(s[:12], high)
	putDigits(s[12:24], low)
	putDigits(s[24:], last)
	return string(s[:])
}

func digits(s string) (n uint64) {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' {
			c -= 'a' - 10
		} else {
			c -= '0'
		}
		n = n*36 + uint64(c)
	}
	return n
}

func putDigits(s []byte, n uint64) {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	for i := len(s) - 1; i >= 0; i-- {
		s[i] = alphabet[n%36]
		n /= 36
	}
}

// keyForm is how an idempotency key is kept in a column.
type keyForm int

const (
	keyHash  keyForm = iota // the first 16 bytes of its SHA-256
	keyText                 // the key itself
	keyMixed                // the key itself up to 32 bytes, else its first 16 and 16 of its SHA-256
)

func (f keyForm) columnType() string {
	if f == keyText {
		return "TEXT"
	}
	return "BLOB"
}

func (f keyForm) value(key string) value {
	if f == keyText {
		return value{text: key}
	}
	if f == keyMixed && len(key) <= 32 {
		return value{blob: []byte(key)}
	}
	h := sha256.Sum256([]byte(key))
	if f == keyMixed {
		// A marker byte, so that no short key equals the form of a long one.
		return value{blob: append([]byte(key[:16]+"\x00"), h[:16]...)}
	}
	return value{blob: h[:16]}
}

// idMaker makes UUIDv7 values in base 32, in increasing order, from a clock of
// its own that moves a fixed step with each.
type idMaker struct {
	now  time.Time
	step time.Duration
	seq  uint64 // the 12 bits beside the millisecond; keeps the order within it
	last int64
	rng  *rand.Rand
}

func (m *idMaker) next() string {
	m.now = m.now.Add(m.step)
	ms := m.now.UnixMilli()
	if ms == m.last {
		m.seq++
	} else {
		m.last, m.seq = ms, 0
	}
	hi := uint64(ms)<<16 | 7<<12 | m.seq&0xfff
	lo := m.rng.Uint64()&(1<<62-1) | 1<<63
	return base32(hi, lo)
}

// base32 writes 128 bits as 26 characters of lower-case Crockford base 32, the
// most significant first.
func base32(hi, lo uint64) string {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	var s [suffixLength]byte
	for i := suffixLength - 1; i >= 0; i-- {
		s[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(s[:])
}
