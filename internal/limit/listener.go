package limit

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A Listener limits the connections that are open at once, in all and per client. It closes
// those above a limit immediately: clients learn it sooner than from a full backlog, and a
// load balancer tries another node.
type Listener struct {
	net.Listener
	bounds Bounds

	mu      sync.Mutex
	open    int                    // guarded by mu
	clients map[netip.Addr]*client // guarded by mu; those with open connections
}

// A client is what the connections of a client share. The mutex of the Listener guards it.
type client struct {
	open    int
	pace    Pace
	records Pace // of small TLS records that their requests do not need
}

// The small TLS records of the connections of a client that their requests do not need. Each takes about 5 µs of a processor.
const (
	recordsRate  = 16_000 // a second
	recordsBurst = 4_000

	// smallRead is the maximum of bytes in one read from a client that sends them: at most smallReadRecords.
	smallRead        = 2 << 10
	smallReadRecords = 96
)

// A client may request a key update of the server with a KeyUpdate (RFC 8446 section 4.6.3). crypto/tls replies to each
// immediately, which takes about 30 µs of a processor. Honest clients request one after many gigabytes or hours.
const (
	// keyUpdateBytes is the size of a reply: a header, a message of 5 bytes, the content type and a tag.
	keyUpdateBytes = recordHeaderBytes + 5 + 1 + 16

	// maxKeyUpdates is how many writes of this size a connection may cause, and one more for each second and each request: the
	// final chunk of a response (RFC 9112 section 7.1) has this size, too.
	maxKeyUpdates = 16
)

var errKeyUpdates = errors.New("the client requests too many TLS key updates")

// Bounds configure a Listener.
type Bounds struct {
	All     int                 // maximum number of open connections
	Client  int                 // maximum number of them per client
	Proxies Proxies             // only All applies to these, as they have many clients
	TLS     bool                // clients speak TLS; those that send many small records are delayed
	Pace    Pace                // limits what the connections of a client spend together; see conn.Spend
	Spent   int                 // the most that one connection spends before it waits
	Refused func(ofClient bool) // called for each refused connection, true if Client was the limit; nil for none
}

// NewListener returns a Listener that accepts from inner.
func NewListener(inner net.Listener, b Bounds) *Listener {
	return &Listener{Listener: inner, bounds: b, clients: map[netip.Addr]*client{}}
}

// Accept returns the next connection within the bounds.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := Address(c.RemoteAddr().String())
		network := Network(addr)
		if !addr.IsValid() || l.bounds.Proxies.Trust(addr) {
			network = netip.Addr{} // counts only for All
		}
		ok, ofClient := l.enter(network)
		if ok {
			return &conn{Conn: c, listener: l, client: network, tls: l.bounds.TLS, accepted: time.Now()}, nil
		}
		if l.bounds.Refused != nil {
			l.bounds.Refused(ofClient)
		}
		if tcp, is := c.(*net.TCPConn); is {
			_ = tcp.SetLinger(0) // keep no state in the kernel
		}
		_ = c.Close()
	}
}

// Open returns the number of open connections.
func (l *Listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *Listener) enter(network netip.Addr) (ok, ofClient bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.bounds.All {
		return false, false
	}
	if network.IsValid() {
		c := l.clients[network]
		if c == nil {
			c = &client{pace: l.bounds.Pace, records: NewPace(recordsRate, recordsBurst)}
		}
		if c.open >= l.bounds.Client {
			return false, true
		}
		c.open++
		l.clients[network] = c
	}
	l.open++
	return true, false
}

func (l *Listener) leave(network netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !network.IsValid() {
		return
	}
	c := l.clients[network]
	if c.open--; c.open == 0 {
		delete(l.clients, network)
	}
}

