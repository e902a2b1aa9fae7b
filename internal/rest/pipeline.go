package rest

import (
	"context"
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

// An arrivals is a connection that records when data arrives: that of a *limit.Listener.
type arrivals interface {
	// Arrived reports whether data has arrived since the last call.
	Arrived() bool
}

type arrivalsKey struct{}

// withArrivals makes the connection available to pausePipelined.
func withArrivals(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn
		c = over.NetConn()
	}
	if c, ok := c.(arrivals); ok {
		return context.WithValue(ctx, arrivalsKey{}, c)
	}
	return ctx
}

// pausePipelined delays each pipelined HTTP/1 request: one that was sent without waiting for the
// previous response (RFC 9112, section 9.3.2).
func pausePipelined(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(arrivalsKey{}).(arrivals); ok && r.ProtoMajor == 1 && !c.Arrived() {
			time.Sleep(pipelinePause)
		}
		next.ServeHTTP(w, r)
	})
}
