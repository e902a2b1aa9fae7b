package secure

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
)

// A proxy forwards connections to a server until it is closed.
type proxy struct {
	net.Listener
	to string
}

// newProxy starts a proxy to an address.
func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l, to}
	ctx, cut := context.WithCancel(t.Context())
	t.Cleanup(cut)
	go func() {
		defer cut()
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
			go func() { _, _ = io.Copy(in, out) }()
			go func() { _, _ = io.Copy(out, in) }()
		}
	}()
	return p
}

// withPassword returns the URL of a database with an unused password, through the address
// that by returns.
func withPassword(t *testing.T, database string, by func(addr string) string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Host = url.UserPassword(u.User.Username(), canaries["password"]), by(u.Host)
	return u.String()
}

// A collector is an OpenTelemetry collector that keeps everything it receives. It is safe for concurrent
// use.
type collector struct {
	mu  sync.Mutex
	raw bytes.Buffer // guarded by mu
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// newCollector receives the traces and metrics of the processes that the test starts.
func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, _ = c.raw.ReadFrom(r.Body) // protobuf does not encode texts
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	return c
}
