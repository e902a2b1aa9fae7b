package canonical

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// hostiles have parts whose conversion takes long, and parts that become short.
var hostiles = []string{
	"xn--" + strings.Repeat("4CA", 335), "xn--" + strings.Repeat("4ca", 335) + ".example", strings.Repeat("\uac00", 335),
	strings.Repeat("a", 68), "xn--" + strings.Repeat("a", 63) + "-", "xn--" + strings.Repeat("a", 64) + "-",
	strings.Repeat("www.", 250) + "a.example", strings.Repeat("\u00ad", 400) + "a.example", "a" + strings.Repeat("\u200b\ufe0f", 150) + ".example",
	strings.Repeat("xn--a-.", 120) + "xn--" + strings.Repeat("b", 10) + "-.", strings.Repeat("xn--"+strings.Repeat("b", 40)+"-.", 6), strings.Repeat("WWW\u3002", 150) + "a.example",
	strings.Repeat("\u1100\u1161\u11a8", 59) + ".example", strings.Repeat("\u1100\u00ad\u1161\u200b\u11a8", 30) + ".example",
	strings.Repeat("H\u0331", 59) + ".example", strings.Repeat("\u03aa\u0301", 59) + ".example", strings.Repeat("\u0399\u0308\u0301", 59),
	strings.Repeat("\uff76\uff9e", 59) + "\u3002example", strings.Repeat("a\u3002", 200), strings.Repeat("a\uff0e", 200), strings.Repeat("a\uff61", 200),
	strings.Repeat("\u0041\u030a", 100), strings.Repeat("ẞ", 63), strings.Repeat("ẞ", 64), strings.Repeat("\ufdfa", 10), strings.Repeat("\u2488", 80),
}

// neverHost fails the test if a host that is too long converts to a host name after all.
func neverHost(t *testing.T, host string) {
	t.Helper()
	if host == "" || len(host) > maxHost || !isTooLong(host) {
		return
	}
	for name, toASCII := range map[string]func(string) (string, error){"2": toASCII, "1": idna.Lookup.ToASCII} {
		if form := convertHost(host, toASCII); form != "" {
			t.Errorf("%q is too long, but its form in version %s is %q", host, name, form)
		}
	}
}

func TestNoHostThatIsTooLongHasAForm(t *testing.T) {
	for _, host := range hostiles {
		neverHost(t, host)
		neverHost(t, strings.ToUpper(host))
	}
}

func FuzzLongHosts(f *testing.F) {
	for _, host := range hostiles {
		f.Add(host, uint8(1))
	}
	for _, seed := range []string{"H\u0331", "\u03b1\u0313\u0301\u0345", "\u0915\u093c", "i\u0307", "\u1e9e", "\ufb01", "\u00c5", "\u212b", "a\u00ad\u030a", "\u0130"} {
		f.Add(seed, uint8(59))
		f.Add(seed, uint8(68))
	}
	f.Fuzz(func(t *testing.T, text string, times uint8) {
		if len(text)*int(times) > maxHost {
			return
		}
		neverHost(t, strings.Repeat(text, int(times)))
	})
}

// No character that has a lower case, a decomposition or a compatible form becomes shorter in the conversion
// than the steps of isTooLong make it, alone or before a mark.
func TestNoCharacterIsShorterThanCounted(t *testing.T) {
	for c := rune(0x80); c <= utf8.MaxRune; c++ {
		if !utf8.ValidRune(c) {
			continue
		}
		ascii, err := hyphenated.ToASCII("a" + string(c) + "b")
		if ignored := err == nil && ascii == "ab"; ignored != (withoutIgnored(c) < 0) {
			t.Errorf("%U: ignored by the conversion: %v", c, ignored)
		}
		texts := []string{string(c)}
		switch {
		case unicode.ToLower(c) != c: // its lower case may be composed with a mark, and c not
			texts = append(texts, string(c)+"\u0301", string(c)+"\u0308", string(c)+"\u0331", string(c)+"\u0345")
		case norm.NFKD.IsNormalString(string(c)) && c%1009 != 0, c%13 != 0 && unicode.Is(unicode.Hangul, c): // of these, a sample
			continue
		}
		for _, text := range texts {
			neverHost(t, strings.Repeat(text, min(maxLabel+1, maxHost/len(text))))
		}
	}
}

// The time of an entry must not depend on what its domain is. Compare with those of short labels.
func BenchmarkDomain(b *testing.B) {
	for name, domain := range map[string]string{
		"short labels": strings.Repeat("abcdefghi.", 100), "Punycode": "xn--" + strings.Repeat("4CA", 335), "Hangul": hangul(335) + "A",
		"longest labels": strings.Repeat(hangul(rune(maxLabel))+".", 4) + hangul(50) + "A", "short Punycode": strings.Repeat("xn--"+strings.Repeat("4CA", 20)+".", 15) + "A",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				DomainForms(domain)
			}
		})
	}
}

func hangul(n rune) string {
	var b strings.Builder
	for c := range n {
		b.WriteRune(0xac00 + c)
	}
	return b.String()
}
