package telemetry

import (
	"io"
	"sync"
	"time"
)

// Bounds of the lines of requests that wait to be written together.
const (
	coalesceTime  = 100 * time.Millisecond // between two writes of them
	coalesceBytes = 32 << 10
)

// A LogWriter writes a log. It coalesces the lines of requests: after one write of them, the
// next follows coalesceTime later, or when coalesceBytes wait. It writes all other lines
// immediately, after those that wait. A LogWriter is safe for concurrent use.
type LogWriter struct {
	to io.Writer

	mu      sync.Mutex
	waiting []byte      // guarded by mu; lines of requests
	written time.Time   // guarded by mu; when lines of requests were last written
	flush   *time.Timer // guarded by mu; nil if nothing waits
	closed  bool        // guarded by mu; no line is waiting
}

// NewLogWriter returns a LogWriter that writes to w.
func NewLogWriter(w io.Writer) *LogWriter { return &LogWriter{to: w} }

// Write writes a line, and all that wait before it, immediately.
func (l *LogWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return l.to.Write(line)
	}
	l.waiting = append(l.waiting, line...)
	return len(line), l.write()
}

// Close writes the lines that wait. Lines of requests are written immediately from then on.
func (l *LogWriter) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.write()
}

// write writes the lines that wait. l.mu is held.
func (l *LogWriter) write() error {
	if l.flush != nil {
		l.flush.Stop()
		l.flush = nil
	}
	if len(l.waiting) == 0 {
		return nil
	}
	_, err := l.to.Write(l.waiting)
	l.waiting, l.written = l.waiting[:0], time.Now()
	return err
}

// A coalescer writes lines of requests.
type coalescer struct{ *LogWriter }

func (c coalescer) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, line...)
	wait := coalesceTime - time.Since(c.written)
	if wait <= 0 || c.closed || len(c.waiting) >= coalesceBytes {
		return len(line), c.write()
	}
	if c.flush == nil {
		c.flush = time.AfterFunc(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			_ = c.write() // an error of the log cannot be logged
		})
	}
	return len(line), nil
}
