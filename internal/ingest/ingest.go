// Package ingest makes many concurrent submissions share few durable commits.
//
// A Writer has a bounded queue and a lane that commits, or a few. Whatever has
// arrived while the lanes were busy is the next batch, so batches grow with the
// load and a lone submission is committed at once. Nobody is answered before the
// commit that holds their entry is durable.
//
// Tenants take turns: a batch takes one entry of each waiting tenant before it
// takes a second of any. When the queue is full, the newest entry is turned away of the
// tenant that takes most of it, in entries or in bytes, whichever has run out.
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

// A Store records drafts as one durable transaction, all or none. The outcomes
// are in the order of the drafts. An error of atrium.CodeUnavailable may pass by
// itself; any other may be due to a single draft.
type Store interface {
	Append(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error)
}

// An Observer is told what a Writer does. Its methods are called by many
// goroutines and return at once.
type Observer interface {
	Batch(entries int)      // a commit of so many entries begins
	Waited(d time.Duration) // an entry of it was so long in the queue
	Rejected()              // an entry found no room
}

// A Tracer follows a commit. Batch is called before one begins, with the contexts of
// the submissions that it holds, and returns the context that the store is called
// with, which nothing ends, and what is called with the error when it has ended.
type Tracer interface {
	Batch(requests []context.Context) (commit context.Context, ended func(error))
}

// Limits bound a Writer. A zero field stands for its default.
type Limits struct {
	QueueEntries int // how many entries may wait; 4096
	QueueBytes   int // how much they may hold together; 64 MiB
	BatchEntries int // how many entries one commit may hold; 256
	BatchBytes   int // how much these may hold, unless there is only one; 8 MiB
	Lanes        int // how many commits may run at the same time; 1

	OneTenant bool // a commit holds entries of one tenant alone
}

func (l Limits) orDefaults() Limits {
	for _, field := range []struct {
		value *int
		or    int
	}{{&l.QueueEntries, 4096}, {&l.QueueBytes, 64 << 20}, {&l.BatchEntries, 256}, {&l.BatchBytes, 8 << 20}, {&l.Lanes, 1}} {
		if *field.value <= 0 {
			*field.value = field.or
		}
	}
	return l
}

// worthALane is how many entries must wait before another lane takes them while one
// is at work: fewer are cheaper in the next batch of that one. Entries of several
// tenants that must not share a batch have nothing to gain from waiting, and nobody
// has from waiting for a lane that takes long.
const (
	worthALane = 24
	slowCommit = 50 * time.Millisecond
)

// ErrFull is the cause of the error for a submission that found no room.
var ErrFull = fmt.Errorf("the write queue is full: %w", limit.ErrBusy)

// ErrClosed is the cause of the error for a submission to a Writer that has
// begun to close.
var ErrClosed = errors.New("the writer is closed")

// A Writer commits submissions in batches. It is safe for concurrent use.
type Writer struct {
	store  Store
	log    *slog.Logger
	limits Limits
	watch  Observer      // nil for nobody
	trace  Tracer        // nil for nobody
	done   chan struct{} // closed when every lane has ended

	mu     sync.Mutex
	turn   *sync.Cond // there may be a batch to take, or the end
	queue  queue      // guarded by mu
	busy   int        // guarded by mu; lanes that commit
	closed bool       // guarded by mu
}

// A waiter is a draft in the queue with the channel that its answer comes on.
type waiter struct {
	draft  *atrium.Draft
	answer chan atrium.Outcome // of capacity 1: an answer never waits for its taker
	since  time.Time           // when it came to wait
	ctx    context.Context     // of its submission, for a Tracer; nil if there is none
}

// NewWriter starts a Writer on the store. Close ends it. watch and trace may be nil.
func NewWriter(store Store, limits Limits, log *slog.Logger, watch Observer, trace Tracer) *Writer {
	w := &Writer{
		store: store, log: log, limits: limits.orDefaults(), watch: watch, trace: trace,
		done: make(chan struct{}), queue: newQueue(),
	}
	w.turn = sync.NewCond(&w.mu)
	var lanes sync.WaitGroup
	for range w.limits.Lanes {
		lanes.Go(w.run)
	}
	go func() {
		lanes.Wait()
		close(w.done)
	}()
	return w
}

// Submit records a draft and returns its outcome once that is durable. It gives
// the draft its identifier. When ctx ends first, the caller stops waiting but
// the entry may still be recorded: its idempotency key makes a retry safe.
// Without room in the queue it returns atrium.CodeUnavailable at once.
func (w *Writer) Submit(ctx context.Context, d *atrium.Draft) (atrium.Receipt, error) {
	me := &waiter{draft: d, answer: make(chan atrium.Outcome, 1), since: time.Now()}
	if w.trace != nil {
		me.ctx = ctx
	}
	if err := w.enqueue(me); err != nil {
		w.rejected()
		return atrium.Receipt{}, atrium.Unavailable(err)
	}
	select {
	case o := <-me.answer:
		return o.Receipt, o.Err
	case <-ctx.Done():
		return atrium.Receipt{}, atrium.Uncertain(context.Cause(ctx))
	}
}

