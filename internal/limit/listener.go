package limit

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
)

// A Listener accepts so many connections at a time in all, and so many of each client.
// Those above it are closed at once, without a word: who connects learns it sooner than
// from a connection that nobody takes, and a balancer goes elsewhere.
type Listener struct {
	net.Listener
	bounds Bounds

	mu   sync.Mutex
	open int                // guarded by mu
	of   map[netip.Addr]int // guarded by mu; of each client, none of which has 0
}

// Bounds are what a Listener goes by.
type Bounds struct {
	All     int                 // how many connections there are at most
	Client  int                 // how many of them one client has
	Proxies Proxies             // who may have them all, because many clients come by them
	Refused func(ofClient bool) // is called for each that is closed; nil for nobody
}

// NewListener returns a Listener that accepts from inner.
func NewListener(inner net.Listener, b Bounds) *Listener {
	return &Listener{Listener: inner, bounds: b, of: map[netip.Addr]int{}}
}

// Accept returns the next connection that is within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := Address(c.RemoteAddr().String())
		client := Network(addr)
		if !addr.IsValid() || l.bounds.Proxies.Trust(addr) {
			client = netip.Addr{} // counts in all alone
		}
		ok, ofClient := l.enter(client)
		if ok {
			return &conn{Conn: c, leave: func() { l.leave(client) }}, nil
		}
		if l.bounds.Refused != nil {
			l.bounds.Refused(ofClient)
		}
		if tcp, is := c.(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // nothing of it stays with the system
		}
		_ = c.Close()
	}
}

// Open returns how many connections are open.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *Listener) enter(client netip.Addr) (ok, ofClient bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.bounds.All {
		return false, false
	}
	if client.IsValid() {
		if l.of[client] >= l.bounds.Client {
			return false, true
		}
		l.of[client]++
	}
	l.open++
	return true, false
}

func (l *Listener) leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !client.IsValid() {
		return
	}
	if l.of[client]--; l.of[client] == 0 {
		delete(l.of, client)
	}
}

// A conn is a connection that counts until it is closed.
type conn struct {
	net.Conn
	once  sync.Once
	leave func()

	// Owned by the goroutine that writes.
	corked bool          // hold the next write back
	held   *bytes.Buffer // from heldWrites; nil if no write is held back
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.leave)
	return err
}

// CloseWrite lets net/http end an answer to a request that it has not read, so that its
// client reads it before the connection is reset.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
