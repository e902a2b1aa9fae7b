package canonical

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"atrium"
)

// fingerprintVersion is the first byte of every fingerprint. A change to what
// goes into the hash takes the next number, so that an old entry is never
// compared by a new rule.
const fingerprintVersion = 1

// Fingerprint returns what tells whether two submissions with the same
// idempotency key are the same request: a version byte and the SHA-256 of the
// members as they were sent, each with its length before it. The payload goes
// in by value: white space and the order of members do not count, and numbers
// are equal when their values are. The error says that the payload is not JSON.
func Fingerprint(s atrium.Submission) ([]byte, error) {
	b := make([]byte, 0, 256+len(s.Payload))
	for _, member := range []string{s.Source, s.Type, string(s.Claim.AccountID), s.Claim.Domain, s.Claim.Name} {
		b = appendPrefixed(b, member) // "" only for what was left out
	}
	if s.OccurredAt != nil { // behind the others, where a payload begins with a brace
		b = append(append(b, 'o'), s.OccurredAt.String()...)
	}
	var payload form
	b, err := payload.append(b, s.Payload)
	if err != nil {
		return nil, fmt.Errorf("fingerprint a payload: %w", err)
	}
	return payload.fingerprint(b), nil
}

// RequestFingerprint returns what tells whether two requests with the same
// idempotency key are the same: a version byte and the SHA-256 of the method, the
// path as it was sent and the body, by value as Fingerprint has payloads. The error
// says that the body is neither empty nor JSON.
func RequestFingerprint(method, path string, body []byte) ([]byte, error) {
	b := appendPrefixed(appendPrefixed(nil, method), path)
	var value form
	if len(body) > 0 {
		var err error
		if b, err = value.append(b, body); err != nil {
			return nil, fmt.Errorf("fingerprint a body: %w", err)
		}
	}
	return value.fingerprint(b), nil
}

// fingerprint returns the version byte and the hash of b in sorted order.
func (f *form) fingerprint(b []byte) []byte {
	sum := make([]byte, 1, 1+sha256.Size)
	sum[0] = fingerprintVersion
	if len(f.objects) == 0 {
		hash := sha256.Sum256(b)
		return append(sum, hash[:]...)
	}
	h := sha256.New()
	f.writeSorted(h, b)
	return h.Sum(sum)
}

func appendPrefixed[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// normalNumber returns the one form of all JSON numbers of the same value: a
// minus sign if it is below zero, the significant digits d, "e" and the
// exponent x, for 0.d times ten to the x. Zero is "0". Nothing is expanded, so
// that 1e999999999 costs no more than its own text.
func normalNumber(s string) string {
	s, negative := strings.CutPrefix(s, "-")
	mantissa, exponent := s, "0"
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	point := len(whole) // where the decimal point stands in digits
	trimmed := strings.TrimLeft(digits, "0")
	point -= len(digits) - len(trimmed)
	trimmed = strings.TrimRight(trimmed, "0")
	if trimmed == "" {
		return "0"
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + trimmed + "e" + addDecimal(exponent, point)
}

// addDecimal returns the sum of an integer of any length, written in decimal
// with or without a sign, and a small one.
func addDecimal(s string, n int) string {
	s, negative := strings.CutPrefix(strings.TrimPrefix(s, "+"), "-")
	s = strings.TrimLeft(s, "0")
	if len(s) <= 18 { // far from the bounds of int64, and so is n
		v, _ := strconv.ParseInt("0"+s, 10, 64)
		if negative {
			v = -v
		}
		return strconv.FormatInt(v+int64(n), 10)
	}
	if negative {
		n = -n
	}
	// The magnitude is over 10^18 and n is under it: the sign cannot change.
	digits := []byte(s)
	for i := len(digits) - 1; i >= 0 && n != 0; i-- {
		n += int(digits[i] - '0')
		digit := (n%10 + 10) % 10
		digits[i] = byte('0' + digit)
		n = (n - digit) / 10
	}
	sum := string(digits)
	if n > 0 {
		sum = strconv.Itoa(n) + sum
	}
	sum = strings.TrimLeft(sum, "0")
	if negative {
		sum = "-" + sum
	}
	return sum
}
