package delivery

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/webhook"
)

// A session delivers for one webhook, as long as it has the lease.
//
// The goroutine of run owns all fields. Others use only what does not change after the start (dispatcher, config, timing, lease,
// tenant and ctx), the channels results and recordings, and the atomic leaseEnd and behind. The goroutine that sends an item sets its
// began and attempt. A flush reads storing, which does not change in the meantime.
type session struct {
	dispatcher *Dispatcher
	config     *Config
	timing     *timing
	lease      store.Lease
	tenant     *tenantDeliveries
	ctx        context.Context // of reads and requests; ends when the process must
	began      time.Time

	webhook   store.LeasedWebhook
	endpoint  webhook.Endpoint
	selection *Selection      // nil until fill has compiled it
	replay    atrium.ReplayID // that runs, "" for none

	// The feed. Events up to readTo were read. Those among them that are selected and not stored yet are in live, in order.
	readTo    int64
	readAt    atrium.Time // time of the last event that was read
	atEnd     bool        // nothing follows readTo, as of the last read
	window    int         // how many events it reads at once: fewer if their selection takes long
	live      []*item
	retries   []*item         // stored deliveries that are due and not sent yet
	handling  map[int64]bool  // positions that are in flight, or have an outcome that is not stored yet
	recorded  int64           // deliveries may be stored up to this position
	held      map[string]int  // ordered: outcomes by subject that are not stored yet and leave a delivery unfinished
	busy      map[string]bool // ordered: subjects with a request in flight
	inFlight  int
	results   chan *item // sent, with their attempts
	pace      pace
	preferDue bool // a retry is the next to be sent, if there is one

	// What is to be stored.
	pending      store.Results
	storing      *store.Results // that may be stored already, nil for none
	recording    bool           // flush is running
	recordings   chan recording // the outcome of flush
	batchNumber  int64          // of the last results that were passed to flush
	cursor       int64          // as stored
	pendingSince time.Time      // when the first of the pending outcomes became known

	lastWork     time.Time
	polledAt     time.Time // when the state of the webhook was last read
	renewed      time.Time
	dueAt        time.Time // when to read due deliveries again
	replayAt     time.Time // when to continue a replay
	storeRetryAt time.Time // after an error of the store: when to call it again
	changed      <-chan struct{}
	stopping     bool // no more requests
	disabled     bool
	releaseAt    *time.Time   // when the webhook is due again after the session
	leaseEnd     atomic.Int64 // local time in microseconds after which no request begins
	lost         bool         // the lease is lost, or the process must end: nothing more is stored

	behind atomic.Int64 // time of the first event that is not stored, 0 for none
}

// An item is an event for the webhook.
type item struct {
	delivery atrium.Delivery
	body     []byte
	at       atrium.Time // of the event
	read     time.Time
	stored   bool // the delivery was read from the store
	sent     bool // in flight, or done
	done     bool // has an outcome, which is not stored yet
	attempt  webhook.Attempt
	began    time.Time
}

func (d *Dispatcher) newSession(lease store.Lease) *session {
	d.mu.Lock()
	tenant := d.tenants[lease.TenantID]
	d.mu.Unlock()
	now := time.Now()
	s := &session{
		dispatcher: d, config: &d.config, timing: &d.timing, lease: lease, tenant: tenant, began: now, renewed: now, lastWork: now, window: windowEvents, handling: map[int64]bool{}, held: map[string]int{},
		busy: map[string]bool{}, results: make(chan *item, maxConcurrency), recordings: make(chan recording, 1),
	}
	s.leaseEnd.Store(now.Add(d.timing.lease).UnixMicro())
	return s
}

