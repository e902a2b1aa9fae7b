// Package limit bounds what clients may ask for: how many connections they have, at
// what rate they come, how many requests are in work at once, and how much of what takes
// much memory. It knows addresses and counts, and nothing of HTTP.
//
// Whatever clients send, each table here has a largest size.
package limit

import (
	"net/netip"
	"strings"
)

// Proxies are the networks whose hosts are trusted to say for whom they speak. None are
// trusted without one.
type Proxies []netip.Prefix

// Trust reports whether the address is that of a trusted proxy.
func (p Proxies) Trust(addr netip.Addr) bool {
	for _, network := range p {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// Client returns the address that a request comes from, without a zone. peer is the
// other end of its connection, an address with a port; forwarded are the values of
// X-Forwarded-For, in their order. Each proxy adds at the end whom it heard, so of a
// trusted peer it is the last address there that is not itself a trusted proxy, or the
// first if all are. A list that cannot be read up to there says nothing, and the
// request comes from the peer. It is the zero Addr if peer is no address.
func (p Proxies) Client(peer string, forwarded []string) netip.Addr {
	from := Address(peer)
	if len(forwarded) == 0 || !p.Trust(from) {
		return from
	}
	client := from
	for i := len(forwarded) - 1; i >= 0; i-- {
		for rest, more := forwarded[i], true; more; {
			var last string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, last = rest[:comma], rest[comma+1:]
			} else {
				last, more = rest, false
			}
			if client = Address(strings.TrimSpace(last)); !client.IsValid() {
				return from
			}
			if !p.Trust(client) {
				return client
			}
		}
	}
	return client
}

// Address returns an IP address that is written with a port or without, the zero Addr
// if it is none. One of IPv4 has that form, also where IPv6 carries it, and none has a
// zone.
func Address(text string) netip.Addr {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap().WithZone("")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

// clientBits is how much of an address of IPv6 names a client: a site has at least so
// many addresses as the rest can tell apart (RFC 6177), and takes any of them at will.
const clientBits = 64

// Network returns what limits count as one client: an address of IPv4, or the network that
// the first 64 bits of one of IPv6 are.
func Network(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	network, err := addr.Prefix(clientBits)
	if err != nil {
		return addr // not with 64 bits of an address of IPv6
	}
	return network.Addr()
}
