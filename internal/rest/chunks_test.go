package rest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/limit"
)

// single is a listener of one connection.
type single struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (s single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s single) Close() error   { close(s.closed); return nil }
func (s single) Addr() net.Addr { return &net.TCPAddr{} }

func TestBodiesInVerySmallChunksPause(t *testing.T) {
	reads := func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, err)
	}
	ignores := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ignored") }
	const content = 160 << 10
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		size    int           // of a chunk
		least   time.Duration // that it takes
		most    time.Duration
	}{
		{"chunks of a byte", reads, 1, 46 * time.Millisecond, 48 * time.Millisecond},
		{"chunks of a byte that nobody reads", ignores, 1, 46 * time.Millisecond, 48 * time.Millisecond},
		{"chunks of a kilobyte", reads, 1024, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, conn := net.Pipe()
				served := single{make(chan net.Conn, 1), make(chan struct{})}
				served.conn <- conn
				server := &http.Server{ConnContext: ConnContext, Handler: pauseBusy(c.handler)}
				go func() { _ = server.Serve(limit.NewListener(served, limit.Bounds{All: 1, Client: 1})) }()
				defer func() { _ = server.Close() }()
				began := time.Now()
				go func() {
					_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
					chunk := fmt.Sprintf("%x\r\n%s\r\n", c.size, strings.Repeat("x", c.size))
					_, _ = io.WriteString(client, strings.Repeat(chunk, content/c.size)+"0\r\n\r\n")
				}()
				response, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				if err != nil || string(body) != "ignored" && string(body) != fmt.Sprint(content, nil) {
					t.Errorf("%q, %v", body, err)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}