// run delivers until there is nothing to do, the lease is lost or ctx ends, and releases the lease. Requests in flight may end
// until drain does.
func (s *session) run(ctx, drain context.Context) {
	s.ctx = drain
	if err := s.load(); err != nil {
		s.failed("read a webhook", err)
	}
	for !s.lost {
		s.stopping = s.stopping || ctx.Err() != nil
		select {
		case <-s.changed:
			s.atEnd = false
		default:
		}
		s.changed = s.config.Store.EventsChanged(s.lease.TenantID) // before the feed is read
		s.poll()
		s.fill() //nolint:contextcheck // s.ctx is drain
		s.start()
		if s.mustFlush() {
			s.flush() //nolint:contextcheck // it stores results even when ctx has ended
		}
		if s.finished() && s.release() { //nolint:contextcheck // as flush
			return
		}
		s.wait(ctx, drain)
	}
	for s.inFlight > 0 { // their results cannot be stored
		<-s.results
		s.inFlight--
	}
	if s.recording {
		<-s.recordings
	}
}

// wait returns when there may be something to do.
func (s *session) wait(ctx, drain context.Context) {
	timer := time.NewTimer(s.untilWork())
	defer timer.Stop()
	stop := ctx.Done()
	if s.stopping {
		stop = drain.Done() // then those in flight end at once
		if drain.Err() != nil {
			stop = nil
		}
	}
	select {
	case it := <-s.results:
		s.handleResult(it)
		for len(s.results) > 0 {
			s.handleResult(<-s.results)
		}
	case r := <-s.recordings:
		s.handleRecorded(r)
	case <-s.changed:
		s.atEnd = false
	case <-stop:
	case <-timer.C:
	}
}

// untilWork returns the time until the session has to look at something, apart from results.
func (s *session) untilWork() time.Duration {
	now := time.Now()
	next := s.polledAt.Add(s.timing.poll)
	sooner := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	if s.unstored() && !s.recording {
		sooner(s.pendingSince.Add(s.timing.flush))
	}
	if s.mayRead() {
		sooner(now)
	}
	if s.idle() {
		sooner(s.lastWork.Add(s.timing.linger))
	}
	if !s.stopping && s.startable() {
		sooner(s.pace.nextStart(now))
	}
	if s.storeRetryAt.After(now) && next.Before(s.storeRetryAt) {
		next = s.storeRetryAt
	}
	return max(time.Millisecond, next.Sub(now))
}

// poll reads the state of the webhook and renews the lease, if it is time to.
func (s *session) poll() {
	now := time.Now()
	if now.Sub(s.polledAt) < s.timing.poll || now.Before(s.storeRetryAt) {
		return
	}
	s.polledAt, s.atEnd = now, false
	var state store.LeaseState
	var err error
	if now.Sub(s.renewed) >= s.timing.lease/3 {
		if state, err = s.config.Store.RenewLease(s.ctx, s.lease, s.timing.lease); err == nil {
			s.renewed = now
			s.leaseEnd.Store(now.Add(s.timing.lease).UnixMicro())
		}
	} else {
		state, err = s.config.Store.LeaseState(s.ctx, s.lease)
	}
	if err != nil {
		s.failed("renew the lease of a webhook", err)
		return
	}
	s.applyState(state)
	if s.endpoint, err = endpointOf(&s.webhook, s.config.Store.Now()); err != nil { // a secret may have expired
		s.failed("read a webhook", err)
	}
	if now.Sub(s.began) >= s.timing.slice && (s.dispatcher.crowded.Load() || s.tenant.crowded.Load()) {
		s.stop(now)
	}
}

// applyState applies changes of the webhook.
func (s *session) applyState(state store.LeaseState) {
	s.replay = state.Replay
	if !state.Enabled {
		s.disabled = true
		s.stop(time.Now())
		return
	}
	if state.UpdatedAt != s.webhook.UpdatedAt {
		if err := s.load(); err != nil {
			s.failed("read a webhook", err)
		}
	}
}

