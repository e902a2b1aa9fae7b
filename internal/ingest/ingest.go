// Package ingest implements group commit: it turns many concurrent submissions into few durable
// commits.
//
// A Writer has a bounded queue and one or more commit workers. Entries that arrive while the
// workers are busy form the next batch, so batches grow with the load and a lone submission is
// committed at once. Submit returns only after the commit is durable.
//
// A commit waits only briefly for locks that other transactions hold, such as a merge or an import
// of the same accounts. If a lock is held for longer, the Writer bisects the batch by tenant until
// it finds the tenant that has to wait. That tenant is then delayed: separate workers commit the
// entries of delayed tenants, a batch of one tenant at a time. Other entries do not wait for them.
//
// A batch whose entries create many accounts is stored in several commits, so that each is short.
//
// Tenants are served round-robin: a batch takes one entry of each waiting tenant before it takes a
// second of any. If the queue is full, in entries or in bytes, the tenant that uses most of that
// resource loses its newest entry.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"atrium"
	"atrium/internal/limit"
)

// A Store appends drafts in one durable transaction, all or none. The outcomes are in the order of
// the drafts. An error with atrium.CodeUnavailable is transient; any other may be caused by a
// single draft.
type Store interface {
	Append(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error)

	// TryAppend is Append, but returns atrium.ErrLocked instead of waiting long for a lock. The
	// outcome of a draft is atrium.ErrDeferred if it must be appended again in another transaction.
	TryAppend(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error)
}

// An Observer receives the events of a Writer. Its methods must return at once and be safe for
// concurrent use.
type Observer interface {
	Batch(entries int)      // a commit of this many entries begins
	Waited(d time.Duration) // an entry of the batch waited in the queue for d

	// Stored reports a commit that succeeded. An outcome can still be an error or a replay.
	Stored(drafts []*atrium.Draft, outcomes []atrium.Outcome)

	// Rejected reports that an entry was rejected: the queue was full, or the Writer is closed.
	Rejected(tenant atrium.TenantID)
}

// A Tracer traces commits. Batch is called before a commit begins, with the contexts of its
// submissions. It returns the context for the store, which is never canceled, and a function that
// is called with the commit's error when it has ended.
type Tracer interface {
	Batch(requests []context.Context) (commit context.Context, ended func(error))
}

// Limits configure a Writer. Zero fields have defaults.
type Limits struct {
	QueueEntries int // maximum entries in the queue; default 4096
	QueueBytes   int // maximum bytes in the queue; default 64 MiB
	BatchEntries int // maximum entries of a commit; default 256
	BatchBytes   int // maximum bytes of a commit with several entries; default 8 MiB
	Workers      int // commit workers, not counting those of delayed tenants; default 1

	OneTenant bool // a commit has entries of one tenant only
}

func (l Limits) withDefaults() Limits {
	for _, field := range []struct {
		value    *int
		fallback int
	}{
		{&l.QueueEntries, 4096}, {&l.QueueBytes, 64 << 20},
		{&l.BatchEntries, 256}, {&l.BatchBytes, 8 << 20}, {&l.Workers, 1},
	} {
		if *field.value <= 0 {
			*field.value = field.fallback
		}
	}
	return l
}

// minParallelBatch is the queue length at which another worker starts a commit while one is in
// flight: fewer entries are cheaper in the next batch of the same worker. It does not apply with
// OneTenant, because entries of several tenants then cannot share a batch, nor while a commit takes
// longer than slowCommit.
const (
	minParallelBatch = 24
	slowCommit       = 50 * time.Millisecond
)

// delayedWorkers is the number of workers for delayed tenants. Each tenant has at most one commit
// in flight there.
const delayedWorkers = 4

// ErrFull is the cause of the error that Submit returns if the queue is full.
var ErrFull = fmt.Errorf("the write queue is full: %w", limit.ErrBusy)

// ErrClosed is the cause of the error that Submit returns if the Writer is closed or closing.
var ErrClosed = errors.New("the writer is closed")

