package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// Transactions do not commit in the order in which they begin, so they cannot number their events. They store them
// without a position, in event_outbox. A sequencer moves them from there to event_log, with consecutive positions. It locks the row of the tenant in event_feeds first, so that the
// sequencers of all nodes take turns: when a position is visible, so are all positions before it.

// Limits of one transaction of a sequencer.
const (
	sequenceRows  = 256
	sequenceBytes = 128 << 10 // of references; the row that exceeds it is included
)

var (
	insertLog = engine.NewBatch(`INSERT INTO event_log (tenant_id, first_position, last_position, at, refs)
		SELECT batch.tenant_id, first_position, last_position, at, refs FROM batch`,
		"tenant_id bytea", "first_position bigint", "last_position bigint", "at bigint", "refs bytea")
	deleteOutbox = engine.NewBatch(`DELETE FROM event_outbox USING batch
		WHERE event_outbox.tenant_id = batch.tenant_id AND event_outbox.at = batch.at AND event_outbox.outbox_id = batch.outbox_id`,
		"tenant_id bytea", "at bigint", "outbox_id bytea")
)

// SequenceEvents gives positions to events of a tenant, oldest first, in one transaction. It reports whether
// there may be more.
func (s *Store) SequenceEvents(ctx context.Context, tenant atrium.TenantID) (more bool, err error) {
	_, more, err = s.sequence(ctx, tenant)
	return more, err
}

// sequence is SequenceEvents. It also returns how many events it has given positions.
func (s *Store) sequence(ctx context.Context, tenant atrium.TenantID) (found int64, more bool, err error) {
	err = s.db.Write(engine.ForTenant(ctx, string(tenant)), func(tx engine.Tx) error {
		tx.Invalidate() // no cached response has events
		if err := kernel.RequireTenantIn(tx, tenant); err != nil {
			return err
		}
		next, err := LockHead(tx, tenant)
		if err != nil {
			return err
		}
		q, err := readOutbox(tx, tenant, next)
		if found, more = q.next-next, q.more; err != nil || found == 0 {
			return err
		}
		if err := tx.PipelineExec(insertLog, q.logged); err != nil {
			return err
		}
		if err := tx.PipelineExec(deleteOutbox, q.moved); err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE event_feeds SET next_position = $1 WHERE tenant_id = $2", q.next, kernel.IDArg(tenant)); err != nil {
			return err
		}
		if s.wake != nil {
			return s.wake(tx, tenant)
		}
		return nil
	})
	switch {
	case atrium.CodeOf(err) == atrium.CodeNotFound: // the tenant is being deleted
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case found > 0:
		s.sequenced.Add(found)
		s.changed(tenant)
	}
	return found, more, nil
}

// SequencedEvents returns how many events this process has given positions.
func (s *Store) SequencedEvents() int64 { return s.sequenced.Load() }

// A queue has rows of event_outbox as arguments of the statements that move them to event_log.
type queue struct {
	moved, logged []engine.Args // rows of deleteOutbox and insertLog
	next          int64         // position after the last one
	more          bool          // there may be more rows
}

// readOutbox reads the first rows of the outbox of a tenant. next is the next position of its feed.
func readOutbox(tx engine.Tx, tenant atrium.TenantID, next int64) (q queue, err error) {
	q.next = next
	id, bytes := kernel.IDArg(tenant), 0
	err = tx.Query("SELECT at, outbox_id, refs FROM event_outbox WHERE tenant_id = $1 ORDER BY at, outbox_id LIMIT $2", engine.Args{id, int64(sequenceRows)},
		func(r engine.Row) error {
			if bytes > sequenceBytes {
				return kernel.ErrPageFull
			}
			refs := r.Bytes(2)
			decoded, err := kernel.DecodeEventRefs(refs)
			if err != nil {
				return fmt.Errorf("sequence events of %s: %w", tenant, err)
			}
			at, last := r.Int(0), q.next+int64(len(decoded))-1
			q.moved = append(q.moved, engine.Args{id, at, r.Bytes(1)})
			q.logged = append(q.logged, engine.Args{id, q.next, last, at, refs})
			q.next, bytes = last+1, bytes+len(refs)
			return nil
		})
	q.more = len(q.moved) == sequenceRows || errors.Is(err, kernel.ErrPageFull)
	if errors.Is(err, kernel.ErrPageFull) {
		err = nil
	}
	return q, err
}