// load reads the webhook. Events that were read and not sent are read again: another selection may apply.
func (s *session) load() error {
	w, err := s.config.Store.LeasedWebhook(s.ctx, s.lease)
	if err != nil {
		return err
	}
	first := s.webhook.ID == ""
	s.webhook = w
	if !w.Enabled {
		s.disabled = true
		s.stop(time.Now())
		return nil
	}
	if w.KeyError != nil {
		s.config.Log.Error("the secrets of a webhook cannot be decrypted; its events wait", "webhook", w.ID, "error", w.KeyError)
		s.stop(time.Now().Add(s.timing.maxPause))
		return nil //nolint:nilerr // logged
	}
	if s.endpoint, err = endpointOf(&w, s.config.Store.Now()); err != nil {
		return err
	}
	s.selection = nil // until fill
	s.pace.limit(w.RateLimit)
	if first {
		s.cursor, s.readTo, s.recorded = w.Cursor, w.Cursor, w.Recorded
		s.pending.Cursor = w.Cursor
		s.pace.begin(w.FailingSince != nil)
		s.preferDue = w.FailingSince != nil
		return nil
	}
	s.forget()
	return nil
}

// forget drops the events that are not sent. They are read again.
func (s *session) forget() {
	kept := s.live[:0]
	for _, it := range s.live {
		if it.sent {
			kept = append(kept, it)
		} else {
			s.readTo, s.atEnd = min(s.readTo, it.delivery.Position-1), false
		}
	}
	clear(s.live[len(kept):])
	s.live, s.retries, s.dueAt = kept, nil, time.Time{}
}

// forgetOld forgets if an event was read long ago: its data may have been erased since.
func (s *session) forgetOld() {
	old := time.Now().Add(-s.timing.forget)
	isOld := func(it *item) bool { return !it.sent && it.read.Before(old) }
	if slices.ContainsFunc(s.live, isOld) || slices.ContainsFunc(s.retries, isOld) {
		s.forget()
	}
}

// stop makes the session end after the requests in flight. The webhook is then due at a time.
func (s *session) stop(at time.Time) {
	s.stopping = true
	if s.releaseAt == nil || at.After(*s.releaseAt) {
		s.releaseAt = &at
	}
}

// failed handles an error of the store. If the tenant or the lease is gone, the session ends without an error.
func (s *session) failed(what string, err error) {
	switch {
	case errors.Is(err, store.ErrLeaseLost), atrium.CodeOf(err) == atrium.CodeNotFound:
		s.lost = true
	case s.ctx.Err() != nil:
		s.lost = true // the process ends
	default:
		s.config.Log.Error("deliveries are delayed: "+what, "webhook", s.lease.WebhookID, "error", err)
		s.storeRetryAt = time.Now().Add(s.timing.storeRetry)
	}
}

// unstored reports whether there are outcomes that are not stored, as far as is known.
func (s *session) unstored() bool { return s.storing != nil || len(s.pending.Outcomes) > 0 }

// idle reports whether the session has no events, retries, requests or results left.
func (s *session) idle() bool {
	return s.atEnd && len(s.live) == 0 && len(s.retries) == 0 && s.inFlight == 0 && !s.unstored()
}

// finished reports whether the session may end.
func (s *session) finished() bool {
	if time.Now().Before(s.storeRetryAt) || s.lost {
		return false
	}
	if s.stopping {
		return s.inFlight == 0 && !s.unstored()
	}
	return s.idle() && s.replay == "" && time.Since(s.lastWork) >= s.timing.linger
}

// release ends the lease, and reports whether the session has ended. A session without work continues if the
// store has work for it after all.
func (s *session) release() bool {
	if s.pending.Cursor > s.cursor || s.pending.Lost > 0 || s.pending.FilterFaults > 0 {
		s.flush()
		if s.handleRecorded(<-s.recordings); s.lost || time.Now().Before(s.storeRetryAt) {
			return false
		}
	}
	if s.stopping {
		at := atrium.At(s.config.Store.Now())
		if s.releaseAt != nil {
			at = atrium.At(s.config.Store.Now().Add(time.Until(*s.releaseAt)))
		}
		// The process may have to end now: the lease would end only later.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.timing.lease)
		defer cancel()
		if err := s.config.Store.ReleaseWebhook(ctx, s.lease, at); err != nil {
			s.failed("release a webhook", err)
		}
		return true
	}
	ended, err := s.config.Store.IdleWebhook(s.ctx, s.lease)
	if err != nil {
		s.failed("release a webhook", err)
		return s.lost
	}
	if !ended {
		s.atEnd, s.dueAt, s.lastWork = false, time.Time{}, time.Now()
	}
	return ended
}
