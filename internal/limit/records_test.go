package limit_test

import (
	"io"
	"net"
	"strings"
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
