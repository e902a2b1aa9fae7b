package canonical

import (
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// This file has version 1 of the canonical form of domains, which existing accounts
// are stored under. It never changes.
//
// Version 1 did not recognize a host name with hyphens in the third and fourth place of a
// label, or after three slashes: each spelling was a text, and an account, by itself. In
// https:/a.example and similar texts, it mistook the scheme for the host name.

// DomainForms returns Domain(s), and its legacy form: what version 1 made of s, if that
// was not a host name and is not Domain(s). Otherwise legacy is "". A host name that only
// version 1 found is not a legacy form, because it was a scheme, which stands for no
// domain.
//
// DomainForms(legacy) returns the same two forms.
func DomainForms(s string) (domain, legacy string) {
	domain = Domain(s)
	text := strings.TrimFunc(s, unicode.IsSpace)
	if !strings.Contains(domain, "--") && hostOf(text) == hostOfV1(text) {
		return domain, "" // the versions differ in nothing else
	}
	form, isHost := domainForm(s, hostNameV1)
	if isHost || form == domain {
		return domain, ""
	}
	return domain, form
}

func hostNameV1(text string) string { return canonicalHost(hostOfV1(text), idna.Lookup.ToASCII) }

func hostOfV1(text string) string {
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
			return ""
		}
		text = host
	}
	return text
}
