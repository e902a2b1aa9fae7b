// Package canonical makes the forms by which things that were written in
// different ways are found to be the same: domains, names and requests.
//
// These forms are stored. What a function here returns for an input never
// changes within a version of the stored form; the Unicode tables behind it are
// pinned by go.mod.
package canonical

import (
	"strconv"
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
		d.Domain, d.LegacyDomain = DomainForms(s.Claim.Domain)
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
//
// This is version 2 of the form; legacy.go has version 1.
func Domain(s string) string {
	form, _ := domainForm(s, hostName)
	return form
}

// domainForm returns the host name that hostName finds in s and true, or s trimmed and in
// lower case and false.
func domainForm(s string, hostName func(string) string) (form string, isHost bool) {
	text := strings.TrimFunc(s, unicode.IsSpace)
	if host := hostName(text); host != "" {
		return host, true
	}
	// Only what is no host name is put into lower case by other rules than those of
	// UTS 46. It may be one then.
	if lower := strings.ToLower(text); lower != text {
		return domainForm(lower, hostName)
	}
	return text, false
}

// hostName returns the canonical form of the host name in text, or "" if there is
// none. The names http and https do not count: they are what is left of a mistyped
// URL, such as https//a.example, and all such URLs would have the same account.
func hostName(text string) string {
	host := canonicalHost(hostOf(text), toASCII)
	if host == "http" || host == "https" {
		return ""
	}
	return host
}

// canonicalHost returns the canonical form of a host name that toASCII accepts, or "".
func canonicalHost(host string, toASCII func(string) (string, error)) string {
	if host == "" || len(host) > maxHost {
		return ""
	}
	host, err := toASCII(strings.Map(lower, host))
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

// hyphenated is the lookup profile without its rules on hyphens.
var hyphenated = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false))

// toASCII converts a host name by the lookup profile, except that it also accepts ASCII
// labels with hyphens in the third and fourth place. RFC 5890 (section 2.3.1) reserves
// these, but registries have given them out, and browsers accept them. Labels in Punycode
// must be valid by the lookup profile itself.
func toASCII(host string) (string, error) {
	ascii, err := idna.Lookup.ToASCII(host)
	if err == nil {
		return ascii, nil
	}
	if ascii, err = hyphenated.ToASCII(host); err != nil {
		return "", err
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if !strings.HasPrefix(label, "xn--") {
			continue
		}
		if _, err := idna.Lookup.ToASCII(label); err != nil {
			return "", err
		}
	}
	return ascii, nil
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
	text = withoutSchemes(text)
	if end := strings.IndexAny(text, `/\?#`); end >= 0 {
		text = text[:end]
	}
	text = text[strings.LastIndexByte(text, '@')+1:]
	host, port, _ := strings.Cut(text, ":")
	if port == "" {
		return host
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "" // an IPv6 address, or no authority at all
	}
	return host
}

// withoutSchemes returns text without the scheme that it begins with, or "" if that
// is the scheme of a URI without an authority (RFC 3986 section 3), such as file:/a.
// Like browsers, it accepts any number of slashes, forward or back, after http: and
// https:. It removes these two behind another scheme as well.
func withoutSchemes(text string) string {
	text, isURL := strings.CutPrefix(text, "//")
	for {
		scheme, rest, found := strings.Cut(text, ":")
		if !found || !isScheme(scheme) {
			return text
		}
		path := strings.TrimLeft(rest, `/\`)
		switch {
		case len(path) < len(rest) && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")):
			text = path
		case isURL:
			return text
		case strings.HasPrefix(rest, "//"):
			text = rest[len("//"):]
		case rest != "" && strings.ContainsRune(`/\?#`, rune(rest[0])) && !strings.Contains(scheme, "."):
			return "" // a name with a dot is a host and an empty port
		default:
			return text
		}
		isURL = true
	}
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
