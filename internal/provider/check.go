package provider

import (
	"cmp"
	"fmt"
	"strings"

	"atrium"
)

// Check returns the faults of the verification of a receiver: pointers to its members, such as /header, and details. A
// Verification without faults never makes Verify accept a request without a secret.
func Check(name atrium.ReceiverProvider, v *atrium.Verification) (faults []atrium.Fault) {
	fault := func(member, detail string) {
		faults = append(faults, atrium.Fault{In: atrium.InBody, Where: "/" + member, Detail: detail})
	}
	hmac, inHeader, basic := name == atrium.ProviderHMAC, name == atrium.ProviderHMAC || name == atrium.ProviderToken, name == atrium.ProviderBasic
	for _, m := range []struct {
		name, value string
		used        bool // by the provider
		required    bool
		check       func(string) string
	}{
		{"header", v.Header, inHeader, true, checkHeader},
		{"algorithm", v.Algorithm, hmac, true, oneOf("sha1", "sha256", "sha512")},
		{"encoding", v.Encoding, hmac, true, oneOf("hex", "base64")},
		{"prefix", v.Prefix, inHeader, false, checkVisible},
		{"content", v.Content, hmac, false, checkContent},
		{"timestampHeader", v.TimestampHeader, hmac, false, checkHeader},
		{"idHeader", v.IDHeader, hmac, false, checkHeader},
		{"username", v.Username, basic, true, checkUsername},
	} {
		switch {
		case !m.used && m.value != "":
			fault(m.name, "is not for this provider")
		case m.used && m.required && m.value == "":
			fault(m.name, "is required for this provider")
		case m.used && m.value != "":
			if detail := cmp.Or(atrium.CheckText(m.value, 1, atrium.MaxVerificationText), m.check(m.value)); detail != "" {
				fault(m.name, detail)
			}
		}
	}
	if name == atrium.ProviderToken && v.Prefix != "" && strings.EqualFold(v.Header, "authorization") {
		fault("prefix", "is not for the header Authorization, whose scheme is Bearer")
	}
	if !hmac {
		if v.Tolerance != 0 {
			fault("tolerance", "is not for this provider")
		}
		return faults
	}
	if v.Tolerance < 0 || v.Tolerance > atrium.MaxReceiverTolerance || v.Tolerance == 0 && v.TimestampHeader != "" {
		fault("tolerance", fmt.Sprintf("must be 1 to %d", atrium.MaxReceiverTolerance))
	}
	for _, p := range []struct{ placeholder, member, header string }{
		{"{timestamp}", "timestampHeader", v.TimestampHeader}, {"{id}", "idHeader", v.IDHeader},
	} {
		if strings.Contains(v.Content, p.placeholder) && p.header == "" {
			fault(p.member, "is required, because content has "+p.placeholder)
		}
	}
	if v.TimestampHeader != "" && !strings.Contains(v.Content, "{timestamp}") {
		fault("content", "must have {timestamp}: a timestamp that is not signed can be replaced")
	}
	return faults
}

// checkHeader checks the name of a header (RFC 9110 section 5.1).
func checkHeader(text string) string {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return "must be the name of a header"
		}
	}
	return ""
}

// checkVisible checks the beginning of the value of a header.
func checkVisible(text string) string {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			return "must be visible ASCII characters and spaces"
		}
	}
	if strings.HasPrefix(text, " ") {
		return "must not begin with a space"
	}
	return ""
}

func checkContent(text string) string {
	switch _, ok := splitContent(text); {
	case !ok:
		return "must have no other braces than those of {body}, {timestamp} and {id}"
	case strings.Count(text, "{body}") != 1:
		return "must have {body} once"
	}
	return ""
}

// checkUsername checks a user name of basic authentication (RFC 7617 section 2).
func checkUsername(text string) string {
	if strings.Contains(text, ":") {
		return "must not have a colon"
	}
	return ""
}

func oneOf(values ...string) func(string) string {
	return func(text string) string {
		for _, value := range values {
			if value == text {
				return ""
			}
		}
		return "must be one of " + strings.Join(values, ", ")
	}
}
