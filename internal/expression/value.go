package expression

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the maximum depth of a value that expressions see, which is more than requests can have.
const maxDepth = 200

// Decode reads a value of JSON as maps, lists and the types of CEL. Of members with the same name, as payloads may have
// them, the last one counts. A number is an int if it is written as one and fits into 64 bits, else a double if that
// prints with the same digits, else its text.
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

// number returns the value of a number of JSON.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	digits, exponent := decimal(text)
	same, sameExponent := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	if digits != same || exponent != sameExponent {
		return text
	}
	return f
}

// decimal returns the digits of a number without zeros around them, with its sign, and the power of ten of the
// last one. Zero has no digits.
func decimal(text string) (digits string, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	sign, mantissa := strings.HasPrefix(mantissa, "-"), strings.TrimPrefix(mantissa, "-")
	exponent, _ = strconv.Atoi(power) // of what ParseFloat accepts; "" is 0
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, exponent = strings.TrimLeft(whole+fraction, "0"), exponent-len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "", 0
	}
	exponent += len(digits) - len(trimmed)
	if sign {
		trimmed = "-" + trimmed
	}
	return trimmed, exponent
}
