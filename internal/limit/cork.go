package limit

import (
	"bytes"
	"net"
	"sync"
)

// maxHeld is the size of the largest write that Cork buffers, in bytes: net/http buffers 4 KiB.
const maxHeld = 4 << 10

var heldWrites = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Cork buffers the next write, unless it is larger than maxHeld. The write after it, or Uncork,
// sends both with one system call. Cork, Uncork and Write must be called by the same goroutine.
func (c *conn) Cork() { c.corked = true }

// Uncork sends the buffered write, if any.
func (c *conn) Uncork() error {
	c.corked = false
	if c.held == nil {
		return nil
	}
	_, err := c.Write(nil)
	return err
}

func (c *conn) Write(b []byte) (int, error) {
	if c.exceedsKeyUpdates(len(b)) {
		_ = c.Close() // crypto/tls reports the error at the next write only
		return 0, errKeyUpdates
	}
	hold := c.corked && len(b) <= maxHeld
	c.corked = false
	if hold {
		c.held = heldWrites.Get().(*bytes.Buffer)
		return c.held.Write(b)
	}
	if c.held == nil {
		return c.Conn.Write(b)
	}
	held := c.held
	c.held = nil
	before := held.Len()
	both := net.Buffers{held.Bytes(), b}
	n, err := both.WriteTo(c.Conn)
	held.Reset()
	heldWrites.Put(held)
	return max(int(n)-before, 0), err
}
