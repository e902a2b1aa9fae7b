package limit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"atrium/internal/limit"
	"atrium/internal/tlstest"
)

// A front is a Listener whose connections stay open until the test closes them.
type front struct {
	*limit.Listener
	all, ofClient atomic.Int64 // refused
	accepted      chan net.Conn
}

func listen(t *testing.T, b limit.Bounds) *front {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{accepted: make(chan net.Conn, 1000)}
	b.Refused = func(ofClient bool) {
		if ofClient {
			f.ofClient.Add(1)
		} else {
			f.all.Add(1)
		}
	}
	f.Listener = limit.NewListener(inner, b)
	t.Cleanup(func() { _ = f.Close() })
	go func() {
		for {
			c, err := f.Accept()
			if err != nil {
				return
			}
			f.accepted <- c
			_, _ = c.Write([]byte("."))
		}
	}()
	return f
}

// dial reports whether a connection from an address is accepted.
func (f *front) dial(t *testing.T, from string) (client net.Conn, accepted bool) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := d.Dial("tcp", f.Addr().String())
	if errors.Is(err, syscall.ECONNRESET) { // closed before Dial returned
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err = c.Read(make([]byte, 1))
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("a connection was neither accepted nor closed")
	}
	return c, err == nil
}

func (f *front) want(t *testing.T, from string, accepted bool) {
	t.Helper()
	if _, ok := f.dial(t, from); ok != accepted {
		t.Errorf("connection from %s: accepted %v, want %v", from, ok, accepted)
	}
}

func TestConnectionsAboveALimitAreClosedAndOthersStay(t *testing.T) {
	f := listen(t, limit.Bounds{All: 5, Client: 2})
	f.want(t, "127.0.0.1", true)
	f.want(t, "127.0.0.1", true)
	f.want(t, "127.0.0.1", false)
	f.want(t, "127.0.0.2", true)
	f.want(t, "127.0.0.3", true)
	f.want(t, "127.0.0.4", true)
	f.want(t, "127.0.0.5", false)
	if f.all.Load() != 1 || f.ofClient.Load() != 1 || f.Open() != 5 {
		t.Errorf("%d connections are open; the limits of all and of a client refused %d and %d", f.Open(), f.all.Load(), f.ofClient.Load())
	}
	first := <-f.accepted
	for range 3 { // counts once
		_ = first.Close()
	}
	f.want(t, "127.0.0.5", true)
	f.want(t, "127.0.0.6", false)
	if f.Open() != 5 {
		t.Errorf("%d connections are open", f.Open())
	}
}

func TestClosedConnectionsDoNotCount(t *testing.T) {
	f := listen(t, limit.Bounds{All: 10, Client: 1})
	for range 200 {
		c, accepted := f.dial(t, "127.0.0.1")
		if !accepted {
			t.Fatal("a connection was refused after the last one had closed")
		}
		_ = c.Close()
		served := <-f.accepted
		_, _ = io.Copy(io.Discard, served)
		_ = served.Close()
	}
	if f.Open() != 0 {
		t.Errorf("%d connections are open", f.Open())
	}
}

func TestTrustedProxyMayHaveAllConnections(t *testing.T) {
	f := listen(t, limit.Bounds{All: 4, Client: 1, Proxies: limit.Proxies{netip.MustParsePrefix("127.0.0.2/32")}})
	f.want(t, "127.0.0.1", true)
	f.want(t, "127.0.0.1", false)
	for range 3 {
		f.want(t, "127.0.0.2", true)
	}
	f.want(t, "127.0.0.2", false)
}

// Loopback has a single IPv6 address, so this test uses connections with made-up addresses.
func TestIPv6NetworkCountsAsOneClient(t *testing.T) {
	var refused int
	l := limit.NewListener(&given{addrs: []string{
		"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::ffff:0:0:1]:1", "[2001:db8:0:1::1]:1",
	}}, limit.Bounds{All: 100, Client: 2, Refused: func(bool) { refused++ }})
	for {
		if _, err := l.Accept(); err != nil {
			break
		}
	}
	if l.Open() != 3 || refused != 1 {
		t.Errorf("%d connections are open and %d refused, want 3 and 1", l.Open(), refused)
	}
}

// A given listener accepts one connection from each address, then none.
type given struct {
	net.Listener
	addrs []string
}

type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }
func (from) Close() error           { return nil }

func (g *given) Accept() (net.Conn, error) {
	if len(g.addrs) == 0 {
		return nil, net.ErrClosed
	}
	addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(g.addrs[0]))
	g.addrs = g.addrs[1:]
	return from{addr: addr}, nil
}

