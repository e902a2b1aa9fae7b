package webhook

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// newDNS starts a name server and returns a resolver that asks it. addresses returns the addresses of a name, or
// none if it does not exist.
func newDNS(t *testing.T, addresses func(name string) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = conn.Close()
		running.Wait()
	})
	running.Go(func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if response, err := respond(buffer[:n], addresses); err == nil {
				_, _ = conn.WriteTo(response, from)
			}
		}
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// respond returns the response to a query.
func respond(query []byte, addresses func(string) []netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	all := addresses(strings.TrimSuffix(q.Name.String(), "."))
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if all == nil {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range all {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, r)
	}
	return m.Pack()
}

// listenOn starts a server on an address of the loopback network, and returns its port.
func listenOn(t *testing.T, addr string, called *atomic.Int32) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) })}} //nolint:gosec // a test
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port
}

func TestEveryAddressOfANameIsChecked(t *testing.T) {
	var called atomic.Int32
	port := listenOn(t, "127.0.0.1:0", &called)
	for name, addresses := range map[string][]string{
		"loopback.example":   {"127.0.0.1"},
		"loopback6.example":  {"::1"},
		"mapped.example":     {"::ffff:127.0.0.1"},
		"compatible.example": {"::127.0.0.1"},
		"metadata.example":   {"169.254.169.254"},
		"private.example":    {"10.0.0.1", "192.168.0.1", "172.16.0.1"},
		"nat64.example":      {"64:ff9b::127.0.0.1"},
		"sixtofour.example":  {"2002:7f00:1::"},
		"any.example":        {"0.0.0.0", "::"},
	} {
		resolver := newDNS(t, func(string) (all []netip.Addr) {
			for _, a := range addresses {
				all = append(all, netip.MustParseAddr(a))
			}
			return all
		})
		for _, c := range []struct {
			scheme string
			allow  []netip.Prefix
		}{{"https", nil}, {"http", prefixes("10.9.0.0/16")}, {"https", prefixes("10.9.0.0/16")}} {
			a := newTestSender(t, Config{Resolver: resolver, Allow: c.allow}).Send(t.Context(), endpoint(c.scheme+"://"+name+":"+port), message, time.Now())
			if a.Failure != Blocked || a.Result != Retry || called.Load() != 0 {
				t.Errorf("%s://%s: %+v", c.scheme, name, a)
			}
			for _, address := range addresses {
				if strings.Contains(a.Detail, address) {
					t.Errorf("the detail tells the address: %s", a.Detail)
				}
			}
		}
	}
}

func TestNameThatResolvesToAnotherAddressLaterIsBlocked(t *testing.T) {
	var outside, inside atomic.Int32
	port := listenOn(t, "127.0.0.2:0", &outside)
	listenOn(t, "127.0.0.3:"+port, &inside)
	var rebound atomic.Bool
	resolver := newDNS(t, func(string) []netip.Addr {
		if rebound.Load() {
			return []netip.Addr{netip.MustParseAddr("127.0.0.3")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
	})
	s := newTestSender(t, Config{Resolver: resolver, Allow: prefixes("127.0.0.2/32")}) // stands for a public address
	e := endpoint("http://rebinding.example:" + port)
	if a := s.Send(t.Context(), e, message, time.Now()); a.Result != Succeeded || outside.Load() != 1 {
		t.Fatalf("%+v", a)
	}
	rebound.Store(true)
	s.Close() // an open connection could be used again, which leads to the first address
	if a := s.Send(t.Context(), e, message, time.Now()); a.Failure != Blocked || inside.Load() != 0 {
		t.Errorf("%+v", a)
	}
}

func TestNameThatHasNoAddress(t *testing.T) {
	resolver := newDNS(t, func(string) []netip.Addr { return nil })
	a := newTestSender(t, Config{Resolver: resolver}).Send(t.Context(), endpoint("https://none.example"), message, time.Now())
	if a.Failure != DNS || a.Result != Retry || a.Detail == "" {
		t.Errorf("%+v", a)
	}
}

func TestNameWithTooManyAddressesIsNotResolved(t *testing.T) {
	var called atomic.Int32
	port := listenOn(t, "127.0.0.1:0", &called)
	for n, failure := range map[int]Failure{maxRecords: NoFailure, maxRecords + 1: DNS} {
		resolver := newDNS(t, func(string) (all []netip.Addr) {
			for range n {
				all = append(all, netip.MustParseAddr("127.0.0.1"))
			}
			return all
		})
		a := newTestSender(t, Config{Resolver: resolver, Allow: loopback}).Send(t.Context(), endpoint("http://many.example:"+port), message, time.Now())
		if a.Failure != failure {
			t.Errorf("%d addresses: %+v", n, a)
		}
	}
}

func TestLargeResponsesOfNameServersAreNotRead(t *testing.T) {
	header := func(answers byte) string { return "\x10\x00" + "idflqd\x00" + string([]byte{answers}) }
	for name, c := range map[string]struct {
		sent string
		ok   bool
	}{
		"small":            {header(maxRecords) + strings.Repeat("x", 1000), true},
		"many records":     {header(maxRecords+1) + strings.Repeat("x", 1000), false},
		"large":            {header(1) + strings.Repeat("x", maxDNS-10), true},
		"larger":           {header(1) + strings.Repeat("x", maxDNS-9), false},
		"less than a head": {"\x10\x00", true},
	} {
		for _, chunk := range []int{1, 7, maxDNS} {
			client, server := net.Pipe()
			go func() {
				for sent := c.sent; sent != ""; {
					n := min(chunk, len(sent))
					if _, err := server.Write([]byte(sent[:n])); err != nil {
						break
					}
					sent = sent[n:]
				}
				_ = server.Close()
			}()
			read, err := io.ReadAll(&streamDNS{Conn: client})
			_ = client.Close()
			if (err == nil) != c.ok || c.ok && string(read) != c.sent {
				t.Errorf("%s in chunks of %d: %d bytes, %v", name, chunk, len(read), err)
			}
		}
	}
}
