package console

import "testing"

func TestInternationalizedDomainsAreShownIfTheyAreSafe(t *testing.T) {
	for domain, want := range map[string]string{
		"acme.example":           "acme.example",
		"xn--bcher-kva.example":  "bücher.example",
		"shop.xn--caf-dma.test":  "shop.café.test",
		"xn--80ak6aa92e.com":     "xn--80ak6aa92e.com",     // Cyrillic letters that look like apple
		"xn--fiqs8s.example":     "xn--fiqs8s.example",     // Han
		"xn--gogle-29a.example":  "xn--gogle-29a.example",  // a Latin letter without an accent that looks like another one
		"xn--n3h.example":        "xn--n3h.example",        // a symbol
		"xn--.example":           "xn--.example",           // not Punycode
		"not a domain: xn--":     "not a domain: xn--",     // from an old entry
		"xn--BCHER-KVA.example":  "xn--BCHER-KVA.example",  // not canonical
		"xn--bcher-kva8.example": "xn--bcher-kva8.example", // another character
	} {
		if got := showDomain(domain); got != want {
			t.Errorf("showDomain(%q) = %q, want %q", domain, got, want)
		}
	}
}
