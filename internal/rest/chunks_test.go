package rest

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
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

const content = 160 << 10 // bytes of a body

func TestBodiesInVerySmallChunksPause(t *testing.T) {
	reads := pauseBusy(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if n != content || err != nil {
			t.Errorf("read %d bytes: %v", n, err)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	ignores := (&API{Log: slog.New(slog.DiscardHandler)}).Handler(nil, nil)
	for _, c := range []struct {
		name    string
		handler http.Handler
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
				server := &http.Server{ConnContext: ConnContext, Handler: c.handler}
				ended := make(chan struct{})
				var once sync.Once
				server.ConnState = func(_ net.Conn, s http.ConnState) {
					if s == http.StateIdle || s == http.StateClosed {
						once.Do(func() { close(ended) })
					}
				}
				go func() { _ = server.Serve(limit.NewListener(served, limit.Bounds{All: 1, Client: 1})) }()
				defer func() { _ = server.Close() }()
				time.Sleep(10 * time.Microsecond)
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
				if response.StatusCode != http.StatusNotFound {
					t.Errorf("status %d", response.StatusCode)
				}
				go func() { _, _ = io.Copy(io.Discard, client) }()
				<-ended
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}
