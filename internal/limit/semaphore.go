package limit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy is the cause of an error for work that a limit has refused. It is not a fault of
// the server.
var ErrBusy = errors.New("too much is in flight")

// A Semaphore admits a bounded number of holders at once and shares its slots fairly
// among keys, such as tenants. A key may hold one more slot only while it holds fewer
// than are free: alone it gets half of them, rounded up, and a key that holds none gets
// one whenever any is free. So no key can take all slots, however much it asks for.
// (Quota has the same rule, but does not wait.)
//
// Each key has a queue of waiters. Free slots are granted to the keys round-robin, not to
// the longest waiter: the long queue of one key delays no other key.
//
// Keys of a group count toward the same limit of slots, but wait in separate queues.
//
// A nil Semaphore has no limit. A Semaphore is safe for concurrent use.
type Semaphore[K comparable] struct {
	bounds SemaphoreBounds
	group  func(K) K

	mu      sync.Mutex
	free    int                   // guarded by mu
	held    map[K]int             // by group; guarded by mu; no zeros
	waiting map[K][]chan struct{} // guarded by mu; closed when it has a slot; none are empty
	turns   []K                   // guarded by mu; the keys of waiting, the next to be served first
}

// SemaphoreBounds configure a Semaphore.
type SemaphoreBounds struct {
	Slots   int           // maximum number of holders
	Each    int           // maximum number of holders per group; 0 for no such limit
	Waiting int           // maximum number of waiters per key; 0 refuses immediately
	Timeout time.Duration // maximum wait; 0 waits until the context ends
}

// NewSemaphore returns a Semaphore in which each key is its own group, or nil if b.Slots is 0.
func NewSemaphore[K comparable](b SemaphoreBounds) *Semaphore[K] {
	return NewGroupedSemaphore(b, func(key K) K { return key })
}

// NewGroupedSemaphore returns a Semaphore in which group returns the group of a key, or nil if b.Slots
// is 0.
func NewGroupedSemaphore[K comparable](b SemaphoreBounds, group func(K) K) *Semaphore[K] {
	if b.Slots == 0 {
		return nil
	}
	return &Semaphore[K]{bounds: b, group: group, free: b.Slots, held: map[K]int{}, waiting: map[K][]chan struct{}{}}
}

// Acquire waits for a slot. It returns ErrBusy if the queue of the key is full or the
// timeout has passed, and the cause if ctx has ended.
func (s *Semaphore[K]) Acquire(ctx context.Context, key K) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	if len(s.waiting[key]) == 0 && s.admits(key) {
		s.admit(key)
		s.mu.Unlock()
		return nil
	}
	if len(s.waiting[key]) >= s.bounds.Waiting {
		s.mu.Unlock()
		return ErrBusy
	}
	granted := make(chan struct{})
	if len(s.waiting[key]) == 0 {
		s.turns = append(s.turns, key)
	}
	s.waiting[key] = append(s.waiting[key], granted)
	s.mu.Unlock()

	var timeout <-chan time.Time
	if s.bounds.Timeout > 0 {
		timer := time.NewTimer(s.bounds.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	var err error
	select {
	case <-granted:
		return nil
	case <-timeout:
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting[key], granted)
	if i < 0 {
		return nil // it was granted in the meantime
	}
	s.setWaiting(key, slices.Delete(s.waiting[key], i, i+1))
	return err
}

// Release returns a slot that Acquire has granted.
func (s *Semaphore[K]) Release(key K) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	group := s.group(key)
	if s.held[group]--; s.held[group] == 0 {
		delete(s.held, group)
	}
	for s.grant() {
	}
}

// Do calls f with a slot and returns its error, or that of Acquire.
func (s *Semaphore[K]) Do(ctx context.Context, key K, f func() error) error {
	if err := s.Acquire(ctx, key); err != nil {
		return err
	}
	defer s.Release(key)
	return f()
}

// Held returns the number of holders.
func (s *Semaphore[K]) Held() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bounds.Slots - s.free
}

// admits reports whether the key may hold one more slot. s.mu is held.
func (s *Semaphore[K]) admits(key K) bool {
	held := s.held[s.group(key)]
	return held < s.free && (s.bounds.Each == 0 || held < s.bounds.Each)
}

// admit grants a slot to the key. s.mu is held.
func (s *Semaphore[K]) admit(key K) {
	s.free--
	s.held[s.group(key)]++
}

// grant grants a slot to the first waiter of the next key that may have one, and reports
// whether there was one. s.mu is held.
func (s *Semaphore[K]) grant() bool {
	i := slices.IndexFunc(s.turns, s.admits)
	if i < 0 {
		return false
	}
	key := s.turns[i]
	s.admit(key)
	queue := s.waiting[key]
	close(queue[0])
	s.turns = append(slices.Delete(s.turns, i, i+1), key)
	s.setWaiting(key, queue[1:])
	return true
}

// setWaiting replaces the queue of a key. s.mu is held.
func (s *Semaphore[K]) setWaiting(key K, queue []chan struct{}) {
	if len(queue) > 0 {
		s.waiting[key] = queue
		return
	}
	delete(s.waiting, key)
	i := slices.Index(s.turns, key)
	s.turns = slices.Delete(s.turns, i, i+1)
}
