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
	all int64

	mu   sync.Mutex
	left int64       // guarded by mu
	held map[K]int64 // guarded by mu; of those who hold any
}

// NewPool returns a Pool of so much.
func NewPool[K comparable](all int64) *Pool[K] {
	return &Pool[K]{all: all, left: all, held: map[K]int64{}}
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
	if p.held[who]+n > p.left-n {
		return false
	}
	p.left -= n
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
	p.left += n
	if p.held[who] -= n; p.held[who] == 0 {
		delete(p.held, who)
	}
}
