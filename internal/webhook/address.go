package webhook

import (
	"net/netip"
	"slices"
)

// alwaysBlocked lists prefixes that are never called, even if the settings allow them: this host, link-local, multicast, and
// cloud metadata services, which hand out credentials.
var alwaysBlocked = prefixes(
	"0.0.0.0/8", "::/128", // this host
	"169.254.0.0/16", "fe80::/10", // link-local, with most metadata services
	"224.0.0.0/4", "255.255.255.255/32", "ff00::/8", // multicast and broadcast
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", // metadata services with other addresses
	"fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::/32", "fd00:42::/32",
)

// nonGlobal lists prefixes that are not globally reachable according to the registries of special-purpose addresses
// (RFC 6890), and deprecated tunnel prefixes. They are called only if the settings allow them. The same holds for IPv6
// addresses outside of 2000::/3 and the well-known NAT64 prefix.
var nonGlobal = prefixes(
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	localNAT64    = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	compatible    = netip.MustParsePrefix("::/96")           // RFC 4291 section 2.5.5.1
	translated    = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765 section 2.1
	sixToFour     = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo        = netip.MustParsePrefix("2001::/32")       // RFC 4380
)

func prefixes(all ...string) (list []netip.Prefix) {
	for _, text := range all {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func within(a netip.Addr, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// embedded returns the IPv4 address to which a gateway or tunnel would forward packets for an IPv6 address.
func embedded(a netip.Addr) (v4 netip.Addr, ok bool) {
	if !a.Is6() {
		return v4, false
	}
	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case nat64.Contains(a), localNAT64.Contains(a), translated.Contains(a):
		return last, true
	case compatible.Contains(a):
		return last, a != netip.IPv6Loopback()
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a): // the client's address is inverted (section 4)
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP (RFC 5214 section 6.1)
		return last, true
	}
	return v4, false
}

// reachesBlocked reports whether a is always blocked, or a NAT64 translator may map it to such an address. A local NAT64 prefix
// can have several lengths, so all possible offsets of the IPv4 address are checked (RFC 6052 section 2.2). An IPv4 address that
// begins with 0 is ignored.
func reachesBlocked(a netip.Addr) bool {
	if within(a, alwaysBlocked) {
		return true
	}
	if !localNAT64.Contains(a) {
		return false
	}
	b := a.As16()
	for _, v4 := range [][4]byte{{b[6], b[7], b[9], b[10]}, {b[7], b[9], b[10], b[11]}, {b[9], b[10], b[11], b[12]}} {
		if a := netip.AddrFrom4(v4); v4[0] != 0 && !a.IsMulticast() && within(a, alwaysBlocked) { // a subnet may begin like a multicast address
			return true
		}
	}
	return false
}

// allowedWithoutTLS reports whether an address may be called without TLS: only if the settings allow it.
func allowedWithoutTLS(a netip.Addr, allow []netip.Prefix) bool {
	a = a.Unmap()
	if a.Zone() != "" || reachesBlocked(a) {
		return false
	}
	if v4, ok := embedded(a); ok {
		return allowedWithoutTLS(v4, allow)
	}
	return within(a, allow)
}

// allowedWithTLS reports whether an address may be called with TLS: if the settings allow it, or it is globally reachable.
func allowedWithTLS(a netip.Addr, allow []netip.Prefix) bool {
	a = a.Unmap()
	if a.Zone() != "" || reachesBlocked(a) {
		return false
	}
	v4, tunneled := embedded(a)
	if tunneled && !allowedWithTLS(v4, allow) {
		return false
	}
	switch {
	case within(a, allow):
		return true
	case within(a, nonGlobal):
		return false
	case a.Is4():
		return true
	}
	return globalUnicast.Contains(a) || nat64.Contains(a)
}