// A sweep looks for events of all tenants that other processes have left without a position.
type sweep struct {
	mu     sync.Mutex      // held by RunSequencer
	after  atrium.TenantID // the last tenant that was looked at; guarded by mu
	at     time.Time       // when it was; guarded by mu
	oldest atrium.Time     // of the events that this pass has found; 0 for none; guarded by mu

	unsequenced atomic.Int64 // oldest of the last complete pass
}

// sweepInterval is the interval between the steps of a sweep.
const sweepInterval = time.Second

var oldestUnsequenced = engine.NewBatch(`SELECT batch.tenant_id, (SELECT MIN(o.at) FROM event_outbox o WHERE o.tenant_id = batch.tenant_id)
	FROM batch`, "tenant_id bytea")

// RunSequencer gives positions to the events of tenants: of those for which this process has stored events, as
// soon as it has, and of those for which it finds some that others have left. It waits for events for up to
// a second, and then makes one transaction for each tenant. more reports whether a tenant may have more. If a tenant
// fails, it continues with the others and returns the first error.
//
// Call it again at once if there is more. Otherwise, call it some milliseconds later, so that commits are shared.
func (s *Store) RunSequencer(ctx context.Context) (more bool, err error) {
	s.sweep.mu.Lock()
	defer s.sweep.mu.Unlock()
	if wait := sweepInterval - time.Since(s.sweep.at); wait <= 0 {
		s.sweep.at = time.Now()
		err = s.sweepOutbox(ctx)
	}
	tenants := s.db.Events.Take(ctx, max(0, sweepInterval-time.Since(s.sweep.at)))
	began := time.Now()
	for _, tenant := range tenants {
		found, left, tenantErr := s.sequence(ctx, tenant)
		err = cmp.Or(err, tenantErr)
		if left {
			s.db.Events.Add(tenant)
			more = true
			continue
		}
		// Other transactions of the tenant wait for each of these commits, so the events after many are batched.
		s.db.Events.Cooldown(tenant, min(time.Duration(found)*cooldownPerEvent, maxCooldown))
	}
	if !s.db.Engine.Traits().Remote { // all transactions wait for the one writer: leave half of its time to them
		select {
		case <-ctx.Done():
		case <-time.After(min(time.Since(began), maxCooldown)):
		}
	}
	return more, err
}

// How long a sequencer skips a tenant after each event that it has sequenced, and at most.
const (
	cooldownPerEvent = time.Millisecond
	maxCooldown      = 100 * time.Millisecond
)

// sweepOutbox adds to the pending tenants those of the next ones whose outboxes have events.
func (s *Store) sweepOutbox(ctx context.Context) error {
	sw := &s.sweep
	rows, next, err := s.db.Sweep(ctx, sw.after)
	if err != nil {
		return err
	}
	if sw.after == "" {
		sw.oldest = 0
	}
	if err := s.db.Read(ctx, func(tx engine.Tx) error {
		_, err := tx.Batch(oldestUnsequenced, rows, func(r engine.Row) error {
			if !r.Null(1) {
				s.db.Events.Add(kernel.IDAt[atrium.TenantID](r, 0))
				if at := atrium.Time(r.Int(1)); sw.oldest == 0 || at < sw.oldest {
					sw.oldest = at
				}
			}
			return nil
		})
		return err
	}); err != nil {
		return err
	}
	if sw.after = next; next == "" {
		sw.unsequenced.Store(int64(sw.oldest))
	}
	return nil
}

// UnsequencedAge returns the age of the oldest event without a position that the last complete pass over all
// tenants has found, 0 if there was none.
func (s *Store) UnsequencedAge() time.Duration {
	at := atrium.Time(s.sweep.unsequenced.Load())
	if at == 0 {
		return 0
	}
	return max(0, s.db.Now().Sub(at.Std()))
}
