package limit_test

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/limit"
)

// single is a listener of one connection.
type single struct {
	net.Listener
	conn net.Conn
}

func (s single) Accept() (net.Conn, error) { return s.conn, nil }

func TestManySmallTLSRecordsPause(t *testing.T) {
	const (
		update = "\x17\x03\x03\x00\x16" + "a KeyUpdate of 22 byte"
		pause  = 4 * time.Millisecond
	)
	large := "\x17\x03\x03\x04\x00" + strings.Repeat("x", 1024)
	for _, c := range []struct {
		name   string
		tls    bool
		sent   string
		pieces int // bytes of a write
		want   time.Duration
	}{
		{"those of a request", true, strings.Repeat(update, 16), 1000, 0},
		{"more", true, strings.Repeat(update, 16+10*16), 1000, 10 * pause},
		{"split anywhere", true, strings.Repeat(update, 16+10*16), 7, 10 * pause},
		{"between large ones", true, strings.Repeat(update+large, 16+10*16), 1000, 10 * pause},
		{"large ones", true, strings.Repeat(large, 1000), 1000, 0},
		{"without TLS", false, strings.Repeat(update, 1000), 1000, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			conn, err := limit.NewListener(single{conn: server}, limit.Bounds{All: 1, Client: 1, TLS: c.tls}).Accept()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for rest := c.sent; rest != ""; {
					n := min(c.pieces, len(rest))
					_, _ = io.WriteString(client, rest[:n])
					rest = rest[n:]
				}
				_ = client.Close()
			}()
			began := time.Now()
			if n, err := io.Copy(io.Discard, conn); err != nil || int(n) != len(c.sent) {
				t.Errorf("%s: read %d bytes: %v", c.name, n, err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: reading took %s, want %s", c.name, took, c.want)
			}
		})
	}
}

// An addressed is a connection from an address.
type addressed struct {
	net.Conn
	from string
}

func (a addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.from))
}

// smallest is a TLS record of the smallest size: one byte of data or of padding, its type and a tag.
const smallest = "\x17\x03\x03\x00\x12" + "a record of 18 by."

func TestTheConnectionsOfAClientShareThePaceOfSmallTLSRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections, records = 20, 16 + 100*16
		listener := &single{}
		limited := limit.NewListener(listener, limit.Bounds{All: connections + 2, Client: connections + 1, TLS: true})
		read := func(from string) time.Duration {
			client, server := net.Pipe()
			listener.conn = addressed{server, from}
			conn, err := limited.Accept()
			if err != nil {
				t.Error(err)
				return 0
			}
			go func() {
				_, _ = io.WriteString(client, strings.Repeat(smallest, records))
				_ = client.Close()
			}()
			began := time.Now()
			_, _ = io.Copy(io.Discard, conn)
			return time.Since(began)
		}
		if alone := read("192.0.2.1:1"); alone > 500*time.Millisecond {
			t.Errorf("one connection takes %s", alone)
		}
		var running sync.WaitGroup
		var slowest atomic.Int64
		began := time.Now()
		for range connections {
			client, server := net.Pipe()
			listener.conn = addressed{server, "192.0.2.1:1"}
			conn, err := limited.Accept()
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() {
				_, _ = io.WriteString(client, strings.Repeat(smallest, records))
				_ = client.Close()
			})
			running.Go(func() {
				_, _ = io.Copy(io.Discard, conn)
				slowest.Store(int64(time.Since(began)))
			})
		}
		if other := read("192.0.2.2:1"); other > 500*time.Millisecond {
			t.Errorf("a connection of another client takes %s", other)
		}
		running.Wait()
		if took := time.Duration(slowest.Load()); took < 1500*time.Millisecond || took > 2500*time.Millisecond {
			t.Errorf("%d connections take %s", connections, took)
		}
	})
}

func TestEachRequestMaySendSmallTLSRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		conn, err := limit.NewListener(single{conn: server}, limit.Bounds{All: 1, Client: 1, TLS: true}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		request := strings.Repeat("\x17\x03\x03\x00\x01.", 16)
		began := time.Now()
		for range 100 {
			conn.(interface{ AllowRecords() }).AllowRecords()
			go func() { _, _ = io.WriteString(client, request) }()
			if _, err := io.ReadFull(conn, make([]byte, len(request))); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}
