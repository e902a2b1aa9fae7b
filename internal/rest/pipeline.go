package rest

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// pipelinePause is the time between two requests of a client that does not wait for responses.
//
// Such a client always has a request ready, so its goroutine never waits for the network. As
// long as there are goroutines that can run, the Go scheduler looks for new data on other
// connections only every 10 ms. The pause is long enough for 16 such connections to leave most of
// the processor to others.
const pipelinePause = time.Millisecond

// An arrivals is a connection that records what arrives: that of a *limit.Listener.
type arrivals interface {
	// Pipelines reports whether the client has sent several requests in a row without waiting for the responses. It is
	// called once for each request.
	Pipelines() bool

	// Received returns how many bytes have been read.
	Received() int64

	// AllowRecords allows the small TLS records of another request.
	AllowRecords()
}

type arrivalsKey struct{}

// withArrivals makes the connection available to pauseBusy.
func withArrivals(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn
		c = over.NetConn()
	}
	if c, ok := c.(arrivals); ok {
		return context.WithValue(ctx, arrivalsKey{}, c)
	}
	return ctx
}

// pauseBusy delays clients that keep a goroutine busy by other means than many requests: each pipelined
// HTTP/1 request, which is one that was sent without waiting for the previous response (RFC 9112, section
// 9.3.2), and bodies in very small chunks.
func pauseBusy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(arrivalsKey{}).(arrivals); ok && r.ProtoMajor == 1 {
			c.AllowRecords()
			if c.Pipelines() {
				time.Sleep(pipelinePause)
			}
			if r.ContentLength < 0 {
				body := &chunkedBody{ReadCloser: r.Body, conn: c, before: c.Received()}
				r.Body = body
				next.ServeHTTP(w, r)
				body.readRest(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// A chunk adds at least five bytes to its content (RFC 9112, section 7.1), and one with a byte takes as long as
// one with several hundred. Of these bytes, a quarter of the content is free; there is one framingPause for each
// pausedFraming of the rest.
const (
	pausedFraming = 16 << 10
	framingPause  = time.Millisecond
)

// A chunkedBody is a body in chunks. It pauses if most of what arrives is not content.
type chunkedBody struct {
	io.ReadCloser
	conn    arrivals
	before  int64 // bytes that the connection had received
	content int64
	paused  int64 // number of pauses
}

// maxUnread is how much of a body is read after a handler that has not. net/http reads some of it without pauses, so
// that the client gets the response before the connection is closed.
const maxUnread = 1 << 20

// readRest sends the response, and then reads the rest of the body with pauses.
func (b *chunkedBody) readRest(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") == "" {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.CopyN(io.Discard, b, maxUnread)
	}
}

func (b *chunkedBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.content += int64(n)
	framing := b.conn.Received() - b.before - b.content - b.content/4
	if pauses := framing/pausedFraming - b.paused; pauses > 0 {
		b.paused += pauses
		time.Sleep(time.Duration(pauses) * framingPause)
	}
	return n, err
}
