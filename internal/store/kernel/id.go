package kernel

import (
	"encoding/binary"

	"atrium"
	"atrium/internal/store/engine"
)

// Identifiers are stored without their prefix, which the column implies, as 18
// bytes: the 26 characters are a number to the base 36, of which the first two
// digits fill two bytes and the next twelve and the last twelve eight each. So
// every value of [a-z0-9]{26} comes back as it was, the order of the bytes is
// the order of the characters, and an index is a third smaller than with text.
const idBytes = 18

// IDArg returns id as the argument of a statement; nil, a null, for "".
func IDArg[T atrium.Identifier](id T) any {
	if id == "" {
		return nil
	}
	return Packed(string(id[len(id.Prefix()):]))
}

// Packed returns the 26 characters of an identifier as they are stored.
func Packed(s string) []byte {
	b := make([]byte, 0, idBytes)
	b = binary.BigEndian.AppendUint16(b, uint16(base36(s[:2])))
	b = binary.BigEndian.AppendUint64(b, base36(s[2:14]))
	return binary.BigEndian.AppendUint64(b, base36(s[14:]))
}

// base36 returns the number that s writes; twelve digits fit.
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

// IDAt returns the identifier in a column, "" for null.
func IDAt[T atrium.Identifier](r engine.Row, column int) T {
	var zero T
	b := r.View(column)
	if len(b) != idBytes {
		return zero
	}
	text := append(make([]byte, 0, 64), zero.Prefix()...) // longer than any, so that it is on the stack
	digits := text[len(text):][:atrium.SuffixLen]
	putBase36(digits[:2], uint64(binary.BigEndian.Uint16(b)))
	putBase36(digits[2:14], binary.BigEndian.Uint64(b[2:]))
	putBase36(digits[14:], binary.BigEndian.Uint64(b[10:]))
	return T(text[:len(text)+atrium.SuffixLen])
}

// putBase36 writes n into all of b.
func putBase36(b []byte, n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[n%36]
		n /= 36
	}
}
