package limit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrBusy says that as many are in work, and wait, as may. It is no fault of anybody's.
var ErrBusy = errors.New("as much is in work as may be at once")

// A Gate lets so many be in work at once. As many more wait for their turn, first come
// first served, for a short while: a burst is worked off, and of an overload that lasts
// most is refused at once, so that what is accepted is not slow as well. A nil Gate is
// open. It is safe for concurrent use.
type Gate struct {
	work     chan struct{}
	patience time.Duration
	waiting  atomic.Int64
}

// NewGate returns a Gate for so many, nil for 0, that has everybody wait no longer than
// the patience.
func NewGate(most int, patience time.Duration) *Gate {
	if most == 0 {
		return nil
	}
	return &Gate{work: make(chan struct{}, most), patience: patience}
}

// Enter returns nil when it is the caller's turn, who then calls Leave. Else the error is
// ErrBusy, or why ctx has ended.
func (g *Gate) Enter(ctx context.Context) error {
	if g == nil {
		return nil
	}
	select {
	case g.work <- struct{}{}: // which is not so while others wait: what is freed goes to the first of them
		return nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > int64(cap(g.work)) || g.patience == 0 {
		return ErrBusy
	}
	enough := time.NewTimer(g.patience)
	defer enough.Stop()
	select {
	case g.work <- struct{}{}:
		return nil
	case <-enough.C:
		return ErrBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	if g != nil {
		<-g.work
	}
}

// Inside returns how many are in work.
func (g *Gate) Inside() int {
	if g == nil {
		return 0
	}
	return len(g.work)
}
