package canonical_test

import (
	"bytes"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"atrium"
	"atrium/internal/canonical"
)

func TestDomainIsTheSameForEverySpelling(t *testing.T) {
	for given, want := range map[string]string{
		"example.com":                         "example.com",
		"  Example.COM\t":                     "example.com",
		"https://www.Example.com:443/a?b=c#d": "example.com",
		"//example.com/x":                     "example.com",
		"user:secret@example.com":             "example.com",
		"someone@example.com":                 "example.com",
		"example.com.":                        "example.com",
		"example.com..":                       "example.com..",
		"www.example.com":                     "example.com",
		"www.www.example.com":                 "example.com",
		"www.example":                         "www.example",
		"www.":                                "www",
		"www.com.":                            "www.com",
		"bücher.example":                      "xn--bcher-kva.example",
		"İ.com":                               "xn--i-9bb.com",
		"i̇.com":                              "xn--i-9bb.com",
		"DİYARBAKIR.example":                  "xn--diyarbakir-o2f.example",
		"BÜCHER.example":                      "xn--bcher-kva.example",
		"xn--bcher-kva.example":               "xn--bcher-kva.example",
		"ｗｗｗ．example．com":                     "example.com",
		"faß.example":                         "xn--fa-hia.example",
		"STRAẞE.example":                      "xn--strae-oqa.example",
		"straße.example":                      "xn--strae-oqa.example",
		"Strasse.example":                     "strasse.example",
		"localhost:8080":                      "localhost",
		"192.0.2.1":                           "192.0.2.1",
		"[2001:db8::1]:80":                    "[2001:db8::1]:80",
		"not a host":                          "not a host",
		"A_B.example":                         "a_b.example",
		"https://":                            "https://",
		"-x.example":                          "-x.example",
		strings.Repeat("a", 64) + ".example":  strings.Repeat("a", 64) + ".example",
		strings.Repeat("A", 300000):           strings.Repeat("a", 300000),
		"\u3000example.com\u00a0":             "example.com",
		"example.com/www.other.example":       "example.com",
		"Unattributed.Invalid":                atrium.UnattributedDomain,

		// Hyphens in the third and fourth place.
		"ab--cd.example.org":             "ab--cd.example.org",
		"https://ab--cd.example.org/x":   "ab--cd.example.org",
		"www.ab--cd.example.org":         "ab--cd.example.org",
		"ab--cd.example.org:8443":        "ab--cd.example.org",
		"AB--CD.Example.ORG.":            "ab--cd.example.org",
		"jane@ab--cd.example.org":        "ab--cd.example.org",
		"r3---sn-apo3qvuoxu.example:443": "r3---sn-apo3qvuoxu.example",
		"1---a.example:443":              "1---a.example",
		"ａｂ－－ｃｄ.example":                 "ab--cd.example",
		"https://ab--cd.BÜCHER.example":  "ab--cd.xn--bcher-kva.example",
		"https://ab--.example":           "https://ab--.example",
		"https://ab--c_d.example":        "https://ab--c_d.example",

		// Invalid Punycode, and Punycode of invalid names.
		"https://xn--.example":               "https://xn--.example",
		"https://xn--a.example":              "https://xn--a.example",
		"https://xn--abc-.example":           "https://xn--abc-.example",
		"https://xn--a.ab--cd.example":       "https://xn--a.ab--cd.example",
		"https://xn--ab--c-esa.example":      "https://xn--ab--c-esa.example", // ab--éc
		"https://ab--éc.example":             "https://ab--éc.example",
		"https://-é.ab--cd.example":          "https://-é.ab--cd.example",
		"https://x\u00adn--a.ab--cd.example": "https://x\u00adn--a.ab--cd.example",

		// URLs with one or three slashes, with backslashes, and with several schemes.
		"https:/a.example":                 "a.example",
		"HTTP:/b.example":                  "b.example",
		"https:/www.a.example:443/x?y#z":   "a.example",
		"https:\\a.example\\x":             "a.example",
		"http:\\\\a.example":               "a.example",
		"https:/\\a.example":               "a.example",
		"https:///a.example":               "a.example",
		"http://https://a.example/":        "a.example",
		"https://http:/a.example":          "a.example",
		"//https://a.example":              "a.example",
		"https://a.example:///x":           "a.example",
		"https://localhost:/x":             "localhost",
		"//localhost:/x":                   "localhost",
		"a.example:/x":                     "a.example",
		"https:/?q=a.example":              "https:/?q=a.example",
		"https:/":                          "https:/",
		"https:":                           "https:",
		"https":                            "https",
		"https//a.example":                 "https//a.example",
		"http./b.example":                  "http./b.example",
		"https:443/a.example":              "https:443/a.example",
		"https://https/a.example":          "https://https/a.example",
		"ｈｔｔｐｓ:/a.example":                 "ｈｔｔｐｓ:/a.example",
		"ftp:/a.example":                   "ftp:/a.example",
		"file:/etc/hosts":                  "file:/etc/hosts",
		"file:///etc/hosts":                "file:///etc/hosts",
		"C:\\Users\\Jane":                  "c:\\users\\jane",
		"mailto:?subject=a":                "mailto:?subject=a",
		"mailto:jane@a.example":            "a.example",
		"tel:5551234":                      "tel:5551234",
		"a.example:65535":                  "a.example",
		"a.example:65536":                  "a.example:65536",
		"a.example:":                       "a.example",
		"a.example:000443":                 "a.example",
		"https:a.example":                  "https:a.example",
		"https:/unattributed.invalid":      atrium.UnattributedDomain,
		"http:///www.Unattributed.invalid": atrium.UnattributedDomain,
	} {
		if got := canonical.Domain(given); got != want {
			t.Errorf("Domain(%.60q) = %.60q, want %.60q", given, got, want)
		}
	}
}

