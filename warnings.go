package atrium

import (
	"strings"
	"unicode"
)

// MaxProspectText is how long each text of a prospect may be, in code points.
const MaxProspectText = 2000

// A Warning says what does not look right about something that is taken as it is.
type Warning struct {
	Where  string // a JSON Pointer (RFC 6901)
	Detail string
}

// Warnings returns what does not look right about the prospect. Formats are never
// enforced: upstream systems have what they have. A text that is empty says nothing
// and is not warned of.
func (p *Prospect) Warnings() (all []Warning) {
	for _, c := range []struct {
		where, detail string
		text          *string
		right         func(string) bool
	}{
		{"/email", "does not look like an e-mail address", p.Email, looksLikeEmail},
		{"/domain", "is not a domain in its canonical form, as acme.example is", p.Domain, looksLikeDomain},
		{"/slug", "has other characters than a to z, 0 to 9 and the hyphen", p.Slug, looksLikeSlug},
		{"/phoneNumber", "is not in E.164 form, as +12025550123 is", p.PhoneNumber, looksLikePhone},
		{"/linkedinProfileUrl", "is not the address of a profile, as https://www.linkedin.com/in/jane-roe is", p.LinkedinProfileURL, looksLikeLinkedin},
	} {
		if c.text != nil && *c.text != "" && !c.right(*c.text) {
			all = append(all, Warning{c.where, c.detail})
		}
	}
	return all
}

// looksLikeEmail is the dot-atom form of RFC 5321 section 4.1.2, with letters of any
// script (RFC 6531) on both sides.
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

// looksLikeDomain is a host name in ASCII and lower case, without a leading www.
func looksLikeDomain(s string) bool {
	return isHostIn(s, isLowerASCII) && (!strings.HasPrefix(s, "www.") || strings.Count(s, ".") == 1)
}

// isHostIn reports whether s is a host name of two labels at least, with hyphens
// inside of labels and otherwise only such characters.
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

// looksLikePhone is a number of 15 digits at most behind a plus, which begins with
// the code of a country.
func looksLikePhone(s string) bool {
	digits, plus := strings.CutPrefix(s, "+")
	return plus && len(digits) > 1 && len(digits) <= 15 && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// looksLikeLinkedin is the address of a person's page, of any country's site.
func looksLikeLinkedin(s string) bool {
	rest, https := strings.CutPrefix(s, "https://")
	site, path, _ := strings.Cut(rest, "/")
	country, linkedin := strings.CutSuffix(site, ".linkedin.com")
	kind, name, _ := strings.Cut(path, "/")
	return https && linkedin && (country == "www" || len(country) == 2 && looksLikeSlug(country) && !strings.Contains(country, "-")) &&
		(kind == "in" || kind == "pub") && strings.Trim(name, "/") != "" &&
		!strings.ContainsFunc(name, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
}

// isLowerASCII reports whether c is a digit or a small letter, in ASCII.
func isLowerASCII(c rune) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// isLetter reports whether c is a letter or a digit in ASCII, or any character that
// is shown of another script.
func isLetter(c rune) bool {
	return isLowerASCII(c) || c >= 'A' && c <= 'Z' || c > unicode.MaxASCII && c != unicode.ReplacementChar && unicode.IsGraphic(c) && !unicode.IsSpace(c)
}