// A Writer commits submissions in batches. It is safe for concurrent use.
type Writer struct {
	store    Store
	log      *slog.Logger
	limits   Limits
	observer Observer      // may be nil
	tracer   Tracer        // may be nil
	done     chan struct{} // closed when all workers have ended

	mu          sync.Mutex
	wake        *sync.Cond // signaled when a batch may be ready, or on Close
	wakeDelayed *sync.Cond // signaled when a delayed tenant has entries, or when all workers have ended
	queue       *queue     // guarded by mu
	batchLimit  int        // guarded by mu; maximum entries of the next commit of the normal lane
	inFlight    int        // guarded by mu; commits of the normal lane that are not slow
	running     int        // guarded by mu; workers of the normal lane
	closed      bool       // guarded by mu
}

// A waiter is a draft in the queue, with the channel for its outcome.
type waiter struct {
	draft   *atrium.Draft
	outcome chan atrium.Outcome // has capacity 1, so that sending never blocks
	since   time.Time           // when it was queued
	ctx     context.Context     // of the submission, for the Tracer; nil without one

	// uncertain is the error of a commit whose outcome is unknown; nil if there was none. If later
	// commits fail, the entry may still be stored by this one.
	uncertain error
}

// fail reports that the entry was not stored or, after an uncertain commit, that it may have been.
func (w *waiter) fail(err error) {
	if w.uncertain != nil {
		err = atrium.Uncertain(errors.Join(w.uncertain, err))
	}
	w.outcome <- atrium.Outcome{Err: err}
}

// NewWriter starts a Writer on the store. observer and tracer may be nil. Call Close to stop it.
func NewWriter(store Store, limits Limits, log *slog.Logger, observer Observer, tracer Tracer) *Writer {
	w := &Writer{
		store: store, log: log, limits: limits.withDefaults(), observer: observer, tracer: tracer,
		done: make(chan struct{}), queue: newQueue(),
	}
	w.batchLimit = w.limits.BatchEntries
	w.wake, w.wakeDelayed = sync.NewCond(&w.mu), sync.NewCond(&w.mu)
	var workers sync.WaitGroup
	w.running = w.limits.Workers
	for range w.limits.Workers {
		workers.Go(w.run)
	}
	for range delayedWorkers {
		workers.Go(w.runDelayed)
	}
	go func() {
		workers.Wait()
		close(w.done)
	}()
	return w
}

// Submit stores a draft and returns its receipt once it is durable. It sets the draft's identifier.
// If ctx ends first, Submit returns atrium.Uncertain: the entry may still be stored, and its
// idempotency key makes a retry safe. If the queue is full or the Writer is closed, Submit
// immediately returns an error with atrium.CodeUnavailable. It returns the same error if the queued
// entry is dropped in favor of another tenant.
func (w *Writer) Submit(ctx context.Context, d *atrium.Draft) (atrium.Receipt, error) {
	submission := &waiter{draft: d, outcome: make(chan atrium.Outcome, 1), since: time.Now()}
	if w.tracer != nil {
		submission.ctx = ctx
	}
	if err := w.enqueue(submission); err != nil {
		w.rejected(d)
		return atrium.Receipt{}, atrium.Unavailable(err)
	}
	select {
	case o := <-submission.outcome:
		return o.Receipt, o.Err
	case <-ctx.Done():
		return atrium.Receipt{}, atrium.Uncertain(context.Cause(ctx))
	}
}

func (w *Writer) enqueue(submission *waiter) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	var dropped []*waiter
	for {
		exceeded := byEntries
		if w.queue.entries < w.limits.QueueEntries {
			exceeded = byBytes
			if w.queue.bytes+submission.draft.Size() <= w.limits.QueueBytes || w.queue.entries == 0 {
				break
			}
		}
		d := w.queue.dropFor(submission, exceeded)
		if d == nil { // dropping is not enough: restore the dropped entries
			for _, d := range slices.Backward(dropped) {
				w.queue.push(d)
			}
			return ErrFull
		}
		dropped = append(dropped, d)
	}
	for _, d := range dropped {
		w.rejected(d.draft)
		d.fail(atrium.Unavailable(ErrFull))
	}
	if w.queue.push(submission) == &w.queue.delayed {
		w.wakeDelayed.Signal()
	} else {
		w.wake.Signal()
	}
	return nil
}

