package atrium

import (
	"strings"
	"unicode"
)

// MaxProspectText is the maximum length of each text of a prospect, in code points.
const MaxProspectText = 2000

// A Warning reports a suspicious value that was accepted nevertheless.
type Warning struct {
	Where  string // a JSON Pointer (RFC 6901)
	Detail string
}

// Warnings returns the suspicious values of the prospect. Formats are not enforced, because
// upstream systems may not have better data. Empty texts cause no warning.
func (p *Prospect) Warnings() (all []Warning) {
	for _, c := range []struct {
		where, detail string
		text          *string
		looksRight    func(string) bool
	}{
		{"/email", "does not look like an email address", p.Email, looksLikeEmail},
		{"/domain", "is not a domain in canonical form, such as acme.example", p.Domain, looksLikeDomain},
		{"/slug", "contains characters other than a to z, 0 to 9 and hyphens", p.Slug, looksLikeSlug},
		{"/phoneNumber", "is not in E.164 format, such as +12025550123", p.PhoneNumber, looksLikePhone},
		{"/linkedinProfileUrl", "is not a LinkedIn profile URL, such as https://www.linkedin.com/in/jane-roe", p.LinkedinProfileURL, looksLikeLinkedin},
	} {
		if c.text != nil && *c.text != "" && !c.looksRight(*c.text) {
			all = append(all, Warning{c.where, c.detail})
		}
	}
	return all
}

// looksLikeEmail reports whether s is a dot-string mailbox (RFC 5321 section 4.1.2) with
// letters of any script (RFC 6531) on both sides.
func looksLikeEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at > 64 || len(s) > 254 {
		return false
	}
	for atom := range strings.SplitSeq(s[:at], ".") {
		if atom == "" || strings.ContainsFunc(atom, func(c rune) bool { return !isLetter(c) && !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", c) }) {
			return false
		}
	}
	return isHostIn(s[at+1:], isLetter)
}

// IsEmail reports whether s, without surrounding white space, has the parts of an email address: exactly one @ between a
// local part and a domain with a dot. Many texts that no mail server takes have them as well.
func IsEmail(s string) bool {
	local, domain, _ := strings.Cut(strings.TrimSpace(s), "@")
	return local != "" && !strings.ContainsFunc(local, unicode.IsSpace) && isHostIn(domain, isLetter)
}

// looksLikeDomain reports whether s is a lower-case ASCII host name without a leading www.
func looksLikeDomain(s string) bool {
	return isHostIn(s, isLowerASCII) && (!strings.HasPrefix(s, "www.") || strings.Count(s, ".") == 1)
}

// isHostIn reports whether s is a host name of at least two labels that consist of allowed
// characters and inner hyphens.
func isHostIn(s string, allowed func(rune) bool) bool {
	if len(s) > 253 || !strings.Contains(s, ".") {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(c rune) bool { return c != '-' && !allowed(c) }) {
			return false
		}
	}
	return true
}

func looksLikeSlug(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c != '-' && !isLowerASCII(c) })
}

// looksLikePhone reports whether s is an E.164 number: a plus and 2 to 15 digits, the first
// of which is not zero.
func looksLikePhone(s string) bool {
	digits, plus := strings.CutPrefix(s, "+")
	return plus && len(digits) > 1 && len(digits) <= 15 && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// looksLikeLinkedin reports whether s is the URL of a personal profile, on the site of any country.
func looksLikeLinkedin(s string) bool {
	rest, https := strings.CutPrefix(s, "https://")
	site, path, _ := strings.Cut(rest, "/")
	country, linkedin := strings.CutSuffix(site, ".linkedin.com")
	kind, name, _ := strings.Cut(path, "/")
	return https && linkedin && (country == "www" || len(country) == 2 && looksLikeSlug(country) && !strings.Contains(country, "-")) &&
		(kind == "in" || kind == "pub") && strings.Trim(name, "/") != "" &&
		!strings.ContainsFunc(name, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
}

// isLowerASCII reports whether c is an ASCII digit or lower-case letter.
func isLowerASCII(c rune) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// isLetter reports whether c is an ASCII letter or digit, or a visible non-ASCII character.
func isLetter(c rune) bool {
	return isLowerASCII(c) || c >= 'A' && c <= 'Z' || c > unicode.MaxASCII && c != unicode.ReplacementChar && unicode.IsGraphic(c) && !unicode.IsSpace(c)
}
