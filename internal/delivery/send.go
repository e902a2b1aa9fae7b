package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/webhook"
)

// endpointOf returns the endpoint of a webhook. Secrets that have expired do not sign.
func endpointOf(w *store.LeasedWebhook, now time.Time) (webhook.Endpoint, error) {
	e := webhook.Endpoint{URL: w.URL, Format: webhook.Format(w.Format)}
	for i := len(w.Secrets) - 1; i >= 0; i-- { // newest first
		v := &w.Secrets[i]
		switch {
		case v.ExpiresAt != nil && *v.ExpiresAt <= atrium.At(now):
		case v.Kind == atrium.SecretSigning:
			e.Secrets = append(e.Secrets, v.Value)
		case v.Kind == atrium.SecretHeaders:
			if err := json.Unmarshal(v.Value, &e.Headers); err != nil {
				return e, fmt.Errorf("decode the headers of webhook %s: %w", w.ID, err)
			}
		}
	}
	return e, nil
}

// startable reports whether an item may be sent as soon as the pace allows it.
func (s *session) startable() bool {
	return s.inFlight < s.pace.allowed && s.next(false) != nil
}

// start sends what may be sent now.
func (s *session) start() {
	s.forgetOld()
	for !s.stopping && !s.lost && s.selection != nil {
		now := time.Now()
		if now.Before(s.storeRetryAt) || s.inFlight >= s.pace.allowed || s.pace.nextStart(now).After(now) {
			return
		}
		it := s.next(true)
		if it == nil {
			return
		}
		s.pace.started(now)
		it.sent = true
		s.handling[it.delivery.Position] = true
		if s.webhook.Ordered && it.delivery.Subject != "" {
			s.busy[it.delivery.Subject] = true
		}
		s.inFlight++
		s.lastWork = now
		go s.send(it, s.endpoint)
	}
}

// next returns the item that is sent next, nil for none. Retries and events of the feed take turns. If take is set, a retry is
// removed from the list.
func (s *session) next(take bool) *item {
	for range 2 {
		if s.preferDue {
			for i, it := range s.retries {
				if s.busy[it.delivery.Subject] {
					continue
				}
				if take {
					s.retries = append(s.retries[:i:i], s.retries[i+1:]...)
					s.preferDue = false
				}
				return it
			}
		} else if it := s.nextLive(); it != nil {
			if take {
				s.preferDue = true
			}
			return it
		}
		s.preferDue = !s.preferDue
	}
	return nil
}

// nextLive returns the first event of the feed that may be sent: if the webhook is ordered, none of its subject is before it.
func (s *session) nextLive() *item {
	var before map[string]bool
	for _, it := range s.live {
		if it.done {
			continue
		}
		subject := it.delivery.Subject
		if !it.sent && (!s.webhook.Ordered || subject == "" || !s.busy[subject] && !before[subject]) {
			return it
		}
		if s.webhook.Ordered {
			if before == nil {
				before = map[string]bool{}
			}
			before[subject] = true
		}
	}
	return nil
}

// startDelay returns how long a request waits: the rate of a tenant's requests is limited while others use the process.
func (s *session) startDelay(body int) time.Duration {
	if !s.dispatcher.othersActive(s.lease.TenantID) {
		return 0
	}
	return s.tenant.reserveStart(time.Now(), requestInterval, body)
}

// send sends an item, which it passes to results with its attempt.
func (s *session) send(it *item, e webhook.Endpoint) {
	defer func() { s.results <- it }()
	if wait := s.startDelay(len(it.body)); wait > 0 {
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			it.attempt = webhook.Attempt{Result: webhook.Canceled}
			return
		}
	}
	if s.dispatcher.requests.Acquire(s.ctx, s.lease.TenantID) != nil {
		it.attempt = webhook.Attempt{Result: webhook.Canceled}
		return
	}
	defer s.dispatcher.requests.Release(s.lease.TenantID)
	if time.Now().UnixMicro() > s.leaseEnd.Load() { // another node may deliver now
		it.attempt = webhook.Attempt{Result: webhook.Canceled}
		return
	}
	it.began = s.config.Store.Now()
	if s.config.AcquireHeavy != nil {
		e.AcquireHeavy = func(ctx context.Context) (func(), error) { return s.config.AcquireHeavy(ctx, s.lease.TenantID) }
	}
	it.attempt = s.config.Sender.Send(s.ctx, e, webhook.Message{ID: string(it.delivery.EventID), Body: it.body}, it.began)
	if n := moreRequests(&it.attempt); n > 0 && s.dispatcher.othersActive(s.lease.TenantID) {
		s.tenant.charge(n, requestInterval)
	}
}