func TestLegacyForms(t *testing.T) {
	for given, want := range map[string]string{
		"":                                   "",
		"example.com":                        "",
		"https://www.Example.com:443/a":      "",
		"BÜCHER.example":                     "",
		"xn--bcher-kva.example":              "",
		"Not a Host":                         "",
		"https://A_B.example":                "",
		"ab--cd.example.org":                 "",
		"AB--CD.Example.ORG":                 "",
		" https://AB--CD.example.org/X ":     "https://ab--cd.example.org/x",
		"www.ab--cd.example.org":             "www.ab--cd.example.org",
		"ab--cd.example.org.":                "ab--cd.example.org.",
		"ab--cd.BÜCHER.example":              "ab--cd.bücher.example",
		"https:///A.example":                 "https:///a.example",
		"http:///unattributed.invalid":       "http:///unattributed.invalid",
		"//https://ab--cd.example":           "", // https in version 1
		"https:/a.example":                   "",
		"https:\\\\a.example":                "",
		"http://https://ab--cd.example":      "",
		"ftp:/a.example":                     "",
		"tel:5551234":                        "",
		"https://xn--a.ab--cd.example":       "",
		strings.Repeat("AB--", 400) + ".com": "",
	} {
		domain, legacy := canonical.DomainForms(given)
		if domain != canonical.Domain(given) || legacy != want {
			t.Errorf("DomainForms(%.60q) = %.60q, %.60q, want %.60q, %.60q", given, domain, legacy, canonical.Domain(given), want)
		}
	}
}

func TestADraftHasBothFormsOfItsDomain(t *testing.T) {
	for _, domain := range []string{"", "example.com", "https://AB--CD.example.org"} {
		d, err := canonical.Draft("tenant", atrium.Submission{Claim: atrium.Claim{Domain: domain}})
		if current, legacy := canonical.DomainForms(domain); err != nil || d.Domain != current || d.LegacyDomain != legacy {
			t.Errorf("Draft(%q) has %q and %q, %v, want %q and %q", domain, d.Domain, d.LegacyDomain, err, current, legacy)
		}
	}
}

func FuzzDomainTwiceIsDomainOnce(f *testing.F) {
	for _, s := range []string{"example.com", "https://WWW.ex.com:1/", "bücher.example", "x@y@z.w", "İ.example", "STRAẞE.example", "www.www.a.b", "a。b", "xn--a", "\u00adwww.a.b", "http://http://a.b",
		"https://ab--cd.example", "AB--CD.xn--bcher-kva.", "xn--ab--c-esa.x", "ab--é.x", "https:/a.b", "HTTP:\\\\//a.b:65536", "a:/b", "https:", "//http:/https://x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, legacy := canonical.DomainForms(s)
		if once != canonical.Domain(s) {
			t.Errorf("Domain(%q) = %q, but DomainForms returns %q", s, canonical.Domain(s), once)
		}
		if twice := canonical.Domain(once); twice != once {
			t.Errorf("Domain(Domain(%q)) = %q, want Domain(%[1]q) = %q", s, twice, once)
		}
		if again, _ := canonical.DomainForms(once); again != once {
			t.Errorf("DomainForms(%q) returns the domain %q", once, again)
		}
		if d, l := canonical.DomainForms(legacy); legacy != "" && (d != once || l != legacy) {
			t.Errorf("DomainForms(%q) = %q, %q, want %q, %[1]q", legacy, d, l, once)
		}
		if once == "" && atrium.CheckDomain(s) == "" {
			t.Errorf("Domain(%q) is empty", s)
		}
	})
}

