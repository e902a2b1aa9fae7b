package erasures

import (
	"context"
	"errors"
	"sync"
	"time"

	"atrium"
)

// purges schedules the purges of a store. Each purge reads the whole file of an embedded database,
// so purges run one at a time, at most 10% of the time, and callers that wait share the next one. It is
// safe for concurrent use.
type purges struct {
	slot      chan struct{} // a semaphore for the running purge
	notBefore time.Time     // earliest start of the next purge; guarded by slot

	mu         sync.Mutex
	ofRequests *purge // the next purge for requests, nil if none waits; guarded by mu
	ofJobs     *purge // the next one for jobs, which purge files of any size; likewise
}

// A purge runs once for several calls of run.
type purge struct {
	done chan struct{} // closed when the purge has ended
	err  error         // set before done is closed
}

const (
	pauseFactor = 9           // pause after a purge, as a multiple of its duration
	purgeWait   = time.Second // how long a request or a job without other work waits for its purge to start
)

var errPurgeBusy = atrium.Unavailable(errors.New("other purges are running"))

// run runs f once for all callers with the same next, which is a field of p, that arrive before f
// starts. It returns the error of f, or errPurgeBusy if f cannot start within wait. A caller that
// finds another one waiting stays until that purge has ended, unless wait is 0: it then gets errPurgeBusy.
func (p *purges) run(ctx context.Context, next **purge, wait time.Duration, f func() error) error {
	p.mu.Lock()
	shared, first := *next, *next == nil
	if first {
		shared = &purge{done: make(chan struct{})}
		*next = shared
	}
	p.mu.Unlock()
	switch {
	case !first && wait == 0:
		return errPurgeBusy
	case !first:
		select {
		case <-shared.done:
			return shared.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(shared.done)
	shared.err = p.acquire(ctx, wait)
	p.mu.Lock()
	*next = nil // f may miss what later callers have deleted
	p.mu.Unlock()
	if shared.err != nil {
		return shared.err
	}
	shared.err = p.runAndRelease(f)
	return shared.err
}

// acquire waits until a purge may run. The caller must then call runAndRelease.
func (p *purges) acquire(ctx context.Context, wait time.Duration) error {
	timeout := time.After(wait)
	select {
	case p.slot <- struct{}{}: // even if wait is 0
	default:
		select {
		case p.slot <- struct{}{}:
		case <-timeout:
			return errPurgeBusy
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if pause := time.Until(p.notBefore); pause > 0 {
		select {
		case <-time.After(pause):
			return nil
		case <-timeout:
		case <-ctx.Done():
		}
		<-p.slot
		return errPurgeBusy
	}
	return nil
}

// runAndRelease calls f, starts the pause, and releases the slot.
func (p *purges) runAndRelease(f func() error) error {
	began := time.Now()
	defer func() {
		p.notBefore = time.Now().Add(pauseFactor * time.Since(began))
		<-p.slot
	}()
	return f()
}
