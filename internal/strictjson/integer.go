package strictjson

import "fmt"

// maxDigits is the maximum number of digits of an integer.
const maxDigits = 18

// Integer decodes an optional integer member from least to most. It returns 0 if the member
// is absent or has a fault. As in JSON Schema Validation 2020-12, section 6.1.1, 100, 100.0
// and 1e2 are the same integer. The bounds have at most maxDigits digits.
func (o *Object) Integer(name string, least, most int64) int64 {
	v := o.decode(name, Optional, "a whole number", "0123456789-")
	if v == nil {
		return 0
	}
	n, ok := wholeNumber(v)
	if !ok || n < least || n > most {
		o.Fault(name, fmt.Sprintf("must be a whole number from %d to %d", least, most))
		return 0
	}
	return n
}

// wholeNumber returns the value of a JSON number. It returns false if the value has a
// fraction or more than maxDigits digits. It reads each byte once and expands no exponent.
func wholeNumber(number []byte) (n int64, ok bool) {
	negative := number[0] == '-'
	if negative {
		number = number[1:]
	}
	// n is the mantissa without leading and trailing zeros, scale its power of ten.
	digits, zeros, scale, inFraction := 0, 0, int64(0), false
	for i, c := range number {
		if c == 'e' || c == 'E' {
			scale += exponent(number[i+1:])
			break
		}
		if c == '.' {
			inFraction = true
			continue
		}
		if inFraction {
			scale--
		}
		if c == '0' {
			zeros++
			continue
		}
		if n == 0 {
			zeros = 0
		}
		if digits += zeros + 1; digits > maxDigits {
			return 0, false
		}
		n = n*pow10(zeros+1) + int64(c-'0')
		zeros = 0
	}
	if scale += int64(zeros); n == 0 {
		return 0, true
	}
	if scale < 0 || scale > int64(maxDigits-digits) {
		return 0, false
	}
	n *= pow10(int(scale))
	if negative {
		n = -n
	}
	return n, true
}

// exponent returns the exponent of a JSON number, clamped to ±maxExponent. No mantissa has
// that many digits.
func exponent(text []byte) (e int64) {
	const maxExponent = 1 << 40
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	for _, c := range text {
		e = min(e*10+int64(c-'0'), maxExponent)
	}
	if negative {
		return -e
	}
	return e
}

// pow10 returns 10 to the power of e, for e from 0 to maxDigits.
func pow10(e int) int64 {
	p := int64(1)
	for range e {
		p *= 10
	}
	return p
}
