package limit

import (
	"sync"
	"time"
)

// Rates hold each of many to a rate: so many in a window, which they may use at once,
// and then evenly (GCRA). A nil *Rates lets everybody do everything. It is safe for
// concurrent use.
type Rates[K comparable] struct {
	count    int
	window   time.Duration
	interval time.Duration // in which one more is allowed
	size     int
	start    time.Time // of what times here are relative to; it has a monotonic clock

	mu   sync.Mutex
	free map[K]time.Duration // guarded by mu; when each has all of its count again, at most size of them
}

// A Budget is what there is after a request.
type Budget struct {
	OK   bool          // the request was within the rate
	Left int           // how many more may come at once
	Wait time.Duration // until it is one more, and if not OK until one is taken
}

// NewRates returns Rates of count in a window, nil for 0. Those of size are remembered at
// a time; of more, one that has used little is forgotten, and so may have all of its
// count again.
func NewRates[K comparable](count int, window time.Duration, size int) *Rates[K] {
	if count == 0 {
		return nil
	}
	return &Rates[K]{
		count: count, window: window, interval: max(window/time.Duration(count), 1), size: size,
		start: time.Now(), free: map[K]time.Duration{},
	}
}

// Policy returns what each is held to: so many in a window; 0 and 0 for nothing.
func (r *Rates[K]) Policy() (count int, window time.Duration) {
	if r == nil {
		return 0, 0
	}
	return r.count, r.window
}

// Take counts a request of one, if it is within the rate.
func (r *Rates[K]) Take(who K) Budget {
	if r == nil {
		return Budget{OK: true}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	free, known := r.free[who]
	all := r.interval * time.Duration(r.count) // the window, but for what the division left
	used := max(free-now, 0) + r.interval
	if over := used - all; over > 0 {
		return Budget{Wait: over}
	}
	if !known && len(r.free) >= r.size {
		r.forget(now)
	}
	r.free[who] = now + used
	unused := all - used
	return Budget{OK: true, Left: int(unused / r.interval), Wait: r.interval - unused%r.interval}
}

// Return takes back that a request of one was counted.
func (r *Rates[K]) Return(who K) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if free, known := r.free[who]; known {
		r.free[who] = free - r.interval
	}
}

// Len returns how many are remembered.
func (r *Rates[K]) Len() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.free)
}

// looks is among how many of those remembered, taken at random, one is found to forget.
const looks = 8

// forget makes room for one more: those go that have all of their count again and so lose
// nothing, or of those looked at the one that has used least. r.mu is held.
func (r *Rates[K]) forget(now time.Duration) {
	var least K
	seen, gone := 0, false
	for who, free := range r.free { // in random order
		if free <= now {
			delete(r.free, who)
			gone = true
		} else if seen == 0 || free < r.free[least] {
			least = who
		}
		if seen++; seen == looks {
			break
		}
	}
	if !gone {
		delete(r.free, least)
	}
}
