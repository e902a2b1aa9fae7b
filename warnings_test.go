package atrium_test

import (
	"strings"
	"testing"

	"atrium"
)

// set returns a prospect with one text, that of the member with the pointer.
func set(pointer, text string) *atrium.Prospect {
	var p atrium.Prospect
	*map[string]**string{
		"/name": &p.Name, "/email": &p.Email, "/domain": &p.Domain, "/slug": &p.Slug, "/phoneNumber": &p.PhoneNumber, "/linkedinProfileUrl": &p.LinkedinProfileURL,
	}[pointer] = &text
	return &p
}

func TestUsualValuesCauseNoWarning(t *testing.T) {
	for where, texts := range map[string][]string{
		"/name":  {"", " ", "x", "\x01"},
		"/email": {"", "jane@acme.example", "jane.roe+x@mail.acme.example", "j'o@a-b.example", "jürgen@bücher.example", "JANE@ACME.EXAMPLE"},
		"/domain": {
			"", "acme.example", "a-b.acme.example", "www.example", "xn--bcher-kva.example", strings.Repeat("a", 63) + ".example",
		},
		"/slug":        {"", "jane-roe", "j", "7", "-"},
		"/phoneNumber": {"", "+12025550123", "+4930123456", "+123456789012345"},
		"/linkedinProfileUrl": {
			"", "https://www.linkedin.com/in/jane-roe", "https://www.linkedin.com/in/jane-roe/", "https://de.linkedin.com/in/j%C3%BCrgen", "https://www.linkedin.com/pub/jane/1/2/3",
		},
	} {
		for _, text := range texts {
			if w := set(where, text).Warnings(); len(w) != 0 {
				t.Errorf("%s %q: %+v", where, text, w)
			}
		}
	}
}

func TestAnEmailAddressHasOneAtAndADomain(t *testing.T) {
	for text, want := range map[string]bool{
		"jane@acme.example": true, " Jane.Roe+x@mail.acme.example\n": true, "jürgen@bücher.example": true, `"jane"@acme.example`: true,
		"": false, "jane": false, "jane@": false, "@acme.example": false, "jane@acme": false, "jane@acme.": false, "jane@@acme.example": false,
		"jane@acme.example@acme.example": false, "jane roe@acme.example": false, "jane@acme.example, kim@acme.example": false, "jane@ acme.example": false,
	} {
		if got := atrium.IsEmail(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestSuspiciousValuesCauseOneWarning(t *testing.T) {
	for where, texts := range map[string][]string{
		"/email": {
			" ", "jane", "@acme.example", "jane@", "jane@acme", "jane@@acme.example", "Jane <jane@acme.example>", "jane roe@acme.example", ".jane@acme.example",
			"jane@acme..example", "jane@-acme.example", strings.Repeat("j", 65) + "@acme.example", "jane@acme.example ", "j\x00@acme.example", "jane@\xff.example",
		},
		"/domain": {
			"acme", "Acme.example", "www.acme.example", "acme.example.", "https://acme.example", "bücher.example", "acme .example", "a..example", strings.Repeat("a", 64) + ".example",
		},
		"/slug":        {"Jane", "jane roe", "jane_roe", "jané"},
		"/phoneNumber": {"12025550123", "+0123", "+1 202 555 0123", "+1234567890123456", "+", "+1", "call me", "+١٢٣"},
		"/linkedinProfileUrl": {
			"linkedin.com/in/jane", "http://www.linkedin.com/in/jane", "https://linkedin.com/in/jane", "https://www.linkedin.com/in/", "https://www.linkedin.com/company/acme",
			"https://www.linkedin.com.evil.example/in/jane", "https://evil.linkedin.com/in/jane", "https://--.linkedin.com/in/jane", "https://www.linkedin.com/in/jane roe",
		},
	} {
		for _, text := range texts {
			w := set(where, text).Warnings()
			if len(w) != 1 || w[0].Where != where || w[0].Detail == "" {
				t.Errorf("%s %q: %+v, want one warning", where, text, w)
			}
		}
	}
}

func TestAnEmptyProspectCausesNoWarning(t *testing.T) {
	if w := (&atrium.Prospect{}).Warnings(); len(w) != 0 {
		t.Errorf("%+v", w)
	}
}

func FuzzProspectWarnings(f *testing.F) {
	for _, s := range []string{"", "jane@acme.example", "https://www.linkedin.com/in/jane", "+1", "\xff", ".@", "--.linkedin.com"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, where := range []string{"/name", "/email", "/domain", "/slug", "/phoneNumber", "/linkedinProfileUrl"} {
			if all := set(where, s).Warnings(); len(all) > 1 || len(all) == 1 && all[0].Where != where {
				t.Fatalf("%s %q: %+v", where, s, all)
			}
		}
	})
}
