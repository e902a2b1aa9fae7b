package rest

import (
	"context"
	"errors"

	"atrium"
)

// A Gate lets so many through at once, and a nil one everybody. It bounds the memory of work that needs
// much more of it than what it works on, such as reading a large body.
type Gate chan struct{}

// NewGate returns a Gate that lets n through.
func NewGate(n int) Gate { return make(Gate, n) }

// Try calls f if there is room now and returns its error, or else one of
// atrium.CodeUnavailable.
func (g Gate) Try(f func() error) error {
	select {
	case g <- struct{}{}:
		defer func() { <-g }()
		return f()
	default:
		return atrium.Unavailable(errors.New("as many are under way as may be at once"))
	}
}

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
