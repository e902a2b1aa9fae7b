package limit_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"atrium/internal/limit"
)

// A wire is a connection that keeps what is written to it.
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

type holder interface {
	net.Conn
	Hold()
	Release() error
}

func accepted(t *testing.T, w *wire) holder {
	t.Helper()
	c, err := limit.NewListener(one{conn: w}, limit.Bounds{All: 1, Client: 1}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(holder)
}

func TestWhatIsHeldIsSentWithTheNextWriteOrWhenItIsReleased(t *testing.T) {
	head, body := bytes.Repeat([]byte("h"), 4096), bytes.Repeat([]byte("b"), 20_000)
	for name, c := range map[string]struct {
		writes      [][]byte
		beforeSends int // bytes, before the release
	}{
		"nothing":          {nil, 0},
		"a head":           {[][]byte{head}, 0},
		"a head, a body":   {[][]byte{head, body}, 24_096},
		"and more":         {[][]byte{head, body, head, body}, 24_096 * 2},
		"a body":           {[][]byte{body}, 20_000},
		"nothing and much": {[][]byte{{}, body}, 20_000},
	} {
		w := &wire{}
		conn := accepted(t, w)
		for range 2 {
			w.sent.Reset()
			conn.Hold()
			var want []byte
			for _, b := range c.writes {
				mine := bytes.Clone(b)
				if n, err := conn.Write(mine); n != len(b) || err != nil {
					t.Errorf("%s: wrote %d, %v", name, n, err)
				}
				clear(mine) // net/http uses its buffer again
				want = append(want, b...)
			}
			if n := w.sent.Len(); n != c.beforeSends {
				t.Errorf("%s: %d bytes were sent before the release, want %d", name, n, c.beforeSends)
			}
			if err := conn.Release(); err != nil || !bytes.Equal(w.sent.Bytes(), want) {
				t.Errorf("%s: %v, and %d bytes were sent, want %d", name, err, w.sent.Len(), len(want))
			}
			if _, err := conn.Write(head); err != nil || w.sent.Len() != len(want)+len(head) {
				t.Errorf("%s: a write behind the release was held", name)
			}
		}
	}
}

func TestAWriteThatFailsFailsForWhatWasHeld(t *testing.T) {
	w := &wire{fail: errors.New("gone")}
	conn := accepted(t, w)
	conn.Hold()
	if _, err := conn.Write([]byte("head")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Write([]byte("body")); n != 0 || !errors.Is(err, w.fail) {
		t.Errorf("wrote %d, %v", n, err)
	}
	conn.Hold()
	_, _ = conn.Write([]byte("head"))
	if err := conn.Release(); !errors.Is(err, w.fail) {
		t.Errorf("released: %v", err)
	}
}
