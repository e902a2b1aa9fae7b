package atrium

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestPrintableReplacesTerminalControls(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Zoë, 東京 🚀\u00a0\u3000!": "Zoë, 東京 🚀\u00a0\u3000!", "e\u0301": "e\u0301",
		"\x1b[31m": "\ufffd[31m", "a\r\n\tb\x00\x7f": "a\ufffd\ufffd\ufffdb\ufffd\ufffd", "\u009b1m\u0085": "\ufffd1m\ufffd",
		"\x9b1m": "\ufffd1m", "\u2028\u2029": "\ufffd\ufffd", "\u202a\u202e\u2066\u2069\u200f": strings.Repeat("\ufffd", 5),
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLengthsCountCodePoints(t *testing.T) {
	for _, char := range []string{"a", "é", "漢", "😀"} {
		for n, ok := range map[int]bool{0: false, 1: true, 99: true, 100: true, 101: false} {
			if fault := CheckText(strings.Repeat(char, n), 1, 100); (fault == "") != ok {
				t.Errorf("%d times %s: fault %q, want valid %v", n, char, fault, ok)
			}
		}
	}
	if CheckText("a\x00b", 1, 100) == "" || CheckText("\x00", 0, Unbounded) == "" {
		t.Error("U+0000 was accepted")
	}
	if CheckText("", 0, 5) != "" || CheckText(strings.Repeat("a", 1<<20), 1, Unbounded) != "" {
		t.Error("a valid text was rejected")
	}
}

func TestTextsAreShortenedByCodePoints(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "äöü": "äöü", "abcd": "ab…", "äöüß": "äö…", "a😀bcde": "a😀…", "\xff\xff\xff": "\xff\xff\xff"} {
		if got := Shorten(3, text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAShortLineIsPrintableAndEndsAtACharacter(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…", "aäö": "aä…", "aäa": "aä…", "a\nb": "a\uFFFDb", "ab\xff": "ab\uFFFD"} {
		if got := ShortLine(3, text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestADomainOfOnlyWhiteSpaceIsRejected(t *testing.T) {
	for c := rune(1); c < 0x3001; c++ {
		if got := CheckDomain(string(c)+string(c)) == ""; got == unicode.IsSpace(c) {
			t.Errorf("%U twice: accepted %v, want %v", c, got, !got)
		}
		if CheckDomain(string(c)+"a") != "" {
			t.Errorf("%U and a letter were rejected", c)
		}
	}
	if CheckDomain("") == "" || CheckDomain("a\x00") == "" {
		t.Error("an invalid domain was accepted")
	}
}

func TestScopesSurviveARoundTrip(t *testing.T) {
	s := ParseScopes(" pages:read accounts:read\tpages:read unknown:later ")
	if want := (Scopes{"accounts:read", "pages:read", "unknown:later"}); !slices.Equal(s, want) {
		t.Errorf("parsed %v", s)
	}
	if !slices.Equal(ParseScopes(s.String()), s) || !s.Has("pages:read") || s.Has("pages") {
		t.Errorf("%v", s)
	}
	if len(ExternalScopes()) != 4 || !slices.IsSorted(ExternalScopes()) {
		t.Errorf("external scopes are %v", ExternalScopes())
	}
}

func TestAKeyWorksUntilItIsRevokedOrExpires(t *testing.T) {
	at := Time(5_000_000)
	for _, c := range []struct {
		key   APIKey
		works bool
	}{
		{APIKey{}, true},
		{APIKey{ExpiresAt: new(at + 1000)}, true},
		{APIKey{ExpiresAt: new(at)}, false},
		{APIKey{RevokedAt: new(at)}, false},
		{APIKey{RevokedAt: new(at), ExpiresAt: new(at + 1000)}, false},
	} {
		if c.key.WorksAt(at) != c.works {
			t.Errorf("%+v works: %v", c.key, !c.works)
		}
	}
}
