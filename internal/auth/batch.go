package auth

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"atrium"
	"atrium/internal/limit"
)

// The limits of batched lookups. A valid key waits for one batchPause, plus one for each
// maxBatchKeys keys queued before it.
const (
	batchPause   = 100 * time.Millisecond // pause after each batch
	maxBatchKeys = 1000                   // maximum keys per batch
	maxWaiting   = 32 << 10               // maximum waiting keys; half as many of one client
)

// A batcher looks up keys of clients that exceed the failure rate. It runs one batch at a time,
// with all keys that were queued since the last one, and pauses in between: the store gets at most
// ten queries a second, however many keys clients send.
type batcher struct {
	lookUp func(context.Context, []*batchedLookup) error // sets the result of each lookup
	quota  *limit.Quota[netip.Addr]                      // of waiting keys, so that no client fills the queue

	mu      sync.Mutex
	waiting []*batchedLookup // guarded by mu
	running bool             // guarded by mu
}

func newBatcher(lookUp func(context.Context, []*batchedLookup) error) *batcher {
	return &batcher{lookUp: lookUp, quota: limit.NewQuota[netip.Addr](maxWaiting)}
}

// A batchedLookup has its result when done is closed.
type batchedLookup struct {
	lookup
	result result
	err    error
	done   chan struct{}
}

var errBatchQueueFull = fmt.Errorf("too many waiting keys of clients that exceed the failure rate: %w", limit.ErrBusy)

// look queues a lookup for a client and returns its result. ctx must not end with a request. The
// error's code is atrium.CodeUnavailable if the result is unknown: a key is never rejected without
// a lookup.
func (b *batcher) look(ctx context.Context, from netip.Addr, l lookup) (result, error) {
	if !b.quota.Take(from, 1) {
		return result{}, atrium.Unavailable(errBatchQueueFull)
	}
	defer b.quota.Return(from, 1)
	queued := &batchedLookup{lookup: l, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, queued)
	if !b.running {
		b.running = true
		go b.run(ctx)
	}
	b.mu.Unlock()
	<-queued.done
	return queued.result, queued.err
}

// run runs batches until no key was queued during a pause.
func (b *batcher) run(ctx context.Context) {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), maxBatchKeys)
		batch := b.waiting[:n:n]
		if b.waiting = b.waiting[n:]; n == 0 {
			b.waiting, b.running = nil, false
		}
		b.mu.Unlock()
		if n == 0 {
			return
		}
		err := b.lookUp(ctx, batch)
		for _, l := range batch {
			l.err = err
			close(l.done)
		}
		time.Sleep(batchPause)
	}
}
