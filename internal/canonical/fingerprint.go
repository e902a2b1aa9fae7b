package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

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
	dec := jsontext.NewDecoder(bytes.NewBuffer(s.Payload), jsontext.AllowDuplicateNames(true)) // refused before
	b, err := appendValue(b, dec)
	if err != nil {
		return nil, fmt.Errorf("fingerprint a payload: %w", err)
	}
	sum := sha256.Sum256(b)
	return append([]byte{fingerprintVersion}, sum[:]...), nil
}

// RequestFingerprint returns what tells whether two requests with the same
// idempotency key are the same: a version byte and the SHA-256 of the method, the
// path as it was sent and the body, by value as Fingerprint has payloads. The error
// says that the body is neither empty nor JSON.
func RequestFingerprint(method, path string, body []byte) ([]byte, error) {
	b := appendPrefixed(appendPrefixed(nil, method), path)
	if len(body) > 0 {
		var err error
		if b, err = appendValue(b, jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))); err != nil {
			return nil, fmt.Errorf("fingerprint a body: %w", err)
		}
	}
	sum := sha256.Sum256(b)
	return append([]byte{fingerprintVersion}, sum[:]...), nil
}

func appendPrefixed[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendValue appends the next value of dec in a form that is the same for
// equal values and different for others: a byte for its kind, then its content
// with every length before it.
func appendValue(b []byte, dec *jsontext.Decoder) ([]byte, error) {
	switch kind := dec.PeekKind(); kind {
	case '{':
		return appendObject(b, dec)
	case '[':
		return appendArray(b, dec)
	case '"':
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		return appendString(append(b, '"'), v)
	case '0':
		v, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		return appendPrefixed(append(b, '0'), normalNumber(string(v))), nil
	default: // a literal, whose kind says it all, or an error
		_, err := dec.ReadToken()
		return append(b, byte(kind)), err
	}
}

func appendArray(b []byte, dec *jsontext.Decoder) ([]byte, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	b = append(b, '[')
	for dec.PeekKind() != ']' {
		var err error
		if b, err = appendValue(b, dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.ReadToken()
	return append(b, ']'), err
}

func appendObject(b []byte, dec *jsontext.Decoder) ([]byte, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	b = append(b, '{')
	members, sorted := make([]member, 0, 8), true
	start := len(b)
	for dec.PeekKind() != '}' {
		m := member{at: len(b)}
		name, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if b, err = appendString(b, name); err != nil {
			return nil, err
		}
		m.name = len(b)
		if b, err = appendValue(b, dec); err != nil {
			return nil, err
		}
		m.end = len(b)
		sorted = sorted && (len(members) == 0 || members[len(members)-1].compare(b, m) < 0)
		members = append(members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	if !sorted {
		given := bytes.Clone(b)
		slices.SortFunc(members, func(x, y member) int { return x.compare(given, y) })
		b = b[:start]
		for _, m := range members {
			b = append(b, given[m.at:m.end]...)
		}
	}
	return append(b, '}'), nil
}

// A member of an object is where it was appended: its name, and behind that its value.
type member struct{ at, name, end int }

// compare compares the names of two members in b.
func (m member) compare(b []byte, with member) int {
	return bytes.Compare(b[m.at:m.name], b[with.at:with.name])
}

// appendString appends the text of a JSON string with its length before it.
func appendString(b []byte, quoted jsontext.Value) ([]byte, error) {
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 {
		return appendPrefixed(b, []byte(text)), nil // the decoder has seen that it is UTF-8
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil, err
	}
	return appendPrefixed(b, text), nil
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
