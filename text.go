package atrium

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Maximum lengths of texts in Unicode code points, as in the API documents.
const (
	MaxSource         = 100
	MaxType           = 100
	MaxName           = 255
	MaxIdempotencyKey = 255
	MaxNote           = 1000
)

// Unbounded is the maximum for CheckText if only the size of the request limits a text.
const Unbounded = -1

// CheckText checks that s has least to most code points and no U+0000. It returns the
// detail of a Fault, or "" if s is valid. Only payloads may contain U+0000: PostgreSQL
// cannot store it in a text, and all engines behave the same.
func CheckText(s string, least, most int) string {
	n := utf8.RuneCountInString(s)
	switch {
	case most == Unbounded && n < least:
		return "must not be empty"
	case n < least || most != Unbounded && n > most:
		return fmt.Sprintf("must be %d to %d characters long", least, most)
	case strings.IndexByte(s, 0) >= 0:
		return "must not contain U+0000"
	}
	return ""
}

// Printable returns s as one line that is safe to print to a terminal. It replaces every
// character that is neither visible nor a space with U+FFFD, including C0 and C1 controls,
// line separators and bidirectional controls.
func Printable(s string) string { return strings.Map(PrintableRune, s) }

// PrintableRune is Printable for one character.
func PrintableRune(r rune) rune {
	if unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Shorten returns s if it has at most most code points, and otherwise its beginning and an ellipsis, which are most
// code points together. most is at least 1.
func Shorten(most int, s string) string {
	n, end := 0, 0
	for i := range s {
		switch n++; n {
		case most:
			end = i
		case most + 1:
			return s[:end] + "…"
		}
	}
	return s
}

// ShortLine returns s as Printable does. If s is longer than most bytes, it returns only its beginning, with an ellipsis.
func ShortLine(most int, s string) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return Printable(s)
}

// Count returns a number with its noun: one if n is 1, else many.
func Count[N int | int64](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// CheckDomain checks the domain of a claim: any text with a character that is not white
// space. It returns the detail of a Fault, or "" if s is valid.
func CheckDomain(s string) string {
	if fault := CheckText(s, 1, Unbounded); fault != "" {
		return fault
	}
	if strings.TrimFunc(s, unicode.IsSpace) == "" {
		return "must not be only white space"
	}
	return ""
}
