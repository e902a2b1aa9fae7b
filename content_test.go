package atrium_test

import (
	"strings"
	"testing"

	"atrium"
)

func TestOriginsAreWrittenAsBrowsersSendThem(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com":           "https://example.com",
		"https://www.xn--bcher-kva.de":  "https://www.xn--bcher-kva.de",
		"https://example.com:443":       "https://example.com",
		"https://example.com:8443":      "https://example.com:8443",
		"https://example.com:80":        "https://example.com:80",
		"http://example.com:80":         "http://example.com",
		"http://localhost:3000":         "http://localhost:3000",
		"http://127.0.0.1":              "http://127.0.0.1",
		"http://[::1]:3000":             "http://[::1]:3000",
		"":                              "",
		"null":                          "",
		"*":                             "",
		"https://*.example.com":         "",
		"https://":                      "",
		"https://example.com/":          "",
		"https://example.com?":          "",
		"https://example.com#":          "",
		"https://user@example.com":      "",
		"https://Example.com":           "",
		"https://bücher.example":        "",
		"https://example.com:":          "",
		"https://example.com:123456":    "",
		"https://-example.com":          "",
		"https://example..com":          "",
		"https://example.com https://a": "",
		"https://example.com\n":         "",
		"ftp://example.com":             "",
		"example.com":                   "",
		"HTTPS://example.com":           "",
		"https://" + strings.Repeat("a", 253) + ":65535": "https://" + strings.Repeat("a", 253) + ":65535",
		"https://" + strings.Repeat("a", 254) + ":65535": "",
	} {
		if got, ok := atrium.ParseOrigin(text); got != want || ok != (want != "") {
			t.Errorf("%q is the origin %q, %v; want %q", text, got, ok, want)
		}
	}
}