func TestResponseToAnUnreadRequestArrives(t *testing.T) {
	f := listen(t, limit.Bounds{All: 1, Client: 1})
	c, _ := f.dial(t, "127.0.0.1")
	served := <-f.accepted
	half, ok := served.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("net/http cannot close one half of the connection")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client reads %v, want EOF", err)
	}
	if _, err := c.Write([]byte("more")); err != nil {
		t.Error(err)
	}
	if n, err := served.Read(make([]byte, 10)); n != 4 || err != nil {
		t.Errorf("the server reads %d, %v", n, err)
	}
}

func BenchmarkClientAddress(b *testing.B) {
	for name, c := range map[string]struct {
		proxies   limit.Proxies
		forwarded []string
	}{
		"peer":        {nil, nil},
		"proxy":       {proxies, []string{"198.51.100.7"}},
		"two proxies": {proxies, []string{"203.0.113.9, 198.51.100.7, 10.2.2.2"}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				limit.Network(c.proxies.Client("10.0.0.1:4711", c.forwarded))
			}
		})
	}
}

func TestTheConnectionsOfAClientShareAPace(t *testing.T) {
	f := listen(t, limit.Bounds{All: 10, Client: 5, Proxies: limit.Proxies{netip.MustParsePrefix("127.0.0.9/32")}, Pace: limit.NewPace(1, 10), Spent: 60})
	type spender interface {
		OfProxy() bool
		Spend(n int) time.Duration
	}
	conns := map[string][]spender{}
	for _, from := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.9"} {
		f.want(t, from, true)
		conns[from] = append(conns[from], (<-f.accepted).(spender))
	}
	first, second, other, proxy := conns["127.0.0.1"][0], conns["127.0.0.1"][1], conns["127.0.0.2"][0], conns["127.0.0.9"][0]
	if !proxy.OfProxy() || first.OfProxy() {
		t.Error("which connections are of a proxy is wrong")
	}
	for i, wait := range []time.Duration{first.Spend(6), second.Spend(4), other.Spend(10), proxy.Spend(1000)} {
		if wait > 0 {
			t.Errorf("spending within the burst (%d) waits %s", i, wait)
		}
	}
	if first.Spend(60) < 30*time.Second || second.Spend(1) < 30*time.Second {
		t.Error("connections of a client do not share a pace")
	}
	for range 100 { // as connections do that close while they wait
		if wait := first.Spend(60); wait > 2*time.Minute {
			t.Fatalf("two connections wait %s", wait)
		}
	}
	if wait := other.Spend(0); wait > 0 {
		t.Errorf("another client waits %s", wait)
	}
}

// A client may request a key update now and then, not all the time: each reply takes longer than the request.
func TestTooManyKeyUpdateRequestsCloseTheConnection(t *testing.T) {
	f := listen(t, limit.Bounds{All: 10, Client: 5, TLS: true})
	for name, c := range map[string]struct {
		updates, requests int
		open              bool
	}{
		"few":                  {16, 0, true},
		"one for each request": {60, 50, true},
		"many":                 {200, 0, false},
		"many in few requests": {200, 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := f.dial(t, "127.0.0.1")
			accepted := <-f.accepted
			defer func() { _ = accepted.Close() }()
			for range c.requests {
				accepted.(interface{ AllowRecords() }).AllowRecords()
			}
			requested := make(chan error, 1)
			go func() { requested <- requestKeyUpdates(client, c.updates) }()
			server := tls.Server(accepted, &tls.Config{Certificates: []tls.Certificate{certificate(t)}, SessionTicketsDisabled: true})
			read, err := io.ReadAll(server)
			if open := err == nil && len(read) == c.updates; open != c.open {
				t.Errorf("after %d key update requests in %d requests: %d bytes, %v", c.updates, c.requests, len(read), err)
			}
			if err := <-requested; err != nil && c.open {
				t.Error(err)
			}
		})
	}
}

// requestKeyUpdates sends key update requests, with a byte of data before each, as crypto/tls allows any number of them.
func requestKeyUpdates(conn net.Conn, updates int) error {
	keys := &tlstest.KeyLog{}
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: keys}) //nolint:gosec // a test
	if err := client.Handshake(); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	records, err := keys.Records(tlstest.ClientSecret, 0, client.ConnectionState())
	for i := 0; err == nil && i < updates; i++ {
		var update []byte
		data := records.Data([]byte("a"))
		if update, err = records.KeyUpdate(); err == nil {
			_, err = conn.Write(append(data, update...))
		}
	}
	if err != nil {
		return err
	}
	return conn.(*net.TCPConn).CloseWrite()
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a.example"}}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}
}
