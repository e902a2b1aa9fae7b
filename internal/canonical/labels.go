package canonical

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of a host, in code points, above which no conversion returns a host name. A result has at least one
// character for each code point. Only a label of "xn--", ASCII characters and "-" becomes shorter.
const (
	maxLabel     = 63 + len("xn--") + len("-")
	maxHostRunes = 253 + len(".")
)

// isTooLong reports whether the host or one of its labels is so long that no conversion returns a host name.
// It takes linear time.
func isTooLong(host string) bool {
	if len(host) <= maxLabel {
		return false
	}
	if isASCII(host) {
		host = strings.ToLower(host)
	} else {
		// The conversion removes some characters, maps others to lower case and to compatible ones, and
		// composes them. It never returns fewer code points than these three steps.
		host = norm.NFKC.String(strings.ToLower(strings.Map(withoutIgnored, host)))
		host = strings.ReplaceAll(host, "\u3002", ".") // UTS 46, section 4.5
	}
	for {
		rest, cut := strings.CutPrefix(host, "www.")
		if !cut {
			break
		}
		host = rest
	}
	all := 0
	for label := range strings.SplitSeq(host, ".") {
		n := utf8.RuneCountInString(label)
		if n > maxLabel {
			return true
		}
		if all += n + len("."); strings.HasPrefix(label, "xn--") {
			all -= len("xn--") + len("-")
		}
	}
	return all-len(".") > maxHostRunes
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// withoutIgnored removes the characters whose status is ignored in the tables of UTS 46.
func withoutIgnored(c rune) rune {
	switch {
	case c == 0xad, c == 0x34f, c >= 0x180b && c <= 0x180d, c == 0x180f, c == 0x200b, c == 0x2060, c == 0x2064,
		c >= 0xfe00 && c <= 0xfe0f, c == 0xfeff, c >= 0x1bca0 && c <= 0x1bca3, c >= 0xe0100 && c <= 0xe01ef:
		return -1
	}
	return c
}
