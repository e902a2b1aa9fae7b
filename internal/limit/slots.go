package limit

import (
	"context"
	"fmt"
	"sync"

	"atrium"
)

// Slots let so many through at once, while others wait as long as their context lets them;
// nil Slots let everybody through. They bound the memory of work that needs much more of it
// than what it works on, such as reading a large body.
type Slots chan struct{}

// NewSlots returns Slots for n.
func NewSlots(n int) Slots { return make(Slots, n) }

// Do calls f when there is room and returns its error, or one of
// atrium.CodeUnavailable when ctx ends first.
func (s Slots) Do(ctx context.Context, f func() error) error {
	if s == nil {
		return f()
	}
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		return f()
	case <-ctx.Done():
		return atrium.Unavailable(context.Cause(ctx))
	}
}

// ErrNoSlot says that as many are under way as may be at once.
var ErrNoSlot = fmt.Errorf("imports and exports: %w", ErrBusy)

// SharedSlots let so many through at once, and only some of them for each who has them, so
// that none can keep the others out. They are safe for concurrent use.
type SharedSlots[K comparable] struct {
	all, each int
	mu        sync.Mutex
	sum       int       // guarded by mu
	inside    map[K]int // guarded by mu; nobody is there with 0
}

// NewSharedSlots returns SharedSlots that let so many through in all, and so many for each.
func NewSharedSlots[K comparable](all, each int) *SharedSlots[K] {
	return &SharedSlots[K]{all: all, each: each, inside: map[K]int{}}
}

// Try calls f if there is a slot for who now and returns its error, or else one of
// atrium.CodeUnavailable because of ErrNoSlot.
func (s *SharedSlots[K]) Try(who K, f func() error) error {
	if !s.enter(who) {
		return atrium.Unavailable(ErrNoSlot)
	}
	defer s.leave(who)
	return f()
}

func (s *SharedSlots[K]) enter(who K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum == s.all || s.inside[who] == s.each {
		return false
	}
	s.sum++
	s.inside[who]++
	return true
}

func (s *SharedSlots[K]) leave(who K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum--
	if s.inside[who]--; s.inside[who] == 0 {
		delete(s.inside, who)
	}
}
