package limit

import (
	"sync"
	"time"
)

// Recent remembers the two keys, such as tenants, that were used last. Its zero value has none. It is safe for concurrent use.
type Recent[K comparable] struct {
	mu              sync.Mutex
	last, other     K         // guarded by mu; different
	lastAt, otherAt time.Time // guarded by mu; zero for none
}

// Use records that a key is used.
func (r *Recent[K]) Use(key K, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key != r.last {
		r.other, r.otherAt = r.last, r.lastAt
		r.last = key
	}
	r.lastAt = now
}

// Others reports whether another key was used since a time.
func (r *Recent[K]) Others(key K, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key != r.last {
		return r.lastAt.After(since)
	}
	return r.otherAt.After(since)
}
