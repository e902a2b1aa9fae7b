package limit

import (
	"net"
	"sync"
)

// heldBytes is how much of a write waits at most for the one behind it: net/http writes to
// connections through 4 KiB.
const heldBytes = 4 << 10

var heldBuffers = sync.Pool{New: func() any { return new([heldBytes]byte) }}

// Hold has the next write wait for the one behind it, or for Release, and go out with that.
// Who calls it is who writes, and calls Release as soon as it has written all.
func (c *conn) Hold() { c.holding = true }

// Release writes what waits.
func (c *conn) Release() error {
	c.holding = false
	if c.held == nil {
		return nil
	}
	_, err := c.Write(nil)
	return err
}

// Write writes, unless the bytes have to wait.
func (c *conn) Write(b []byte) (int, error) {
	if c.holding && c.held == nil && len(b) <= heldBytes {
		c.buffer = heldBuffers.Get().(*[heldBytes]byte)
		c.held = c.buffer[:copy(c.buffer[:], b)]
		return len(b), nil
	}
	if c.held == nil {
		return c.Conn.Write(b)
	}
	before := len(c.held)
	both := net.Buffers{c.held, b}
	n, err := both.WriteTo(c.Conn)
	heldBuffers.Put(c.buffer)
	c.held, c.buffer = nil, nil
	return max(int(n)-before, 0), err
}
