package app

import (
	"errors"
	"net"
	"net/http"
	"sync"
)

// listeners is one listener for connections to several addresses, so that the limits of connections
// apply to all of them together.
type listeners struct {
	all      []net.Listener
	accepted chan accepted
	closed   chan struct{}
	once     sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// join returns a listener for the addresses of all listeners. Its address is that of the first one.
func join(all ...net.Listener) net.Listener {
	if len(all) == 1 {
		return all[0]
	}
	l := &listeners{all: all, accepted: make(chan accepted), closed: make(chan struct{})}
	for _, inner := range all {
		go l.accept(inner)
	}
	return l
}

// accept passes on the connections of a listener until it is closed.
func (l *listeners) accept(inner net.Listener) {
	for {
		c, err := inner.Accept()
		select {
		case l.accepted <- accepted{c, err}:
		case <-l.closed:
			if c != nil {
				_ = c.Close()
			}
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

func (l *listeners) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listeners) Close() error {
	l.once.Do(func() { close(l.closed) })
	var err error
	for _, inner := range l.all {
		err = errors.Join(err, inner.Close())
	}
	return err
}

func (l *listeners) Addr() net.Addr { return l.all[0].Addr() }

// byPort returns a handler that serves the connections to a port with one handler, and all others with another one.
func byPort(port int, there, elsewhere http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.Port == port {
			there.ServeHTTP(w, r)
			return
		}
		elsewhere.ServeHTTP(w, r)
	})
}