func (w *Writer) enqueue(me *waiter) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return ErrClosed
	}
	var dropped []*waiter
	for {
		lacks := byEntries
		if w.queue.entries < w.limits.QueueEntries {
			if lacks = byBytes; w.queue.bytes+me.draft.Size() <= w.limits.QueueBytes || w.queue.entries == 0 {
				break
			}
		}
		d := w.queue.dropFor(me, lacks)
		if d == nil { // there is no room even so: they stay where they were
			for _, d := range slices.Backward(dropped) {
				w.queue.push(d)
			}
			return ErrFull
		}
		dropped = append(dropped, d)
	}
	for _, d := range dropped {
		w.rejected()
		d.answer <- atrium.Outcome{Err: atrium.Unavailable(ErrFull)}
	}
	w.queue.push(me)
	w.turn.Signal()
	return nil
}

func (w *Writer) rejected() {
	if w.watch != nil {
		w.watch.Rejected()
	}
}

// observe tells of a batch that was taken off the queue.
func (w *Writer) observe(batch []*waiter) {
	if w.watch == nil {
		return
	}
	now := time.Now()
	w.watch.Batch(len(batch))
	for _, b := range batch {
		w.watch.Waited(now.Sub(b.since))
	}
}

// Waiting returns how many entries are in the queue.
func (w *Writer) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.entries
}

// Close takes no more submissions, commits those that wait, and returns when
// all of them have their answer or ctx has ended.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.turn.Broadcast()
	w.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain the write queue: %w", context.Cause(ctx))
	}
}

// run is a lane: it commits batches until the Writer is closed and nothing waits.
func (w *Writer) run() {
	for {
		batch := w.next()
		if len(batch) == 0 {
			return
		}
		w.observe(batch)
		slow := time.AfterFunc(slowCommit, w.notBusy)
		ctx, ended := w.follow(batch)
		ended(w.commit(ctx, batch))
		if slow.Stop() {
			w.notBusy()
		}
	}
}

// follow returns the context of a commit: a batch belongs to many callers, and none of
// them can call it off.
func (w *Writer) follow(batch []*waiter) (commit context.Context, ended func(error)) {
	if w.trace == nil {
		return context.Background(), func(error) {}
	}
	requests := make([]context.Context, len(batch))
	for i, b := range batch {
		requests[i] = b.ctx
	}
	return w.trace.Batch(requests)
}

// next waits for a batch; an empty one is the end.
func (w *Writer) next() []*waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && (w.queue.entries == 0 || w.busy > 0 && w.queue.entries < worthALane && !w.limits.OneTenant) {
		w.turn.Wait()
	}
	batch := w.queue.take(w.limits.BatchEntries, w.limits.BatchBytes, w.limits.OneTenant)
	if len(batch) > 0 {
		w.busy++
	}
	return batch
}

// notBusy is called once for each batch: when it is done, or takes long.
func (w *Writer) notBusy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	w.turn.Signal()
}

// commit records a batch and answers its waiters. A batch that the store cannot
// take is recorded entry by entry, so that a bad one fails alone. It returns why the
// batch was not recorded as one.
func (w *Writer) commit(ctx context.Context, batch []*waiter) error {
	drafts := make([]*atrium.Draft, len(batch))
	for i, b := range batch {
		if b.draft.ID == "" {
			b.draft.ID = atrium.NewID[atrium.EntryID]()
		}
		drafts[i] = b.draft
	}
	outcomes, err := w.append(ctx, drafts)
	switch {
	case err == nil:
		for i, b := range batch {
			b.answer <- outcomes[i]
		}
	case len(batch) > 1 && atrium.CodeOf(err) != atrium.CodeUnavailable:
		w.log.Error("a batch failed; its entries are tried one by one", "entries", len(batch), "error", err)
		for _, b := range batch {
			_ = w.commit(ctx, []*waiter{b}) // which has told its waiter
		}
	default:
		for _, b := range batch {
			b.answer <- atrium.Outcome{Err: err}
		}
	}
	return err
}

// append calls the store. A panic ends no one else's work.
func (w *Writer) append(ctx context.Context, drafts []*atrium.Draft) (outcomes []atrium.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while entries were stored: %v", p)
		}
	}()
	return w.store.Append(ctx, drafts)
}
