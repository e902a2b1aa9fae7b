package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"atrium/internal/store/engine"
)

// A fairLock is a mutex that is granted to tenants round-robin, and to the waiters of a tenant in
// FIFO order: the many waiters of one tenant delay no other by more than one of them.
type fairLock struct {
	mu     sync.Mutex
	locked bool     // guarded by mu
	queues []*queue // the nonempty ones, in the order of their turns; guarded by mu
}

// A queue has the waiters of one tenant, or those without a tenant.
type queue struct {
	tenant  string
	waiters []chan struct{} // each is closed when its waiter is granted the lock
}

// lock acquires the lock for a tenant, "" for none. It returns an error if ctx ends first.
func (l *fairLock) lock(ctx context.Context, tenant string) error {
	l.mu.Lock()
	if !l.locked {
		l.locked = true
		l.mu.Unlock()
		return nil
	}
	granted := make(chan struct{})
	q := l.queueOf(tenant)
	q.waiters = append(q.waiters, granted)
	l.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(q.waiters, granted)
	if i < 0 { // granted in the meantime
		return nil
	}
	if q.waiters = slices.Delete(q.waiters, i, i+1); len(q.waiters) == 0 {
		l.queues = slices.DeleteFunc(l.queues, func(other *queue) bool { return other == q })
	}
	return &engine.Error{Class: engine.Unavailable, Err: fmt.Errorf("wait for the write lock: %w", context.Cause(ctx))}
}

// queueOf returns the queue of a tenant. If it is new, its turn is last, and the caller must add a
// waiter. l.mu is held.
func (l *fairLock) queueOf(tenant string) *queue {
	for _, q := range l.queues {
		if q.tenant == tenant {
			return q
		}
	}
	q := &queue{tenant: tenant}
	l.queues = append(l.queues, q)
	return q
}

// handOff grants the lock to the next waiter. It returns false if nobody waits.
func (l *fairLock) handOff() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handOffLocked()
}

func (l *fairLock) handOffLocked() bool {
	if len(l.queues) == 0 {
		return false
	}
	q := l.queues[0]
	close(q.waiters[0])
	q.waiters = slices.Delete(q.waiters, 0, 1)
	if l.queues = slices.Delete(l.queues, 0, 1); len(q.waiters) > 0 {
		l.queues = append(l.queues, q)
	}
	return true
}

// unlock grants the lock to the next waiter, or releases it.
func (l *fairLock) unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locked = l.handOffLocked()
}

func (l *fairLock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.locked
}