func (w *Writer) rejected(d *atrium.Draft) {
	if w.observer != nil {
		w.observer.Rejected(d.TenantID)
	}
}

// observe reports a batch that was taken from the queue.
func (w *Writer) observe(batch []*waiter) {
	if w.observer == nil {
		return
	}
	now := time.Now()
	w.observer.Batch(len(batch))
	for _, b := range batch {
		w.observer.Waited(now.Sub(b.since))
	}
}

// Waiting returns the number of entries in the queue.
func (w *Writer) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.entries
}

// Close refuses new submissions, commits the queued ones, and returns when all have their outcome.
// If ctx ends first, Close returns an error, and the commits continue.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.wake.Broadcast()
	w.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain the write queue: %w", context.Cause(ctx))
	}
}

// run is a commit worker of the normal lane. It ends when the Writer is closed and the lane is empty.
func (w *Writer) run() {
	for {
		batch := w.next()
		if len(batch) == 0 {
			w.mu.Lock()
			w.running--
			w.wakeDelayed.Broadcast()
			w.mu.Unlock()
			return
		}
		w.observe(batch)
		slow := time.AfterFunc(slowCommit, w.release)
		ctx, ended := w.startTrace(batch)
		ended(w.commit(ctx, batch, w.store.TryAppend))
		if slow.Stop() {
			w.release()
		}
	}
}

// runDelayed is a commit worker of the delayed tenants. It ends after the normal workers, because
// they can still delay tenants.
func (w *Writer) runDelayed() {
	for {
		batch := w.nextDelayed()
		if len(batch) == 0 {
			return
		}
		w.observe(batch)
		began := time.Now()
		ctx, ended := w.startTrace(batch)
		ended(w.commit(ctx, batch, w.store.Append))
		w.mu.Lock()
		tenant := batch[0].draft.TenantID
		if time.Since(began) > slowCommit {
			w.queue.delay(tenant)
		}
		w.queue.commitEnded(tenant, !w.closed)
		w.wake.Signal() // the rest of the tenant's entries may be in the other lane now
		w.wakeDelayed.Broadcast()
		w.mu.Unlock()
	}
}

// nextDelayed waits for a batch of a delayed tenant. An empty batch ends the worker.
func (w *Writer) nextDelayed() (batch []*waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		batch = w.queue.takeDelayed(w.limits.BatchEntries, w.limits.BatchBytes)
		if len(batch) > 0 || w.running == 0 && w.queue.delayed.entries == 0 {
			return batch
		}
		w.wakeDelayed.Wait()
	}
}

// startTrace returns the context of a commit. A batch belongs to many callers, so none of them can
// cancel it.
func (w *Writer) startTrace(batch []*waiter) (commit context.Context, ended func(error)) {
	if w.tracer == nil {
		return context.Background(), func(error) {}
	}
	requests := make([]context.Context, len(batch))
	for i, b := range batch {
		requests[i] = b.ctx
	}
	return w.tracer.Batch(requests)
}

// next waits for a batch. An empty batch ends the worker.
func (w *Writer) next() []*waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	lane := &w.queue.normal
	for !w.closed && (lane.entries == 0 ||
		w.inFlight > 0 && lane.entries < minParallelBatch && !w.limits.OneTenant) {
		w.wake.Wait()
	}
	batch := w.queue.take(lane, w.batchLimit, w.limits.BatchBytes, w.limits.OneTenant)
	if len(batch) > 0 {
		w.inFlight++
	}
	return batch
}

// release is called once per batch: when its commit has ended or exceeds slowCommit.
func (w *Writer) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight--
	w.wake.Signal()
}

// An appender is a method of a Store that appends.
type appender func(context.Context, []*atrium.Draft) ([]atrium.Outcome, error)

