package telemetry

import (
	"sync"
	"time"
)

// A seldom has something told at once, and what comes after it together, once in a pause.
// It is safe for concurrent use.
type seldom struct {
	mu    sync.Mutex
	next  time.Time // guarded by mu; when it may be told again
	count int       // guarded by mu; how often it has happened since it was told
}

// tell notes that it has happened, and returns how often since it was told the last time, and
// whether to tell it now: if that was a pause ago.
func (s *seldom) tell(pause time.Duration) (count int, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	at := time.Now()
	if at.Before(s.next) {
		return s.count, false
	}
	count, s.count, s.next = s.count, 0, at.Add(pause)
	return count, true
}
