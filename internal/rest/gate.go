package rest

import (
	"context"
	"errors"
	"sync"

	"atrium"
)

// A Gate lets so many through at once, and a nil one everybody. It bounds the memory of work that needs
// much more of it than what it works on, such as reading a large body.
type Gate chan struct{}

// NewGate returns a Gate that lets n through.
func NewGate(n int) Gate { return make(Gate, n) }

// Do calls f when there is room and returns its error, or one of
// atrium.CodeUnavailable when ctx ends first.
func (g Gate) Do(ctx context.Context, f func() error) error {
	if g == nil {
		return f()
	}
	select {
	case g <- struct{}{}:
		defer func() { <-g }()
		return f()
	case <-ctx.Done():
		return atrium.Unavailable(context.Cause(ctx))
	}
}

// A TenantGate lets so many through at once, and only some of them for one tenant, so
// that none can keep the others out.
type TenantGate struct {
	all, each int
	mu        sync.Mutex
	sum       int                     // guarded by mu
	inside    map[atrium.TenantID]int // guarded by mu; nobody is there with 0
}

// NewTenantGate returns a TenantGate that lets so many through in all, and so many for each
// tenant.
func NewTenantGate(all, each int) *TenantGate {
	return &TenantGate{all: all, each: each, inside: map[atrium.TenantID]int{}}
}

// Try calls f if there is room for the tenant now and returns its error, or else one of
// atrium.CodeUnavailable.
func (g *TenantGate) Try(tenant atrium.TenantID, f func() error) error {
	if !g.enter(tenant) {
		return atrium.Unavailable(errors.New("as many are under way as may be at once"))
	}
	defer g.leave(tenant)
	return f()
}

func (g *TenantGate) enter(tenant atrium.TenantID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sum == g.all || g.inside[tenant] == g.each {
		return false
	}
	g.sum++
	g.inside[tenant]++
	return true
}

func (g *TenantGate) leave(tenant atrium.TenantID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sum--
	if g.inside[tenant]--; g.inside[tenant] == 0 {
		delete(g.inside, tenant)
	}
}
