package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// ended checks that the server closes a connection well before the idle timeout.
func ended(t *testing.T, what string, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection is still open", what)
	}
}

// An HTTP/2 header block has the same timeout as the headers of HTTP/1.1.
func TestHTTP2HeaderBlockTimeout(t *testing.T) {
	s := start(t, "--read-header-timeout", "1s", "--idle-timeout", "10m", "--read-timeout", "10m")
	begin := func(r *raw, id uint32) error {
		return r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.headers(), EndStream: true})
	}
	for name, send := range map[string]func(r *raw) error{
		"then nothing": func(r *raw) error { return begin(r, 1) },
		"part of a frame": func(r *raw) error {
			_, err := r.conn.Write([]byte{0, 1, 0, byte(http2.FrameHeaders), byte(http2.FlagHeadersEndHeaders), 0, 0, 0, 1, 0x82})
			return err
		},
		"after a request": func(r *raw) error {
			err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.headers(), EndStream: true, EndHeaders: true})
			return errors.Join(err, begin(r, 3))
		},
		"while another request is in flight": func(r *raw) error {
			err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.headers(), EndHeaders: true})
			return errors.Join(err, begin(r, 3))
		},
		"with more parts of it now and then": func(r *raw) error {
			if err := begin(r, 1); err != nil {
				return err
			}
			go func() {
				for i := 0; r.WriteContinuation(1, false, []byte{0x10, 1, 'x', 1, byte('a' + i%26)}) == nil; i++ {
					time.Sleep(100 * time.Millisecond)
				}
			}()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := s.connect(t)
			if err := send(r); err != nil {
				t.Fatal(err)
			}
			ended(t, name, r.conn)
		})
	}
}

// The handshake before the first HTTP/2 request has the same timeout.
func TestHTTP2HandshakeTimeout(t *testing.T) {
	s := start(t, "--read-header-timeout", "1s", "--idle-timeout", "10m", "--read-timeout", "10m")
	plain := func(t *testing.T) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	secured := func(t *testing.T, sent string) net.Conn {
		t.Helper()
		c := tls.Client(plain(t), &tls.Config{RootCAs: s.trust, ServerName: "atrium.test", NextProtos: []string{"h2"}})
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, dial := range map[string]func(t *testing.T) net.Conn{
		"no handshake": plain,
		"part of a handshake": func(t *testing.T) net.Conn {
			t.Helper()
			c := plain(t)
			if _, err := c.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc}); err != nil {
				t.Fatal(err)
			}
			return c
		},
		"no preface":      func(t *testing.T) net.Conn { t.Helper(); return secured(t, "") },
		"half a preface":  func(t *testing.T) net.Conn { t.Helper(); return secured(t, http2.ClientPreface[:12]) },
		"no settings":     func(t *testing.T) net.Conn { t.Helper(); return secured(t, http2.ClientPreface) },
		"HTTP/1.1 for h2": func(t *testing.T) net.Conn { t.Helper(); return secured(t, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended(t, name, dial(t))
		})
	}
}

// A header block in many frames, and frames between requests, are accepted.
func TestHTTP2FragmentedHeaderBlocksAreAccepted(t *testing.T) {
	s := start(t, "--read-header-timeout", "1s")
	r := s.connect(t)
	const requests = 5
	for i := range uint32(requests) {
		id := 2*i + 1
		block := r.headers(fmt.Sprint("value", i))
		err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:2], EndStream: true, PadLength: uint8(i)})
		for j, b := range block[2:] {
			err = errors.Join(err, r.WriteContinuation(id, j == len(block)-3, []byte{b}))
		}
		if err := errors.Join(err, r.WritePing(false, [8]byte{byte(i)}), r.WriteWindowUpdate(0, 1)); err != nil {
			t.Fatal(err)
		}
	}
	answered, pings := 0, 0
	for answered < requests || pings < requests {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("after %d responses and %d pings: %v", answered, pings, err)
		}
		switch f := f.(type) {
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				answered++
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				answered++
			}
			if n := uint32(len(f.Data())); n > 0 {
				if err := errors.Join(r.WriteWindowUpdate(0, n), r.WriteWindowUpdate(f.StreamID, n)); err != nil && !bytes.Contains([]byte(err.Error()), []byte("closed")) {
					t.Fatal(err)
				}
			}
		case *http2.PingFrame:
			pings++
		case *http2.RSTStreamFrame:
			t.Fatalf("request %d was reset: %s", f.StreamID, f.ErrCode)
		}
	}
	if a := s.must(t, s.client(t, true), http.MethodGet, "/v0/pages", ""); a.status != http.StatusOK || a.proto != "HTTP/2.0" {
		t.Errorf("another connection: %d with %s", a.status, a.proto)
	}
}
