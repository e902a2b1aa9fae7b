// Package canonical normalizes domains, names, search words and JSON values, so that different
// spellings of the same thing compare equal. It also computes the fingerprints of requests.
//
// The results are stored. The result for an input never changes within a version of the form;
// go.mod pins the versions of the Unicode tables.
package canonical

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"

	"atrium"
)

// Draft returns the draft of a tenant's submission. It does not set its ID.
func Draft(tenant atrium.TenantID, s atrium.Submission) (*atrium.Draft, error) {
	d := draft(tenant, s)
	if s.IdempotencyKey != "" {
		fingerprint, err := Fingerprint(s)
		if err != nil {
			return nil, err
		}
		d.Fingerprint = fingerprint
	}
	return d, nil
}

// KeyDraft is Draft for a submission that its idempotency key alone identifies.
func KeyDraft(tenant atrium.TenantID, s atrium.Submission) *atrium.Draft {
	d := draft(tenant, s)
	d.Fingerprint = KeyFingerprint(s.IdempotencyKey)
	return d
}

// draft returns a draft without its fingerprint.
func draft(tenant atrium.TenantID, s atrium.Submission) *atrium.Draft {
	d := &atrium.Draft{TenantID: tenant, Submission: s}
	if s.Claim.Domain != "" {
		d.Domain, d.LegacyDomain = DomainForms(s.Claim.Domain)
	}
	if s.Claim.Name != "" {
		d.NameKey = Name(s.Claim.Name)
	}
	d.Words = countWords(d.Domain, s.Claim.Name)
	return d
}

// Name returns the canonical form of an account name, which is Unicode case-folded.
func Name(s string) string {
	if !isASCII(s) {
		return cases.Fold().String(s) // a Caser is not safe for concurrent use
	}
	return strings.ToLower(s)
}

// maxHost is the maximum length of a host name in any script, in bytes: 253 characters (RFC
// 1035 section 2.3.4) of four bytes.
const maxHost = 4 * 253

// Domain returns the canonical form of the domain in s: a lower-case ASCII host name without
// scheme, user, port, path, trailing dot or leading "www.", which it keeps before a single
// label. It converts other scripts by the lookup profile of UTS 46. If s contains no host
// name, Domain returns it trimmed and in lower case. Domain(Domain(s)) equals Domain(s).
//
// This is version 2 of the form; legacy.go has version 1.
func Domain(s string) string {
	form, _ := domainForm(s, hostName)
	return form
}

// domainForm returns the host name that hostName finds in s, and true. If there is none, it
// returns s trimmed and in lower case, and false.
func domainForm(s string, hostName func(string) string) (form string, isHost bool) {
	text := strings.TrimFunc(s, unicode.IsSpace)
	if host := hostName(text); host != "" {
		return host, true
	}
	// UTS 46 has its own rules for lower case, so only a text that is not a host name gets
	// here. In lower case, it may be one, unless it is ASCII.
	lower := strings.ToLower(text)
	if lower == text || isASCII(text) {
		return lower, false
	}
	return domainForm(lower, hostName)
}

// hostName returns the canonical form of the host name in text, or "" if there is none. It
// ignores the names http and https: they come from mistyped URLs such as https//a.example,
// which would all get the same account.
func hostName(text string) string {
	host := canonicalHost(hostOf(text), toASCII)
	if host == "http" || host == "https" {
		return ""
	}
	return host
}

// canonicalHost returns the canonical form of a host name that toASCII accepts, or "".
func canonicalHost(host string, toASCII func(string) (string, error)) string {
	if host == "" || len(host) > maxHost || isTooLong(host) {
		return ""
	}
	return convertHost(host, toASCII)
}

// convertHost is canonicalHost for a host of any length. Its time grows with the square of the length of
// the labels, as that of Punycode does (RFC 3492 section 6).
func convertHost(host string, toASCII func(string) (string, error)) string {
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

// hyphenated is the lookup profile without its rules about hyphens.
var hyphenated = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false))

// toASCII converts a host name by the lookup profile, except that it also accepts ASCII
// labels with hyphens in the third and fourth place. RFC 5890 (section 2.3.1) reserves
// these, but some are registered, and browsers accept them. Punycode labels must be valid by
// the unmodified lookup profile.
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

// lower maps ASCII letters to lower case, which is faster than the profile, and ẞ to ß. The
// tables of the profile map ẞ to ss, but since revision 31, UTS 46 maps it to ß.
func lower(c rune) rune {
	switch {
	case c >= 'A' && c <= 'Z':
		c += 'a' - 'A'
	case c == 'ẞ':
		c = 'ß'
	}
	return c
}

// hostOf returns the host part of a URL, an email address or a bare authority, or "" if
// there is none. It does not check whether that part is a host name.
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
		return "" // an IPv6 address, or not an authority
	}
	return host
}

// withoutSchemes returns text without its scheme, or "" if it is a URI without an authority
// (RFC 3986 section 3), such as file:/a. Like browsers, it accepts any number of slashes and
// backslashes after http: and https:. It also removes these two after another scheme.
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
			return "" // with a dot, it is a host with an empty port
		default:
			return text
		}
		isURL = true
	}
}

// isScheme reports whether s is a URI scheme (RFC 3986 section 3.1).
func isScheme(s string) bool {
	for i, c := range strings.ToLower(s) {
		if letter := c >= 'a' && c <= 'z'; !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return false
		}
	}
	return s != ""
}

// isHost reports whether s is an ASCII host name: at most 253 characters, in labels of 1 to
// 63 lower-case letters, digits and inner hyphens (RFC 1123 section 2.1).
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