// moreRequests returns how many more requests an attempt counts as.
func moreRequests(a *webhook.Attempt) int {
	n := int(max(0, a.Received-freeReceived) / receivedPerRequest)
	if a.Handshake {
		n += handshakeRequests
	}
	return n
}

// handleResult handles the attempt of an item, or that it was canceled.
func (s *session) handleResult(it *item) {
	s.inFlight--
	now := time.Now()
	s.lastWork = now
	d, a := &it.delivery, &it.attempt
	if s.webhook.Ordered && d.Subject != "" {
		delete(s.busy, d.Subject)
	}
	if a.Result == webhook.Canceled { // it is due as before
		it.sent = false
		delete(s.handling, d.Position)
		return
	}
	if s.config.Observe != nil {
		s.config.Observe.Attempted(string(a.Failure), a.Duration)
	}
	ended := s.config.Store.Now()
	d.Attempts++
	d.Status, d.Error, d.Latency, d.NextAt = a.Status, a.Detail, a.Duration, nil
	attempt := &atrium.Attempt{
		Number: d.Attempts, At: atrium.At(it.began), Duration: a.Duration, Status: a.Status, Error: a.Detail, Response: a.BodyPrefix,
	}
	if a.Result == webhook.Succeeded {
		s.pace.succeeded()
		d.State, d.Error = atrium.DeliverySucceeded, ""
	} else {
		s.pace.failed(now, a.ThrottledFor())
		if next, more := s.timing.next(int(d.Attempts-d.Earlier), ended, a.RetryAfter); more {
			at := atrium.At(next)
			d.State, d.NextAt = atrium.DeliveryPending, &at
		} else {
			d.State = atrium.DeliveryFailed
		}
		s.backOff(now)
	}
	s.addOutcome(it, store.Outcome{Attempt: attempt, Gone: a.Result == webhook.Gone})
	if d.State == atrium.DeliveryPending {
		s.parkBehind(it)
	}
	s.advance()
}

// backOff ends the session if the endpoint keeps failing or wants no requests for a time.
func (s *session) backOff(now time.Time) {
	if s.pace.failures >= maxConsecutiveFailures {
		failing := time.Duration(0)
		if since := s.webhook.FailingSince; since != nil {
			failing = s.config.Store.Now().Sub(since.Std())
		}
		s.stop(now.Add(s.timing.backoff(failing)))
	}
	if wait := s.pace.retryAt.Sub(now); wait > s.timing.poll {
		s.stop(now.Add(min(wait, s.timing.maxPause)))
	}
}

// addOutcome adds the outcome of an item to those that are to be stored.
func (s *session) addOutcome(it *item, o store.Outcome) {
	d := &it.delivery
	at := atrium.At(s.config.Store.Now())
	if !it.stored {
		d.CreatedAt = at
	}
	switch d.State {
	case atrium.DeliveryPending, atrium.DeliveryWaiting:
		if s.webhook.Ordered && d.Subject != "" {
			s.held[d.Subject]++
		}
	default:
		d.FinishedAt = &at
		d.NextAt = nil
	}
	it.sent, it.done = true, true
	s.handling[d.Position] = true
	if len(s.pending.Outcomes) == 0 {
		s.pendingSince = time.Now()
	}
	o.Delivery, o.Stored = *d, it.stored
	s.pending.Outcomes = append(s.pending.Outcomes, o)
	it.body = nil
}

// cancel ends a delivery without a request.
func (s *session) cancel(it *item, why string) {
	it.delivery.State, it.delivery.Error = atrium.DeliveryCanceled, why
	s.addOutcome(it, store.Outcome{})
}

