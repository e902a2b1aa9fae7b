package mapping

import (
	_ "embed"
	"strings"
	"sync"
)

// publicMailList has domains of public mail providers, one a line, in canonical form. A domain that
// ends in .* stands for all domains with one or two labels instead of the asterisk.
//
//go:embed public_mail.txt
var publicMailList string

var publicMail = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for domain := range strings.Lines(publicMailList) {
		if domain = strings.TrimSpace(domain); domain != "" && domain[0] != '#' {
			all[domain] = true
		}
	}
	return all
})

// isPublicMail reports whether a domain is that of a public mail provider: it says nothing about the account.
func isPublicMail(domain string) bool {
	name, rest, _ := strings.Cut(domain, ".")
	return publicMail()[domain] || strings.Count(rest, ".") <= 1 && publicMail()[name+".*"]
}
