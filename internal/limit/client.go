// Package limit limits connections, request rates, requests in flight and memory. Its connections
// also combine writes (Cork) and detect pipelined requests (Pipelines). It does not import net/http.
//
// Rates and Recent remember a maximum number of keys, and Cache evicts from the owner that uses most. The other types remember
// only keys with something held or waiting.
package limit

import (
	"net/netip"
	"strings"
)

// Proxies are the networks of trusted proxies, whose X-Forwarded-For headers Client uses.
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

// Client returns the address of the client of a request, without a zone. peer is the remote
// address of the connection, with a port; forwarded has the values of X-Forwarded-For, in
// order. Each proxy appends the address it received the request from. So if the peer is
// trusted, the client is the last address that is not a trusted proxy, or the first if all
// are. If an address in the list is malformed, from the end up to the client, the client is the
// peer. Client returns the zero Addr if peer is not an address.
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

// Address parses an IP address with or without a port; it returns the zero Addr for any other
// text. An IPv4-mapped IPv6 address is returned as IPv4, and the zone is dropped.
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

// clientBits is the length of the prefix that identifies an IPv6 client: a site has at least a
// /64 (RFC 6177) and can use any address in it.
const clientBits = 64

// Network returns the address that limits count as one client: an IPv4 address, or the /64
// network of an IPv6 address.
func Network(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	network, err := addr.Prefix(clientBits)
	if err != nil {
		return addr // cannot happen: every IPv6 address has a /64
	}
	return network.Addr()
}