// park lets an event wait until the earlier deliveries of its subject have finished.
func (s *session) park(it *item) {
	it.delivery.State, it.delivery.NextAt = atrium.DeliveryWaiting, nil
	s.addOutcome(it, store.Outcome{})
}

// parkBehind parks the events that were read after an item of the same subject, which is to be sent again.
func (s *session) parkBehind(it *item) {
	if !s.webhook.Ordered || it.delivery.Subject == "" {
		return
	}
	for _, other := range s.live {
		if other != it && !other.sent && other.delivery.Subject == it.delivery.Subject {
			s.park(other)
		}
	}
}

// mustFlush reports whether results are to be stored now.
func (s *session) mustFlush() bool {
	if s.lost || time.Now().Before(s.storeRetryAt) {
		return false
	}
	if s.storing != nil {
		return !s.recording // the last call has failed
	}
	n := len(s.pending.Outcomes)
	return n >= maxOutcomes || n > 0 && (s.inFlight == 0 && !s.startable() || time.Since(s.pendingSince) >= s.timing.flush) ||
		s.pending.Cursor-s.cursor >= skippedEvents
}

// nextBatch moves pending results to storing, up to maxOutcomes.
func (s *session) nextBatch() {
	results := s.pending
	s.batchNumber++
	results.Number = s.batchNumber
	if n := len(results.Outcomes); n > maxOutcomes {
		results.Outcomes, results.Cursor = results.Outcomes[:maxOutcomes:maxOutcomes], s.cursor // the others may be before the cursor
	}
	s.storing = &results
	s.pending.Lost, s.pending.FilterFaults, s.pending.Outcomes = 0, 0, slices.Clone(s.pending.Outcomes[len(results.Outcomes):])
	s.pendingSince = time.Now()
}

// A recording is the outcome of storing results.
type recording struct {
	state store.LeaseState
	err   error
}

// flush begins to store results, unless it does already. If the last call has failed, it stores the same ones: they may be
// stored already. Requests continue in the meantime.
func (s *session) flush() {
	if s.recording {
		return
	}
	if s.storing == nil {
		s.nextBatch()
	}
	s.recording = true
	results := s.storing
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.timing.lease) // also when the process is to end
		defer cancel()
		select {
		case s.tenant.storing <- struct{}{}:
			defer func() { <-s.tenant.storing }()
		case <-ctx.Done():
			s.recordings <- recording{err: context.Cause(ctx)}
			return
		}
		state, err := s.config.Store.RecordResults(ctx, s.lease, *results)
		s.recordings <- recording{state, err}
	}()
}

// handleRecorded handles the end of a flush.
func (s *session) handleRecorded(r recording) {
	s.recording = false
	if r.err != nil {
		s.failed("store results", r.err)
		return
	}
	results, state := s.storing, r.state
	s.storing = nil
	stored := map[int64]bool{}
	for i := range results.Outcomes {
		d := &results.Outcomes[i].Delivery
		stored[d.Position] = true
		delete(s.handling, d.Position)
		s.recorded = max(s.recorded, d.Position)
		if d.FinishedAt == nil && s.held[d.Subject] > 0 {
			if s.held[d.Subject]--; s.held[d.Subject] == 0 {
				delete(s.held, d.Subject)
			}
		}
		if d.FinishedAt != nil && s.config.Observe != nil {
			s.config.Observe.Finished(d.State)
		}
		if d.NextAt != nil { // it may be due soon
			s.dueAt = earlier(s.dueAt, time.Now().Add(d.NextAt.Std().Sub(s.config.Store.Now())))
		}
	}
	live := s.live[:0]
	for _, it := range s.live {
		if !it.done || !stored[it.delivery.Position] {
			live = append(live, it)
		}
	}
	clear(s.live[len(live):])
	s.live = live
	s.cursor = max(s.cursor, results.Cursor)
	if state.Disabled != "" {
		s.config.Log.Warn("a webhook was disabled", "webhook", s.lease.WebhookID, "reason", state.Disabled)
		if s.config.Observe != nil {
			s.config.Observe.Disabled(state.Disabled)
		}
	}
	if s.webhook.Ordered {
		s.dueAt = time.Time{} // others of the subjects may follow
	}
	s.applyState(state)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
