package atrium

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of text, in Unicode code points, as the contracts state them.
const (
	MaxSource         = 100
	MaxType           = 100
	MaxName           = 255
	MaxIdempotencyKey = 255
	MaxNote           = 1000
)

// Unbounded is the maximum for CheckText where only the size of the whole
// request bounds a text.
const Unbounded = -1

// CheckText returns what is wrong with s as a text of least to most code
// points, or "". U+0000 is refused everywhere outside payloads: PostgreSQL
// cannot hold it in text, and behavior is the same on every engine.
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

// Printable returns s as one line that is safe to print on a terminal: U+FFFD replaces every
// character that is neither visible nor a space. That includes C0 and C1 controls, line
// separators, and those that change the direction of text.
func Printable(s string) string { return strings.Map(PrintableRune, s) }

// PrintableRune is Printable for one character.
func PrintableRune(r rune) rune {
	if unicode.IsGraphic(r) {
		return r
	}
	return unicode.ReplacementChar
}

// CheckDomain returns what is wrong with s as a domain that somebody claims,
// or "". Any text is taken that is not empty and not white space alone.
func CheckDomain(s string) string {
	if fault := CheckText(s, 1, Unbounded); fault != "" {
		return fault
	}
	if strings.TrimFunc(s, unicode.IsSpace) == "" {
		return "must not be white space alone"
	}
	return ""
}
