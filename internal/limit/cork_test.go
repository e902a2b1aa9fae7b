package limit_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"atrium/internal/limit"
)

// A wire is a connection that records writes.
type wire struct {
	net.Conn
	sent bytes.Buffer
	fail error
}

func (w *wire) Write(b []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	return w.sent.Write(b)
}

func (w *wire) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (w *wire) Close() error         { return nil }

// one is a listener that accepts one connection.
type one struct {
	net.Listener
	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }

type corker interface {
	net.Conn
	Cork()
	Uncork() error
}

func accepted(t *testing.T, w *wire) corker {
	t.Helper()
	c, err := limit.NewListener(one{conn: w}, limit.Bounds{All: 1, Client: 1}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(corker)
}

func TestCorkedWriteIsSentWithTheNextWriteOrByUncork(t *testing.T) {
	headers, body := bytes.Repeat([]byte("h"), 4096), bytes.Repeat([]byte("b"), 20_000)
	for name, c := range map[string]struct {
		writes [][]byte
		sent   int // bytes sent before Uncork
	}{
		"nothing":          {nil, 0},
		"headers":          {[][]byte{headers}, 0},
		"response":         {[][]byte{headers, body}, 24_096},
		"two responses":    {[][]byte{headers, body, headers, body}, 24_096 * 2},
		"body":             {[][]byte{body}, 20_000},
		"empty, then body": {[][]byte{{}, body}, 20_000},
	} {
		w := &wire{}
		conn := accepted(t, w)
		for range 2 {
			w.sent.Reset()
			conn.Cork()
			var want []byte
			for _, b := range c.writes {
				mine := bytes.Clone(b)
				if n, err := conn.Write(mine); n != len(b) || err != nil {
					t.Errorf("%s: wrote %d, %v", name, n, err)
				}
				clear(mine) // net/http reuses its buffer
				want = append(want, b...)
			}
			if n := w.sent.Len(); n != c.sent {
				t.Errorf("%s: %d bytes were sent before Uncork, want %d", name, n, c.sent)
			}
			if err := conn.Uncork(); err != nil || !bytes.Equal(w.sent.Bytes(), want) {
				t.Errorf("%s: %v, and %d bytes were sent, want %d", name, err, w.sent.Len(), len(want))
			}
			if _, err := conn.Write(headers); err != nil || w.sent.Len() != len(want)+len(headers) {
				t.Errorf("%s: a write after Uncork was held back", name)
			}
		}
	}
}

func TestFailedWriteFailsForTheCorkedWrite(t *testing.T) {
	w := &wire{fail: errors.New("gone")}
	conn := accepted(t, w)
	conn.Cork()
	if _, err := conn.Write([]byte("headers")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Write([]byte("body")); n != 0 || !errors.Is(err, w.fail) {
		t.Errorf("wrote %d, %v", n, err)
	}
	conn.Cork()
	_, _ = conn.Write([]byte("headers"))
	if err := conn.Uncork(); !errors.Is(err, w.fail) {
		t.Errorf("Uncork returned %v", err)
	}
}