func TestNamesIgnoreCase(t *testing.T) {
	for a, b := range map[string]string{"ACME": "acme", "Straße": "STRASSE", "ΣΊΣΥΦΟΣ": "σίσυφος", "ÅNGSTRÖM": "ångström"} {
		if canonical.Name(a) != canonical.Name(b) {
			t.Errorf("%q and %q are different names", a, b)
		}
	}
	if canonical.Name("a b") == canonical.Name("a  b") {
		t.Error("white space was changed")
	}
}

func fingerprint(t *testing.T, s atrium.Submission) string {
	t.Helper()
	f, err := canonical.Fingerprint(s)
	if err != nil {
		t.Fatalf("Fingerprint(%s): %v", s.Payload, err)
	}
	if len(f) != 33 || f[0] != 1 {
		t.Fatalf("fingerprint %x is not the version byte 1 and 32 more", f)
	}
	return string(f)
}

func TestFingerprintComparesPayloadsByValue(t *testing.T) {
	same := [][]string{
		{`{"a":1,"b":[true,null]}`, `{ "b" : [ true , null ] , "a" : 1.0 }`, `{"b":[true,null],"a":10e-1}`, `{"\u0061":1,"b":[true,null]}`},
		{`{"n":1e999999999}`, `{"n":10e999999998}`, `{"n":0.1e1000000000}`},
		{`{"n":1e99999999999999999999}`, `{"n":10E+99999999999999999998}`, `{"n":0.01e0100000000000000000001}`},
		{`{"n":1e-99999999999999999999}`, `{"n":0.1e-99999999999999999998}`, `{"n":10e-100000000000000000000}`},
		{`{"n":0}`, `{"n":-0}`, `{"n":0.00e99}`},
		{`{"s":"é"}`, `{"s":"\u00e9"}`},
		{`{"n":123456789012345678901234567890.5}`, `{"n":1234567890123456789012345678905E-1}`},
	}
	seen := map[string]string{}
	for _, group := range same {
		first := fingerprint(t, atrium.Submission{Source: "s", Type: "t", Payload: []byte(group[0])})
		if other, taken := seen[first]; taken {
			t.Errorf("%s and %s have the same fingerprint", group[0], other)
		}
		seen[first] = group[0]
		for _, p := range group[1:] {
			if fingerprint(t, atrium.Submission{Source: "s", Type: "t", Payload: []byte(p)}) != first {
				t.Errorf("%s and %s have different fingerprints", group[0], p)
			}
		}
	}
}

func TestFingerprintCoversEveryMember(t *testing.T) {
	seen := map[string]int{}
	for i, s := range []atrium.Submission{
		{Source: "s", Type: "t", Payload: []byte(`{}`)},
		{Source: "st", Type: "", Payload: []byte(`{}`)},
		{Source: "s", Type: "t", Payload: []byte(`{}`), Claim: atrium.Claim{Domain: "d"}},
		{Source: "s", Type: "t", Payload: []byte(`{}`), Claim: atrium.Claim{Name: "d"}},
		{Source: "s", Type: "t", Payload: []byte(`{}`), Claim: atrium.Claim{AccountID: "d"}},
		{Source: "s", Type: "t", Payload: []byte(`{"a":{}}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":[]}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":[[]]}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":[],"b":[]}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":{"b":[]}}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":"1"}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":1}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":-1}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":10}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":true}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":null}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":"\u0000"}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":[1,2]}`)},
		{Source: "s", Type: "t", Payload: []byte(`{"a":[2,1]}`)},
	} {
		f := fingerprint(t, s)
		if other, taken := seen[f]; taken {
			t.Errorf("submissions %d and %d have the same fingerprint", i, other)
		}
		seen[f] = i
	}
}

func TestFingerprintIsStable(t *testing.T) {
	// New fingerprints are compared with stored ones: this value may change only with the
	// version byte.
	const want = "\x01\x1a\x6d"
	got := fingerprint(t, atrium.Submission{Source: "crm", Type: "webhook", Payload: []byte(`{"b":[1.50,"x"],"a":null}`), Claim: atrium.Claim{Domain: "example.com"}})
	if !strings.HasPrefix(got, want) {
		t.Errorf("fingerprint starts with %x, want %x", got[:3], want)
	}
}

func TestEqualNumbersHaveTheSameFingerprint(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		fa, _ := canonical.Fingerprint(atrium.Submission{Payload: []byte(`{"n":` + a + `}`)})
		fb, _ := canonical.Fingerprint(atrium.Submission{Payload: []byte(`{"n":` + b + `}`)})
		if (x.Cmp(y) == 0) != bytes.Equal(fa, fb) {
			t.Fatalf("%s and %s: equal values %v, equal fingerprints %v", a, b, x.Cmp(y) == 0, bytes.Equal(fa, fb))
		}
	})
}
