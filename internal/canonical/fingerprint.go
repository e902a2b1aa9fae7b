package canonical

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"atrium"
)

// The first byte of every fingerprint. Add a version with each change to the hashed data, so that
// fingerprints of different versions never compare equal.
const (
	contentVersion = 1 // of Fingerprint and RequestFingerprint
	keyVersion     = 2 // of KeyFingerprint
)

// KeyFingerprint returns the fingerprint of a submission that its idempotency key alone identifies: a
// version byte and the SHA-256 of the key. Submissions with the same key are then the same request,
// even if they differ otherwise.
func KeyFingerprint(key string) []byte {
	hash := sha256.Sum256([]byte(key))
	return append([]byte{keyVersion}, hash[:]...)
}

// IsKeyFingerprint reports whether a fingerprint is that of a key alone.
func IsKeyFingerprint(fingerprint []byte) bool {
	return len(fingerprint) > 0 && fingerprint[0] == keyVersion
}

// Fingerprint returns the fingerprint of a submission. Two submissions with the same
// idempotency key are the same request if their fingerprints are equal. A fingerprint is a
// version byte and the SHA-256 of the members, each prefixed with its length. Payloads are
// compared by value: white space, the order of members and the notation of numbers do not
// matter. It returns an error if the payload is not JSON.
func Fingerprint(s atrium.Submission) ([]byte, error) {
	b := make([]byte, 0, 256+len(s.Payload))
	for _, member := range []string{s.Source, s.Type, string(s.Claim.AccountID), s.Claim.Domain, s.Claim.Name} {
		b = appendPrefixed(b, member) // "" only if omitted
	}
	if s.OccurredAt != nil { // unambiguous: a payload begins with a brace
		b = append(append(b, 'o'), s.OccurredAt.String()...)
	}
	var payload form
	b, err := payload.append(b, s.Payload)
	if err != nil {
		return nil, fmt.Errorf("fingerprint a payload: %w", err)
	}
	return payload.fingerprint(b), nil
}

// RequestFingerprint returns the fingerprint of an HTTP request: a version byte and the
// SHA-256 of the method, the escaped path and the body. Bodies are compared by value, as in
// Fingerprint. It returns an error if the body is neither empty nor JSON.
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

// fingerprint returns the version byte and the hash of b with sorted members.
func (f *form) fingerprint(b []byte) []byte {
	sum := make([]byte, 1, 1+sha256.Size)
	sum[0] = contentVersion
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

// normalNumber returns the canonical form of a JSON number, which is the same for all
// numbers of the same value. It is "0" for zero. Otherwise, it is a minus sign if the number
// is negative, the significant digits d, "e" and the exponent x of 0.d × 10^x. It expands no
// exponent, so that 1e999999999 costs no more than its text.
func normalNumber(s string) string {
	s, negative := strings.CutPrefix(s, "-")
	mantissa, exponent := s, "0"
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	point := len(whole) // position of the decimal point in digits
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

// addDecimal returns s + n. s is a decimal integer of any length with an optional sign.
func addDecimal(s string, n int) string {
	s, negative := strings.CutPrefix(strings.TrimPrefix(s, "+"), "-")
	s = strings.TrimLeft(s, "0")
	if len(s) <= 18 { // the sum cannot overflow: n is a length
		v, _ := strconv.ParseInt("0"+s, 10, 64)
		if negative {
			v = -v
		}
		return strconv.FormatInt(v+int64(n), 10)
	}
	if negative {
		n = -n
	}
	// The sign cannot change, because |s| ≥ 10^18 > |n|.
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
