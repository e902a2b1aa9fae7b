package strictjson

import "fmt"

// maxDigits is the number of digits that an integer may have.
const maxDigits = 18

// Integer takes a member that is a whole number from least to most; 0 without it. As in
// JSON Schema, 100, 100.0 and 1e2 are the same number (JSON Schema Validation 2020-12,
// section 6.1.1). Neither bound has more than maxDigits digits.
func (o *Object) Integer(name string, least, most int64) int64 {
	v := o.take(name, Optional, "a whole number", "0123456789-")
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

// wholeNumber returns the value of a JSON number. It is false if the value has a fraction or
// more than maxDigits digits. It reads each byte once, and never expands an exponent.
func wholeNumber(number []byte) (n int64, ok bool) {
	negative := number[0] == '-'
	if negative {
		number = number[1:]
	}
	// The mantissa without the zeros at either end, and the power of ten to multiply it by.
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

// exponent returns the exponent of a JSON number. One whose absolute value is above
// maxExponent stands for that: no mantissa has that many digits.
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

// pow10 returns 10 to the power of e, which is from 0 to maxDigits.
func pow10(e int) int64 {
	p := int64(1)
	for range e {
		p *= 10
	}
	return p
}
