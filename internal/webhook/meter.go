package webhook

import (
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
)

// Limits on the bytes read from a connection, TLS overhead included: an endpoint could otherwise send unlimited TLS messages such as
// KeyUpdate (RFC 8446 section 4.6.3), which cost more processor time than data.
const (
	// maxHandshake is for a TLS handshake. Certificates are parsed before they can be counted, and crypto/tls accepts 256 KiB of them, which
	// can occupy 13 MB. 3 to 6 KiB are usual.
	maxHandshake = 32 << 10

	// maxReceived is for a response: its headers and what is read of its body, with what TLS and chunks add.
	maxReceived = 128 << 10

	// maxIdle is for the time after a response, such as session tickets and the end of the connection.
	maxIdle = 4 << 10

	// maxKeyUpdates is how many key updates the endpoint may request in a handshake, and with each response. crypto/tls replies to
	// each immediately, with a record of keyUpdateBytes: a header, a message of 5 bytes, the content type and a tag. That takes about
	// 30 µs of a processor.
	maxKeyUpdates  = 8
	keyUpdateBytes = 5 + 5 + 1 + 16

	// minRead is the minimum that a read counts as: a system call takes as long for one byte.
	minRead = 64
)

// A meter is a connection that counts and limits what is read of it. One request uses it at a time.
type meter struct {
	net.Conn

	mu         sync.Mutex
	received   int64
	left       int64
	keyUpdates int // replies that are left
	uses       int // requests that have begun
}

// newMeter returns a meter of which n bytes can be read until begin is called.
func newMeter(conn net.Conn, n int64) *meter {
	return &meter{Conn: conn, left: n, keyUpdates: maxKeyUpdates}
}

// meterOf returns the meter of a connection that a transport uses.
func meterOf(conn net.Conn) *meter {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	m, _ := conn.(*meter)
	return m
}

func (m *meter) Read(to []byte) (int, error) {
	m.mu.Lock()
	left := m.left
	m.mu.Unlock()
	if left <= 0 {
		return 0, errReceived
	}
	n, err := m.Conn.Read(to[:min(int64(len(to)), left)])
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > 0 {
		counted := max(int64(n), minRead)
		m.received += counted
		m.left -= counted
	}
	return n, err
}

// Write closes the connection instead of replying to too many key update requests (RFC 8446 section 4.6.3). No part of a request
// has the size of a reply.
func (m *meter) Write(b []byte) (int, error) {
	if len(b) == keyUpdateBytes {
		m.mu.Lock()
		m.keyUpdates--
		tooMany := m.keyUpdates < 0
		m.mu.Unlock()
		if tooMany {
			_ = m.Close() // crypto/tls reports the error at the next write only
			return 0, errKeyUpdates
		}
	}
	return m.Conn.Write(b)
}

var errKeyUpdates = fmt.Errorf("the endpoint requests more than %d TLS key updates", maxKeyUpdates)

// errReceived is the error of a connection on which the endpoint has sent too much.
var errReceived = fmt.Errorf("the endpoint sends more than %d bytes in a TLS handshake, %d in a response, or %d after it", maxHandshake, maxReceived, maxIdle)

// A usage is what a request has received, on all connections on which it was tried.
type usage struct {
	mu       sync.Mutex
	current  *meter
	use      int // of the current meter
	before   int64
	received int64 // on earlier connections
}

// trace returns the hooks with which u follows a request.
func (u *usage) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.leave()
		if u.current = meterOf(info.Conn); u.current != nil {
			u.use, u.before = u.current.begin()
		}
	}}
}

// end returns how many bytes the request has received, with minRead at least for each read.
func (u *usage) end() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.leave()
	return u.received
}

// leave ends the use of the current connection.
func (u *usage) leave() {
	if u.current != nil {
		u.received += u.current.end(u.use) - u.before
		u.current = nil
	}
}

// begin allows a response to be read. It returns the number of the use, and how much was received before.
func (m *meter) begin() (use int, before int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses++
	m.left, m.keyUpdates = maxReceived, maxKeyUpdates
	return m.uses, m.received
}

// end returns how much was received. It lets maxIdle be read from now on, unless another request has begun: a transport
// reuses a connection before the caller knows that it has read the whole body.
func (m *meter) end(use int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uses == use {
		m.left = maxIdle
	}
	return m.received
}
