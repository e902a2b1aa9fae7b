package erasures

import (
	"context"
	"errors"
	"sync"
	"time"

	"atrium"
)

// purges runs the purges of a store, each of which reads the whole file of an embedded
// database: one at a time, and for a tenth of the time at most. It is safe for concurrent use.
type purges struct {
	turn chan struct{} // holds one value while a purge runs or is about to
	due  time.Time     // when the next one may begin; guarded by turn

	mu   sync.Mutex
	next *purge // guarded by mu; the one that has not begun, nil for none
}

// A purge is one that several requests wait for.
type purge struct {
	done chan struct{} // closed when it has ended
	err  error         // set before done is closed
}

const (
	purgePause = 9           // pause after a purge, by the time that it took
	purgeWait  = time.Second // how long a request waits for the pause to end
)

var errPurgeLater = atrium.Unavailable(errors.New("other purges come first"))

// share runs f for all that have called share before it begins, and returns its error. It
// returns errPurgeLater if f cannot begin within purgeWait.
func (p *purges) share(ctx context.Context, f func() error) error {
	p.mu.Lock()
	mine, leads := p.next, p.next == nil
	if leads {
		mine = &purge{done: make(chan struct{})}
		p.next = mine
	}
	p.mu.Unlock()
	if !leads {
		select {
		case <-mine.done:
			return mine.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(mine.done)
	mine.err = p.begin(ctx, purgeWait)
	p.mu.Lock()
	p.next = nil // whoever comes from now on has deleted something that f may miss
	p.mu.Unlock()
	if mine.err != nil {
		return mine.err
	}
	mine.err = p.run(f)
	return mine.err
}

// alone runs f, or returns errPurgeLater if it cannot begin within the time.
func (p *purges) alone(ctx context.Context, wait time.Duration, f func() error) error {
	if err := p.begin(ctx, wait); err != nil {
		return err
	}
	return p.run(f)
}

// begin waits until a purge may run. Call run then.
func (p *purges) begin(ctx context.Context, wait time.Duration) error {
	timeout := time.After(wait)
	select {
	case p.turn <- struct{}{}: // also without any wait
	default:
		select {
		case p.turn <- struct{}{}:
		case <-timeout:
			return errPurgeLater
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if pause := time.Until(p.due); pause > 0 {
		select {
		case <-time.After(pause):
			return nil
		case <-timeout:
		case <-ctx.Done():
		}
		<-p.turn
		return errPurgeLater
	}
	return nil
}

// run calls f and ends the turn.
func (p *purges) run(f func() error) error {
	began := time.Now()
	defer func() {
		p.due = time.Now().Add(purgePause * time.Since(began))
		<-p.turn
	}()
	return f()
}
