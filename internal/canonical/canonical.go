// Package canonical makes the forms by which things that were written in
// different ways are found to be the same: domains, names and requests.
//
// These forms are stored. What a function here returns for an input never
// changes within a version of the stored form; the Unicode tables behind it are
// pinned by go.mod.
package canonical

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"

	"atrium"
)

// Draft makes a submission ready to be recorded for the tenant.
func Draft(tenant atrium.TenantID, s atrium.Submission) (*atrium.Draft, error) {
	d := &atrium.Draft{TenantID: tenant, Submission: s}
	if s.Claim.Domain != "" {
		d.Domain = Domain(s.Claim.Domain)
	}
	if s.Claim.Name != "" {
		d.NameKey = Name(s.Claim.Name)
	}
	if s.IdempotencyKey != "" {
		fingerprint, err := Fingerprint(s)
		if err != nil {
			return nil, err
		}
		d.Fingerprint = fingerprint
	}
	return d, nil
}

// Name returns the Unicode case-folded form of an account's name, by which
// names are matched.
func Name(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return cases.Fold().String(s) // a Caser must not be shared
		}
	}
	return strings.ToLower(s)
}

// maxHost is the length in bytes above which a text is no host name in any
// script: 253 characters (RFC 1035 section 2.3.4) of four bytes.
const maxHost = 4 * 253

// Domain returns the canonical form of a domain that somebody claims: a bare
// host name in ASCII, lower case, without scheme, user, port, path, trailing
// dot or leading "www." (kept where it is all but one label). Non-ASCII names go
// through the lookup profile of UTS 46. A text that holds no host name is
// returned trimmed and in lower case. Domain(Domain(s)) is Domain(s).
func Domain(s string) string {
	text := strings.TrimFunc(s, unicode.IsSpace)
	if host := hostName(text); host != "" {
		return host
	}
	// Only what is no host name is put into lower case by other rules than those of
	// UTS 46. It may be one then.
	if lower := strings.ToLower(text); lower != text {
		return Domain(lower)
	}
	return text
}

// hostName returns the canonical form of the host name in text, or "" if there is
// none.
func hostName(text string) string {
	host := hostOf(text)
	if host == "" || len(host) > maxHost {
		return ""
	}
	host, err := idna.Lookup.ToASCII(strings.Map(lower, host))
	if err != nil {
		return ""
	}
	host = strings.TrimSuffix(host, ".")
	for {
		rest, cut := strings.CutPrefix(host, "www.")
		if !cut || !strings.Contains(rest, ".") {
			break
		}
		host = rest
	}
	if !isHost(host) {
		return ""
	}
	return host
}

// lower spares the profile, which maps the other letters itself: but for ẞ, of which
// its tables make ss. Its small letter ß is not ss, nor has it been for ẞ since
// revision 31 of UTS 46.
func lower(c rune) rune {
	switch {
	case c >= 'A' && c <= 'Z':
		c += 'a' - 'A'
	case c == 'ẞ':
		c = 'ß'
	}
	return c
}

// hostOf returns the part of a URL, an e-mail address or a bare authority that
// stands where a host name does, or "" if there is none.
func hostOf(text string) string {
	if scheme, rest, found := strings.Cut(text, "://"); found && isScheme(scheme) {
		text = rest
	} else {
		text = strings.TrimPrefix(text, "//")
	}
	if end := strings.IndexAny(text, `/\?#`); end >= 0 {
		text = text[:end]
	}
	text = text[strings.LastIndexByte(text, '@')+1:]
	if host, port, found := strings.Cut(text, ":"); found {
		if strings.Trim(port, "0123456789") != "" {
			return "" // an IPv6 address, or no authority at all
		}
		text = host
	}
	return text
}

// isScheme is the rule of RFC 3986 section 3.1.
func isScheme(s string) bool {
	for i, c := range strings.ToLower(s) {
		if letter := c >= 'a' && c <= 'z'; !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return false
		}
	}
	return s != ""
}

// isHost reports whether s is a host name in ASCII: labels of 1 to 63 letters,
// digits and inner hyphens, 253 characters at most (RFC 1123 section 2.1).
func isHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}