// A conn is a connection that counts as open until it is closed.
type conn struct {
	net.Conn
	once     sync.Once
	listener *Listener
	client   netip.Addr // the zero Addr for a trusted proxy

	arrived  atomic.Bool  // data, since the last call of Pipelines
	waited   atomic.Bool  // a read, since then
	inRow    int          // requests that have not waited; owned by the goroutine of the requests
	received atomic.Int64 // bytes
	allowed  atomic.Int64 // requests since the last read

	tls        bool
	accepted   time.Time // when the connection was
	requests   atomic.Int64
	keyUpdates atomic.Int64 // writes of keyUpdateBytes

	// Owned by the goroutine that reads.
	records      recordScanner
	parts        Parts
	smallRecords int

	// Owned by the goroutine that writes.
	corked bool          // buffer the next write
	held   *bytes.Buffer // from heldWrites; nil if no write is buffered
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.listener.leave(c.client) })
	return err
}

// CloseWrite lets net/http finish the response to a request whose body it has not read, so
// that the client can read the response before the connection is reset.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// pipelined is the number of requests in a row without waiting from which a client counts as pipelining.
const pipelined = 8

// minWait is the minimum duration of a read that has waited for the client. One that finds data takes 1 to 2 µs.
const minWait = 10 * time.Microsecond

// Read records for Pipelines whether it has waited for the client, and whether data has arrived. net/http also reads in the
// background during each request, to detect that the client has closed the connection: so a client that waits for its
// response is noticed even if its next request comes immediately.
//
// If the client has sent many small TLS records, it pauses before the next read: only then are the requests in them counted.
func (c *conn) Read(b []byte) (int, error) {
	if c.tls {
		c.parts.Allow(int(c.allowed.Swap(0)))
		if n := c.parts.Pause(); n > 0 {
			time.Sleep(c.spend(n, smallReadRecords, func(of *client) *Pace { return &of.records }))
			b = b[:min(len(b), smallRead)]
		}
	}
	began := time.Now()
	n, err := c.Conn.Read(b)
	if time.Since(began) >= minWait {
		c.waited.Store(true)
	}
	if n > 0 {
		c.arrived.Store(true)
	}
	c.received.Add(int64(n))
	if c.tls {
		small := c.records.small(b[:n])
		c.smallRecords += small
		c.parts.Add(small)
	}
	return n, err
}

// AllowRecords allows the small TLS records of another request.
func (c *conn) AllowRecords() {
	c.allowed.Add(1)
	c.requests.Add(1)
}

// exceedsKeyUpdates counts a write of n bytes, and reports whether the client has requested too many key updates.
func (c *conn) exceedsKeyUpdates(n int) bool {
	return c.tls && n == keyUpdateBytes && c.keyUpdates.Add(1) > maxKeyUpdates+c.requests.Load()+int64(time.Since(c.accepted).Seconds())
}

// SmallRecords returns how many small TLS records have arrived. Only the goroutine that reads may call it.
func (c *conn) SmallRecords() int { return c.smallRecords }

// OfProxy reports whether a trusted proxy, which has many clients, has made the connection.
func (c *conn) OfProxy() bool { return !c.client.IsValid() }

// Spend spends n of the Pace that the connections of its client share, and returns how long the caller must wait: 0 for a
// trusted proxy. The connection must be open.
func (c *conn) Spend(n int) time.Duration {
	return c.spend(n, c.listener.bounds.Spent, func(of *client) *Pace { return &of.pace })
}

// spend is Spend for any pace, of which one connection spends at most maxSpend before it waits.
func (c *conn) spend(n, maxSpend int, of func(*client) *Pace) time.Duration {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	shared := c.listener.clients[c.client]
	if shared == nil {
		return 0
	}
	pace := of(shared)
	wait := pace.Spend(n)
	// The open connections must not wait for what closed ones have spent.
	most := pace.duration(shared.open * maxSpend)
	pace.Forget(most)
	return min(wait, most)
}

// Received returns how many bytes have been read.
func (c *conn) Received() int64 { return c.received.Load() }

// Pipelines reports whether the client has sent several requests in a row without waiting for the responses. It is called once
// for each request. A request was not waited for if no data has arrived since the call before, or no read has waited for it.
// One such request proves nothing, because its data can arrive just before a read begins.
func (c *conn) Pipelines() bool {
	arrived, waited := c.arrived.Swap(false), c.waited.Swap(false)
	if c.inRow++; arrived && waited {
		c.inRow = 0
	}
	return c.inRow >= pipelined
}
