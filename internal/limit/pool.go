package limit

import (
	"math"
	"sync"
)

// A Pool is something of which there is so much, such as memory, that many share. Each
// may hold as much as is left for the others: one alone half of it, two a third each. So
// whoever takes all that may be had, and however many do, there is some for who comes
// next. (That is the dynamic threshold of shared-memory switches: Choudhury and Hahne, 1998.)
// A nil Pool has no end. It is safe for concurrent use.
type Pool[K comparable] struct {
	all  int64
	each int64 // guaranteed to each

	mu       sync.Mutex
	left     int64       // guarded by mu
	spare    int64       // guarded by mu; what is left of the guarantee
	held     map[K]int64 // guarded by mu; of those who hold any
	borrowed map[K]int64 // guarded by mu; what part of that is spare
}

// NewPool returns a Pool of so much.
func NewPool[K comparable](all int64) *Pool[K] {
	return &Pool[K]{all: all, left: all, held: map[K]int64{}, borrowed: map[K]int64{}}
}

// Guarantee lets each hold up to so much even when too little is left of the pool, because
// several others came first and hold theirs for long. All of them together hold sum more
// than the pool. It is called before the pool is used, and returns the pool.
func (p *Pool[K]) Guarantee(each, sum int64) *Pool[K] {
	p.each, p.spare = each, sum
	return p
}

// Alone returns how much one may hold while there is nobody else.
func (p *Pool[K]) Alone() int64 {
	if p == nil {
		return math.MaxInt64
	}
	return p.all / 2
}

// Take reports whether who may have n more, and then has it until it is returned.
func (p *Pool[K]) Take(who K, n int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.held[who]+n <= p.left-n:
		p.left -= n
	case p.held[who]+n <= p.each && n <= p.spare:
		p.spare -= n
		p.borrowed[who] += n
	default:
		return false
	}
	p.held[who] += n
	return true
}

// Return gives back what was taken.
func (p *Pool[K]) Return(who K, n int64) {
	if p == nil || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	back := min(n, p.borrowed[who])
	p.spare += back
	p.left += n - back
	if p.borrowed[who] -= back; p.borrowed[who] == 0 {
		delete(p.borrowed, who)
	}
	if p.held[who] -= n; p.held[who] == 0 {
		delete(p.held, who)
	}
}
