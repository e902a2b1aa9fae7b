package canonical_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"atrium/internal/canonical"
)

func TestWordsIncludeParts(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		" \t ":                    "",
		"...":                     "",
		"Acme Corp":               "acme|corp",
		"ACME, Inc.":              "acme|inc",
		"acme-corp.example":       "acme-corp.example|acme|corp|example",
		"O'Reilly & Sons":         "o'reilly|o|reilly|sons",
		"Straße":                  "strasse",
		"«Bücher» 3M":             "bücher|3m",
		"हिन्दी समाचार":           "हिन्दी|समाचार",
		"株式会社 アクメ":                "株式会社|アクメ",
		"Jane.Roe@acme.example":   "jane.roe@acme.example|jane|roe|acme|example",
		"bu\u0308cher":            "bu\u0308cher",
		strings.Repeat("é", 2000): strings.Repeat("é", 512),
	} {
		if got := strings.Join(slices.Collect(canonical.Words(text)), "|"); got != want {
			t.Errorf("%q has the words %s, want %s", text, got, want)
		}
	}
}

func TestQueryWordsHaveNoParts(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"-":                  "",
		"Acme acme ACME.":    "acme",
		" acme.exa  Corp":    "acme.exa|corp",
		"(jane@acme.example": "jane@acme.example",
	} {
		if got := strings.Join(canonical.QueryWords(text), "|"); got != want {
			t.Errorf("QueryWords(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestToUnicodeDecodesPunycode(t *testing.T) {
	for domain, want := range map[string]string{
		"acme.example": "acme.example", "xn--bcher-kva.example": "bücher.example", "xn--a": "xn--a", "not a host": "not a host",
	} {
		if got := canonical.ToUnicode(domain); got != want {
			t.Errorf("ToUnicode(%q) = %q, want %q", domain, got, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"", "Acme Corp", "a.b@c d", "\xff\xfe a\x00b", "ΣΊΣΥΦΟΣ ß"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, most int) {
		words := slices.Collect(canonical.Words(s))
		for _, sought := range canonical.QueryWords(s) {
			if !slices.Contains(words, sought) {
				t.Fatalf("Words(%q) lacks %q, which QueryWords returns", s, sought)
			}
		}
		for _, word := range words {
			if word == "" || strings.ContainsAny(word, " \t\n") {
				t.Fatalf("%q has the word %q", s, word)
			}
		}
		if most = max(most, 0); utf8.ValidString(s) {
			if cut := canonical.Truncate(s, most); len(cut) > most || !strings.HasPrefix(s, cut) || !utf8.ValidString(cut) || len(s)-len(cut) > 0 && most-len(cut) > 3 {
				t.Fatalf("%q cut to %d is %q", s, most, cut)
			}
		}
	})
}
