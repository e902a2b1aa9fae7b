package rest

import (
	"context"

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
