package kernel

import (
	"encoding/binary"

	"atrium"
	"atrium/internal/store/engine"
)

// IDBytes is the length of a stored identifier, without the prefix, which the column implies. The 26
// characters are base-36 digits: the first two fill two bytes, the next twelve eight bytes, and
// the last twelve eight bytes. Every value of [a-z0-9]{26} round-trips, bytes sort like
// characters, and an index is a third smaller than with text.
const IDBytes = 18

// IDArg returns id as an argument, NULL for "".
func IDArg[T atrium.Identifier](id T) any {
	if id == "" {
		return nil
	}
	return PackID(string(id[len(id.Prefix()):]))
}

// PackID returns the stored form of an identifier's 26 characters.
func PackID(s string) []byte {
	b := make([]byte, 0, IDBytes)
	b = binary.BigEndian.AppendUint16(b, uint16(base36(s[:2])))
	b = binary.BigEndian.AppendUint64(b, base36(s[2:14]))
	return binary.BigEndian.AppendUint64(b, base36(s[14:]))
}

// base36 parses base-36 digits, at most twelve.
func base36(s string) (n uint64) {
	for i := range len(s) {
		digit := uint64(s[i] - '0')
		if s[i] >= 'a' {
			digit = uint64(s[i]-'a') + 10
		}
		n = n*36 + digit
	}
	return n
}

// IDAt returns the identifier in a column, "" for NULL.
func IDAt[T atrium.Identifier](r engine.Row, column int) T { return UnpackID[T](r.View(column)) }

// UnpackID returns the identifier that PackID has packed, "" for bytes of another length.
func UnpackID[T atrium.Identifier](b []byte) T {
	var zero T
	if len(b) != IDBytes {
		return zero
	}
	text := append(make([]byte, 0, 64), zero.Prefix()...) // long enough for any identifier, so that it stays on the stack
	digits := text[len(text):][:atrium.SuffixLen]
	putBase36(digits[:2], uint64(binary.BigEndian.Uint16(b)))
	putBase36(digits[2:14], binary.BigEndian.Uint64(b[2:]))
	putBase36(digits[14:], binary.BigEndian.Uint64(b[10:]))
	return T(text[:len(text)+atrium.SuffixLen])
}

// putBase36 writes n to b as base-36 digits with leading zeros.
func putBase36(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[n%36]
		n /= 36
	}
}
