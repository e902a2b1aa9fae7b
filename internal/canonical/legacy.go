package canonical

import (
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// This file has version 1 of the canonical form of domains, which existing accounts may have.
// It never changes.
//
// Version 1 did not recognize host names after three slashes, or with hyphens in the third
// and fourth place of a label: each spelling became a text with its own account. In
// https:/a.example and similar texts, it mistook the scheme for the host name.

// DomainForms returns Domain(s) and the legacy form of s. The legacy form is the result of
// version 1 if that is not a host name and differs from Domain(s), and "" otherwise. A host
// name that only version 1 finds is not a legacy form, because it is a mistaken scheme.
//
// DomainForms(legacy) returns the same two forms.
func DomainForms(s string) (domain, legacy string) {
	domain = Domain(s)
	text := strings.TrimFunc(s, unicode.IsSpace)
	if !strings.Contains(domain, "--") && hostOf(text) == hostOfV1(text) {
		return domain, "" // only these inputs have different results
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
