package rest_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/limit"
	"atrium/internal/rest"
)

// pipe is a listener for the connections that dial makes.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipe) Close() error   { close(p.closed); return nil }
func (p pipe) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipe) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func TestPipelinedRequestsPause(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	certificate.Close()
	const (
		requests = 20
		unpaused = 7 // of requests in a row, apart from the first
	)
	for _, c := range []struct {
		name    string
		tls     bool
		request string
		waits   bool          // the client reads each response before it sends the next request, at least 10 µs later
		want    time.Duration // for all requests
	}{
		{"a client that waits", false, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, requests * 10 * time.Microsecond},
		{"with bodies", false, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", true, requests * 10 * time.Microsecond},
		{"over TLS", true, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, requests * 10 * time.Microsecond},
		{"pipelined, larger than a buffer", false, "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n", false, (requests - 1 - unpaused) * time.Millisecond},
		{"pipelined over TLS, larger than a buffer", true, "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 5000) + "\r\n\r\n", false, (requests - 1 - unpaused) * time.Millisecond},
		{"pipelined", false, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, (requests - 1 - unpaused) * time.Millisecond},
		{"pipelined with bodies", false, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", false, (requests - 1 - unpaused) * time.Millisecond},
		{"pipelined over TLS", true, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, (requests - 1 - unpaused) * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				served := pipe{make(chan net.Conn), make(chan struct{})}
				server := &http.Server{
					ConnContext:  rest.ConnContext,
					Handler:      (&rest.API{Log: slog.New(slog.DiscardHandler)}).Handler(nil, nil),
					TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
				}
				listener := limit.NewListener(served, limit.Bounds{All: 1})
				if c.tls {
					server.TLSConfig = certificate.TLS
					go func() { _ = server.ServeTLS(listener, "", "") }()
				} else {
					go func() { _ = server.Serve(listener) }()
				}
				defer func() { _ = server.Close() }()

				conn := served.dial()
				defer func(wire net.Conn) { _ = wire.Close() }(conn) // before the server sends its last TLS record
				if c.tls {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
				}
				in := bufio.NewReader(conn)
				answered := func() {
					a, err := http.ReadResponse(in, nil)
					if err == nil {
						_, err = io.Copy(io.Discard, a.Body)
					}
					if err != nil || a.StatusCode != http.StatusNotFound {
						t.Fatalf("%v, %v", a, err)
					}
				}
				begin := time.Now()
				if c.waits {
					for range requests {
						time.Sleep(10 * time.Microsecond)
						_, _ = io.WriteString(conn, c.request)
						answered()
					}
				} else {
					time.Sleep(10 * time.Microsecond)
					begin = time.Now()
					go func() { _, _ = io.WriteString(conn, strings.Repeat(c.request, requests)) }()
					for range requests {
						answered()
					}
				}
				if took := time.Since(begin); took != c.want {
					t.Errorf("%d requests took %s of the test's clock, want %s", requests, took, c.want)
				}
			})
		})
	}
}
