package telemetry

import (
	"io"
	"sync"
	"time"
)

// gatherTime is how long the line of a request waits at most for others to be written with
// it, and gatherBytes how many bytes wait.
const (
	gatherTime  = 100 * time.Millisecond
	gatherBytes = 32 << 10
)

// Lines write a log. What is written is on its way when Write returns, and all that came
// before. The lines of requests may wait: if any were written within gatherTime, until that
// has passed, or there are gatherBytes of them. They are safe for concurrent use.
type Lines struct {
	to io.Writer

	mu      sync.Mutex
	waiting []byte      // guarded by mu
	written time.Time   // guarded by mu; when lines of requests last were
	flush   *time.Timer // guarded by mu; nil if nothing waits
	closed  bool        // guarded by mu
}

// NewLines returns Lines that go to w.
func NewLines(w io.Writer) *Lines { return &Lines{to: w} }

// Write writes at once.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return l.to.Write(line)
	}
	l.waiting = append(l.waiting, line...)
	return len(line), l.write()
}

// Close writes what waits. Nothing waits from then on.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.write()
}

// write writes what waits. l.mu is held.
func (l *Lines) write() error {
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

// A gatherer writes lines of requests.
type gatherer struct{ *Lines }

func (g gatherer) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, line...)
	wait := gatherTime - time.Since(g.written)
	if wait <= 0 || g.closed || len(g.waiting) >= gatherBytes {
		return len(line), g.write()
	}
	if g.flush == nil {
		g.flush = time.AfterFunc(wait, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			_ = g.write() // there is nobody to tell
		})
	}
	return len(line), nil
}
