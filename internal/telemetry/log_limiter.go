package telemetry

import (
	"sync"
	"time"
)

// A logLimiter limits the rate of a log message. The first event is logged immediately. Later
// ones are counted, and logged together with the first event after an interval. A logLimiter
// is safe for concurrent use.
type logLimiter struct {
	mu    sync.Mutex
	next  time.Time // guarded by mu; when the next event is logged
	count int       // guarded by mu; events since the last one that was logged
}

// event counts an event. If ok, log it now, with the number of events since the last one that
// was logged.
func (l *logLimiter) event(interval time.Duration) (count int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	now := time.Now()
	if now.Before(l.next) {
		return l.count, false
	}
	count, l.count, l.next = l.count, 0, now.Add(interval)
	return count, true
}

// perSecond counts events in each second. It is safe for concurrent use.
type perSecond struct {
	mu     sync.Mutex
	second int64 // guarded by mu
	count  int   // guarded by mu
}

// next counts an event and returns its number in the current second, starting from 1.
func (p *perSecond) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now().Unix(); now != p.second {
		p.second, p.count = now, 0
	}
	p.count++
	return p.count
}
