package limit

import (
	"sync"
	"time"
)

// Rates limit the rate of each key: a count per window, which may be used as one burst and is
// then replenished evenly (GCRA). A nil *Rates limits nothing. Rates are safe for concurrent
// use.
type Rates[K comparable] struct {
	count    int
	window   time.Duration
	interval time.Duration // between two requests at the rate
	size     int
	start    time.Time // times are relative to it; it has a monotonic clock

	mu     sync.Mutex
	fullAt map[K]time.Duration // guarded by mu; when each key has its full count again; at most size keys
}

// A Budget is what a key has left after a request.
type Budget struct {
	OK   bool          // the request was within the rate
	Left int           // how many more may come immediately
	Wait time.Duration // until Left grows by one; if not OK, until a request is allowed
}

// NewRates returns Rates of count per window, or nil if count is 0. They remember up to size
// keys. When more come, a key that has used little is forgotten and has its full count again.
func NewRates[K comparable](count int, window time.Duration, size int) *Rates[K] {
	if count == 0 {
		return nil
	}
	return &Rates[K]{
		count: count, window: window, interval: max(window/time.Duration(count), 1), size: size,
		start: time.Now(), fullAt: map[K]time.Duration{},
	}
}

// Policy returns the limit of each key; 0 and 0 for none.
func (r *Rates[K]) Policy() (count int, window time.Duration) {
	if r == nil {
		return 0, 0
	}
	return r.count, r.window
}

// Take counts a request of a key if it is within the rate. Only then is Budget.OK true.
func (r *Rates[K]) Take(key K) Budget {
	if r == nil {
		return Budget{OK: true}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	fullAt, known := r.fullAt[key]
	all := r.interval * time.Duration(r.count) // the window, rounded down by the division
	used := max(fullAt-now, 0) + r.interval
	if over := used - all; over > 0 {
		return Budget{Wait: over}
	}
	if !known && len(r.fullAt) >= r.size {
		r.forget(now)
	}
	r.fullAt[key] = now + used
	unused := all - used
	return Budget{OK: true, Left: int(unused / r.interval), Wait: r.interval - unused%r.interval}
}

// Add counts n requests of a key even above the rate. Later ones then wait until the rate allows them.
func (r *Rates[K]) Add(key K, n int) {
	if r == nil || n <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	fullAt, known := r.fullAt[key]
	if !known && len(r.fullAt) >= r.size {
		r.forget(now)
	}
	r.fullAt[key] = max(fullAt, now) + time.Duration(n)*r.interval
}

// Return undoes a Take of a key.
func (r *Rates[K]) Return(key K) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fullAt, known := r.fullAt[key]; known {
		r.fullAt[key] = fullAt - r.interval
	}
}

// Len returns how many keys are remembered.
func (r *Rates[K]) Len() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.fullAt)
}

// samples is the number of random keys that forget examines.
const samples = 8

// forget makes room for one key. Of a sample, it forgets the keys that have their full count
// again, which lose nothing, or else the one that has used least. r.mu is held.
func (r *Rates[K]) forget(now time.Duration) {
	var least K
	seen, gone := 0, false
	for key, fullAt := range r.fullAt { // in random order
		if fullAt <= now {
			delete(r.fullAt, key)
			gone = true
		} else if seen == 0 || fullAt < r.fullAt[least] {
			least = key
		}
		if seen++; seen == samples {
			break
		}
	}
	if !gone {
		delete(r.fullAt, least)
	}
}
