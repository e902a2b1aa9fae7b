package limit

import (
	"math"
	"sync"
)

// A Quota shares a limited amount, for example of memory, among keys, such as tenants. No key
// may hold more than remains free: a single key gets half of the quota, two keys get a third
// each. So there is always some left for another key, however much the others request. This
// is the dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998).
//
// A nil Quota is unlimited. A Quota is safe for concurrent use.
type Quota[K comparable] struct {
	all  int64
	each int64 // guaranteed to each key

	mu       sync.Mutex
	left     int64       // guarded by mu
	spare    int64       // guarded by mu; the rest of the guarantees
	held     map[K]int64 // guarded by mu; no zeros
	borrowed map[K]int64 // guarded by mu; the part of held that is from spare
}

// NewQuota returns a Quota of an amount.
func NewQuota[K comparable](all int64) *Quota[K] {
	return &Quota[K]{all: all, left: all, held: map[K]int64{}, borrowed: map[K]int64{}}
}

// Guarantee lets every key hold up to each even if the quota is used up. All guarantees
// together may exceed the quota by at most sum. Call Guarantee before the quota is used. It
// returns q.
func (q *Quota[K]) Guarantee(each, sum int64) *Quota[K] {
	q.each, q.spare = each, sum
	return q
}

// Alone returns how much a key may hold if no other key holds any.
func (q *Quota[K]) Alone() int64 {
	if q == nil {
		return math.MaxInt64
	}
	return q.all / 2
}

// Take takes n for a key and reports whether the key may have it. The caller must Return it.
func (q *Quota[K]) Take(key K, n int64) bool {
	if q == nil {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.held[key]+n <= q.left-n:
		q.left -= n
	case q.held[key]+n <= q.each && n <= q.spare:
		q.spare -= n
		q.borrowed[key] += n
	default:
		return false
	}
	q.held[key] += n
	return true
}

// Return returns n that a key has taken.
func (q *Quota[K]) Return(key K, n int64) {
	if q == nil || n == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	back := min(n, q.borrowed[key])
	q.spare += back
	q.left += n - back
	if q.borrowed[key] -= back; q.borrowed[key] == 0 {
		delete(q.borrowed, key)
	}
	if q.held[key] -= n; q.held[key] == 0 {
		delete(q.held, key)
	}
}
