package console

import (
	"strings"

	"golang.org/x/net/idna"
)

// accentedLatin are lower-case Latin letters that a mark sets apart from ASCII letters, and ß.
const accentedLatin = "àáâãäåçèéêëìíîïñòóôõöøùúûüýÿßāăąćĉċčďēĕėęěĝğġģĥĩīĭįĵķĺļľłńņňōŏőŕŗřśŝşšţťũūŭůűųŵŷźżž"

// showDomain returns a domain with its internationalized labels in Unicode, if they have only ASCII characters and
// accented Latin letters. Letters of other scripts can look like Latin ones, so that two domains would look equal: such
// a domain stays in Punycode. Other texts are unchanged.
func showDomain(domain string) string {
	if len(domain) > 253 || !strings.Contains(domain, "xn--") {
		return domain
	}
	shown, err := idna.Lookup.ToUnicode(domain)
	if err != nil {
		return domain
	}
	for _, r := range shown {
		if r >= 0x80 && !strings.ContainsRune(accentedLatin, r) {
			return domain
		}
	}
	if ascii, err := idna.Lookup.ToASCII(shown); err != nil || ascii != domain {
		return domain
	}
	return shown
}
