package expression

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the maximum depth of a value, more than requests can have.
const maxDepth = 200

// Decode decodes a JSON value. The last of duplicate member names wins. A number becomes an int64 if it is an integer that fits, a
// float64 if that is exact (same digits, zero or normal), and otherwise a string as it is written.
func Decode(d *jsontext.Decoder) (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	if d.StackDepth() > maxDepth {
		return nil, fmt.Errorf("more than %d levels", maxDepth)
	}
	switch t.Kind() {
	case '{':
		object := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			member := name.String()
			if object[member], err = Decode(d); err != nil {
				return nil, err
			}
		}
		_, err = d.ReadToken()
		return object, err
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			value, err := Decode(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.ReadToken()
		return list, err
	case '0':
		return number(t.String()), nil
	case '"':
		return t.String(), nil
	case 't', 'f':
		return t.Bool(), nil
	}
	return nil, nil
}

// number returns the value of a JSON number.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	digits, exponent := decimal(text)
	if !convertsFast(digits, exponent) {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	same, sameExponent := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	if digits != same || exponent != sameExponent {
		return text
	}
	return f
}

// The digits of the largest double and of the smallest normal one, and the positions of their decimal points. 17 digits identify
// any double.
const (
	maxDigits                   = 17
	largestDigits, largestPoint = "17976931348623157", 309
	normalDigits, normalPoint   = "22250738585072014", -307
)

// convertsFast reports whether package strconv converts a number, given its decimal, to a double in constant time. It is a hundred
// times slower (10 to 70 µs) for some numbers with more than 17 digits, and for numbers outside the range of normal doubles.
func convertsFast(digits string, exponent int) bool {
	point := exponent + len(digits)
	switch {
	case digits == "":
		return true
	case len(digits) > maxDigits || point < normalPoint || point > largestPoint:
		return false
	case point == normalPoint:
		return digits >= normalDigits
	case point == largestPoint:
		return digits <= largestDigits
	}
	return true
}

// decimal returns the digits of a number without its sign and zeros around them, and the power of ten of the last one. Zero
// has no digits.
func decimal(text string) (digits string, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, _ = strconv.Atoi(power) // the nearest int; "" is 0
	whole, fraction, _ := strings.Cut(strings.TrimLeft(mantissa, "+-"), ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "", 0
	}
	return trimmed, exponent - len(fraction) + len(digits) - len(trimmed)
}
