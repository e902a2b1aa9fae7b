package limit_test

import (
	"net/netip"
	"strings"
	"testing"

	"atrium/internal/limit"
)

var proxies = limit.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}

func TestForwardedAddressIsUsedOnlyFromTrustedProxies(t *testing.T) {
	for _, c := range []struct {
		peer, forwarded, want string // forwarded has header values separated by |
	}{
		{"192.0.2.1:80", "", "192.0.2.1"},
		{"192.0.2.1:80", "198.51.100.7", "192.0.2.1"},
		{"192.0.2.1:80", "10.0.0.1", "192.0.2.1"},
		{"10.0.0.1:80", "", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.7", "198.51.100.7"},
		{"[::ffff:10.0.0.1]:80", "198.51.100.7", "198.51.100.7"},
		{"[2001:db8:ffff::1]:80", "2001:db8::7", "2001:db8::7"},

		// addresses from the client precede those that its proxy appends
		{"10.0.0.1:80", "203.0.113.9, 198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:80", "203.0.113.9|198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:80", "nonsense, 198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:80", "203.0.113.9,198.51.100.7 , 10.2.2.2,10.3.3.3", "198.51.100.7"},
		{"10.0.0.1:80", "203.0.113.9,198.51.100.7|10.2.2.2|10.3.3.3", "198.51.100.7"},

		// only trusted proxies
		{"10.0.0.1:80", "10.9.9.9, 10.2.2.2", "10.9.9.9"},

		// other notations
		{"10.0.0.1:80", "198.51.100.7:4711", "198.51.100.7"},
		{"10.0.0.1:80", "[2001:db8::7]:4711", "2001:db8::7"},
		{"10.0.0.1:80", "::ffff:198.51.100.7", "198.51.100.7"},
		{"10.0.0.1:80", "fe80::1%eth0", "fe80::1"},

		// malformed lists
		{"10.0.0.1:80", "nonsense", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.7,", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.7,,10.2.2.2", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.7, nonsense, 10.2.2.2", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.7|", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.256", "10.0.0.1"},
		{"10.0.0.1:80", "unknown", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.007", "10.0.0.1"},

		{"", "198.51.100.7", "invalid IP"},
		{"@", "198.51.100.7", "invalid IP"},
	} {
		var forwarded []string
		if c.forwarded != "" {
			forwarded = strings.Split(c.forwarded, "|")
		}
		if got := proxies.Client(c.peer, forwarded).String(); got != c.want {
			t.Errorf("peer %s, forwarded %q: client %s, want %s", c.peer, c.forwarded, got, c.want)
		}
		if got := limit.Proxies(nil).Client(c.peer, forwarded); got != limit.Address(c.peer) {
			t.Errorf("without proxies, peer %s, forwarded %q: client %s", c.peer, c.forwarded, got)
		}
	}
}

func TestIPv6NetworkIsOneClient(t *testing.T) {
	client := func(text string) netip.Addr { return limit.Network(limit.Address(text)) }
	if client("2001:db8:0:1::1") != client("2001:db8:0:1:ffff:ffff:ffff:ffff") {
		t.Error("two addresses of one IPv6 network are different clients")
	}
	if client("2001:db8:0:1::1") == client("2001:db8:0:2::1") {
		t.Error("two IPv6 networks are the same client")
	}
	if client("192.0.2.1") == client("192.0.2.2") || client("192.0.2.1") != client("::ffff:192.0.2.1") {
		t.Error("an IPv4 address is not exactly one client")
	}
}

// For every header, the client is the peer or the last address in the header that is not
// trusted.
func FuzzForwardedAddresses(f *testing.F) {
	f.Add("10.0.0.1:80", "203.0.113.9, 10.2.2.2", "198.51.100.7")
	f.Add("10.0.0.1:80", "[2001:db8::7]:80,", "")
	f.Add("192.0.2.1:80", "x", ",,")
	f.Fuzz(func(t *testing.T, peer, first, second string) {
		got := proxies.Client(peer, []string{first, second})
		from := limit.Address(peer)
		if got == from {
			return
		}
		if !proxies.Trust(from) {
			t.Fatalf("client is %s, from a peer that is not trusted", got)
		}
		written := strings.Split(first+","+second, ",")
		for i := len(written) - 1; i >= 0; i-- {
			addr := limit.Address(strings.TrimSpace(written[i]))
			if !addr.IsValid() {
				t.Fatalf("client is %s, before a malformed address", got)
			}
			if !proxies.Trust(addr) || i == 0 {
				if addr != got {
					t.Fatalf("client is %s, want %s", got, addr)
				}
				return
			}
		}
	})
}
