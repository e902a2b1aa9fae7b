package webhook

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"atrium"
)

// texts returns the faults as one text.
func texts(faults []atrium.Fault) string {
	var all []string
	for _, f := range faults {
		all = append(all, f.Where+" "+f.Detail)
	}
	return strings.Join(all, "; ")
}

func TestValidURLs(t *testing.T) {
	private := prefixes("10.0.0.0/8", "127.0.0.0/8")
	for _, text := range []string{
		"https://example.com", "https://example.com/", "https://EXAMPLE.com:8443/events?tenant=1&x=%20", "https://a_b.example.com/", "https://xn--bcher-kva.example/",
		"https://1.1.1.1/", "https://[2606:4700::1111]:443/", "https://1password.example/", "https://example.0xyz/", "https://intranet/",
	} {
		if faults := CheckURL(text, nil); len(faults) > 0 {
			t.Errorf("%s: %s", text, texts(faults))
		}
	}
	for _, text := range []string{"http://10.0.0.1:3000/hook", "http://127.0.0.1/", "http://localhost:3000/", "http://app.internal/", "https://10.0.0.1/", "http://[::ffff:10.0.0.1]/"} {
		if faults := CheckURL(text, private); len(faults) > 0 {
			t.Errorf("%s with private networks: %s", text, texts(faults))
		}
	}
}