// commit stores a batch and sends the outcomes. If the store rejects a batch, commit stores it
// entry by entry, so that an invalid entry fails alone. It returns the error of the batch.
func (w *Writer) commit(ctx context.Context, batch []*waiter, appendAll appender) error {
	drafts := make([]*atrium.Draft, len(batch))
	for i, b := range batch {
		if b.draft.ID == "" {
			b.draft.ID = atrium.NewID[atrium.EntryID]()
		}
		drafts[i] = b.draft
	}
	outcomes, err := protected(ctx, drafts, appendAll)
	switch {
	case err == nil:
		if w.observer != nil {
			w.observer.Stored(drafts, outcomes)
		}
		w.complete(ctx, batch, outcomes)
	case errors.Is(err, atrium.ErrLocked):
		if uncertain, ok := errors.AsType[*atrium.Error](err); ok {
			for _, b := range batch {
				b.uncertain = uncertain
			}
		}
		w.divide(ctx, batch, appendAll)
	case len(batch) > 1 && atrium.CodeOf(err) != atrium.CodeUnavailable:
		w.log.Error("batch failed; storing its entries one by one", "entries", len(batch), "error", err)
		for _, b := range batch {
			_ = w.commit(ctx, []*waiter{b}, appendAll) // sends the outcome
		}
	default:
		for _, b := range batch {
			b.fail(err)
		}
	}
	return err
}

// minBatchLimit is the minimum of batchLimit.
const minBatchLimit = 64

// complete sends the outcomes of a commit, and requeues deferred entries. After these, the next
// commits are small, so that few entries are looked up in vain. Once the Writer is closed, it stores
// deferred entries without further deferral: no new ones can arrive that would have to wait.
func (w *Writer) complete(ctx context.Context, batch []*waiter, outcomes []atrium.Outcome) {
	var deferred []*waiter
	for i, b := range batch {
		if errors.Is(outcomes[i].Err, atrium.ErrDeferred) {
			deferred = append(deferred, b)
		} else {
			b.outcome <- outcomes[i]
		}
	}
	stored := len(batch) - len(deferred)
	w.mu.Lock()
	if len(deferred) > 0 && w.closed {
		w.mu.Unlock()
		_ = w.commit(ctx, deferred, w.store.Append) // sends the outcomes
		return
	}
	defer w.mu.Unlock()
	switch {
	case len(deferred) > 0:
		w.batchLimit = min(max(2*stored, minBatchLimit), w.limits.BatchEntries)
		w.queue.pushFront(deferred)
		w.wake.Signal()
		w.wakeDelayed.Broadcast()
	case stored >= w.batchLimit:
		w.batchLimit = min(2*w.batchLimit, w.limits.BatchEntries)
	}
}

// divide handles a batch that could not get a lock. It splits the batch by tenant and commits both
// halves. If the batch has only one tenant, it requeues the batch and delays the tenant.
func (w *Writer) divide(ctx context.Context, batch []*waiter, appendAll appender) {
	tenants := map[atrium.TenantID]int{} // numbered by first appearance
	for _, b := range batch {
		if _, ok := tenants[b.draft.TenantID]; !ok {
			tenants[b.draft.TenantID] = len(tenants)
		}
	}
	if len(tenants) == 1 {
		w.mu.Lock()
		w.queue.delay(batch[0].draft.TenantID)
		w.queue.pushFront(batch)
		w.wakeDelayed.Signal()
		w.mu.Unlock()
		return
	}
	var first, second []*waiter
	for _, b := range batch {
		if 2*tenants[b.draft.TenantID] < len(tenants) {
			first = append(first, b)
		} else {
			second = append(second, b)
		}
	}
	_ = w.commit(ctx, first, appendAll) // sends the outcomes
	_ = w.commit(ctx, second, appendAll)
}

// protected calls appendAll and returns a panic as an error, so that the worker survives.
func protected(ctx context.Context, drafts []*atrium.Draft, appendAll appender) (outcomes []atrium.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while storing entries: %v", p)
		}
	}()
	return appendAll(ctx, drafts)
}