func TestInvalidURLIsReportedWithEveryFault(t *testing.T) {
	const absolute, https, address, name = "must be an absolute URL", "must begin with https://", "must have a public address, or one", "must have a host name"
	for text, wants := range map[string][]string{
		"":                                {absolute},
		"example.com/events":              {absolute},
		"/events":                         {absolute},
		"https:///events":                 {absolute},
		"https:example.com":               {absolute},
		"ftp://example.com/":              {absolute},
		"file:///etc/passwd":              {absolute},
		"https://example.com\\@10.0.0.1/": {absolute},
		"https://exa mple.com/":           {absolute},
		"https://example.com/\x00":        {absolute},
		"https://example.com:port/":       {absolute},
		"https://[fe80::1%25eth0]/":       {address},
		"https://example.com:0/":          {"must have a port"},
		"https://example.com:/":           {"must have a port"},
		"https://example.com:65536/":      {"must have a port"},
		"https://example.com/#":           {"must have no fragment"},
		"https://user@example.com/":       {"must have no user"},
		"https://bücher.example/":         {"ASCII", name},
		"https://example.com/ü":           {"ASCII"},
		"https://example.com/" + strings.Repeat("a", MaxURL):     {"at most 2048 characters"},
		"http://example.com/":                                    {https},
		"http://1.1.1.1/":                                        {https},
		"http://10.0.0.1/":                                       {address},
		"https://169.254.169.254/":                               {address},
		"https://[::1]/":                                         {address},
		"https://[::ffff:127.0.0.1]/":                            {address},
		"https://localhost/":                                     {"must not name this server"},
		"https://app.LOCALHOST/":                                 {"must not name this server"},
		"https://127.1/":                                         {name},
		"https://2130706433/":                                    {name},
		"https://0x7f000001/":                                    {name},
		"https://0177.0.0.1/":                                    {name},
		"https://0x7f.0.0.0x1/":                                  {name},
		"https://127.0.0.1./":                                    {name},
		"https://example.com./":                                  {name},
		"https://-a.example/":                                    {name},
		"https://a..example/":                                    {name},
		"https://" + strings.Repeat("a", 64) + ".example/":       {name},
		"https://" + strings.Repeat("abcdefg.", 32) + "example/": {name},
		"http://me:secret@10.0.0.1:0/#x":                         {"must have no user", "must have no fragment", "must have a port", address},
	} {
		got := texts(CheckURL(text, nil))
		for _, want := range wants {
			if !strings.Contains(got, want) || !strings.HasPrefix(got, "/url ") {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
		if n := len(CheckURL(text, nil)); n != len(wants) {
			t.Errorf("%q: %d faults, want %d: %s", text, n, len(wants), got)
		}
	}
	if got := texts(CheckURL("http://1.1.1.1/", prefixes("10.0.0.0/8"))); !strings.Contains(got, https) {
		t.Errorf("%q, want %q", got, https)
	}
}

func TestHeadersThatATenantCanSet(t *testing.T) {
	many := make([]Header, MaxHeaders+1)
	large := []Header{{"a", strings.Repeat("x", MaxHeaderValue)}, {"b", strings.Repeat("x", MaxHeaderValue)}}
	for _, c := range []struct {
		headers []Header
		want    string
	}{
		{nil, ""},
		{[]Header{{"Authorization", "Bearer abc"}, {"X-Api-Key", "k y"}, {"Cookie", "a=b"}, {"Contents", "x"}}, ""},
		{[]Header{{"HOST", "x"}}, "/headers/HOST is reserved and cannot be set"},
		{[]Header{{"Content-Length", "1"}}, "/headers/Content-Length is reserved"},
		{[]Header{{"Transfer-Encoding", "chunked"}}, "/headers/Transfer-Encoding is reserved"},
		{[]Header{{"webhook-signature", "v1,x"}, {"X-Webhook-Timestamp", "1"}}, "/headers/webhook-signature is reserved and cannot be set; /headers/X-Webhook-Timestamp is reserved and cannot be set"},
		{[]Header{{"a b", "x"}, {"", "x"}, {"a/b~", "x"}}, "/headers/a b must be a valid header name; /headers/ must be a valid header name; /headers/a~1b~0 must be"},
		{[]Header{{"a:", "x"}, {"a\r\nHost", "x"}}, "/headers/a: must be a valid header name"},
		{[]Header{{"X-A", "x"}, {"x-a", "y"}}, "/headers/x-a repeats the name"},
		{[]Header{{"X-A", "x\r\nHost: y"}}, "/headers/X-A must have a value"},
		{[]Header{{"X-A", ""}, {"X-B", " x"}, {"X-C", "ü"}, {"X-D", strings.Repeat("x", MaxHeaderValue+1)}}, "/headers/X-D must have a value of 1 to 4096"},
		{many, "/headers must have at most 20 headers"},
		{large, "/headers must have at most 8192 bytes"},
	} {
		got := texts(CheckHeaders(c.headers))
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%.200q: %q, want %q", c.headers, got, c.want)
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	f.Add("https://example.com/")
	f.Add("http://127.0.0.1:80/")
	f.Add("https://[::ffff:7f00:1]/")
	f.Add("https://00000000000000000000000X/")
	f.Fuzz(func(t *testing.T, text string) {
		if len(CheckURL(text, nil)) > 0 {
			return
		}
		r, err := http.NewRequest(http.MethodPost, text, nil)
		if err != nil {
			t.Fatalf("%q is accepted, but cannot be sent: %v", text, err)
		}
		host := strings.TrimSuffix(strings.TrimPrefix(r.URL.Hostname(), "["), "]")
		if r.URL.Scheme != "https" || r.URL.User != nil || host == "" || strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != "" {
			t.Errorf("%q is accepted", text)
		}
		if _, err := netip.ParseAddr(host); err != nil && isLegacyIPv4(host) {
			t.Errorf("%q has an IPv4 address that Go does not read", text)
		}
	})
}

// isLegacyIPv4 reports whether inet_aton(3) reads a host as an IPv4 address: one to four decimal, octal (0…) or
// hexadecimal (0x…) numbers. It is generous: it takes numbers of any size.
func isLegacyIPv4(host string) bool {
	parts := strings.Split(strings.ToLower(host), ".")
	return len(parts) <= 4 && !slices.ContainsFunc(parts, func(part string) bool {
		hex, ok := strings.CutPrefix(part, "0x")
		return ok && strings.Trim(hex, "0123456789abcdef") != "" || !ok && (part == "" || strings.Trim(part, "0123456789") != "")
	})
}
