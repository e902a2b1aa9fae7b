package delivery

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/webhook"
)

// fill reads events and due deliveries, if there is room for more.
func (s *session) fill() {
	now := time.Now()
	if s.stopping || s.lost || s.webhook.ID == "" || now.Before(s.storeRetryAt) || !s.mayReadDue(now) && !s.mayRead() && !s.mayReplay(now) {
		return
	}
	release, ok := s.acquireHeavy()
	if !ok {
		return
	}
	defer release()
	if s.selection == nil {
		s.selection = NewSelection(&s.webhook.Webhook)
	}
	if s.mayReadDue(now) {
		if err := s.readDue(now); err != nil {
			s.failed("read due deliveries", err)
			return
		}
	}
	if s.mayRead() {
		if err := s.readFeed(); err != nil {
			s.failed("read events", err)
			return
		}
	}
	if s.mayReplay(now) {
		if err := s.continueReplay(now); err != nil {
			s.failed("replay events", err)
		}
	}
}

// acquireHeavy waits until the tenant may use a processor. Reading, encoding and selecting events costs more than a small
// request, and a filter much more. ok is false if others have all: the session must look after its lease.
func (s *session) acquireHeavy() (release func(), ok bool) {
	if s.config.AcquireHeavy == nil {
		return func() {}, true
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.timing.lease/4)
	defer cancel()
	release, err := s.config.AcquireHeavy(ctx, s.lease.TenantID)
	return release, err == nil
}

// mayReadDue, mayRead and mayReplay report whether there may be more due deliveries, events, or events of a replay, and
// there is room for them.
func (s *session) mayReadDue(now time.Time) bool { return len(s.retries) == 0 && !now.Before(s.dueAt) }

func (s *session) mayRead() bool {
	if s.stopping || s.lost || s.webhook.ID == "" || s.atEnd || len(s.live) >= maxLive {
		return false
	}
	unsent, bytes := 0, 0
	for _, it := range s.live {
		if !it.sent {
			unsent++
		}
		bytes += len(it.body)
	}
	return unsent < windowEvents/2 && bytes < maxLiveBytes
}

func (s *session) mayReplay(now time.Time) bool {
	return s.replay != "" && len(s.retries) == 0 && s.dueAt.After(now) && !now.Before(s.replayAt)
}

// readFeed reads the next events of the feed.
func (s *session) readFeed() error {
	events, err := s.config.Store.Events(s.ctx, s.lease.TenantID, s.readTo, s.window)
	if expired, ok := errors.AsType[*atrium.ExpiredEventsError](err); ok {
		lost := expired.Missing()
		s.pending.Lost += lost
		s.readTo = expired.Oldest - 1
		s.advance()
		if lost == 0 { // there are none between both positions, or an unknown number before a restore
			return nil
		}
		s.config.Log.Warn("events expired before a webhook reached them", "webhook", s.lease.WebhookID, "events", lost)
		if s.config.Observe != nil {
			s.config.Observe.Lost(lost)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if len(events) == 0 {
		s.atEnd = true
		s.advance()
		return nil
	}
	last := events[len(events)-1]
	stored := map[int64]bool{}
	if events[0].Position <= s.recorded {
		if stored, err = s.config.Store.RecordedPositions(s.ctx, s.lease, events[0].Position, last.Position, len(events)); err != nil {
			return err
		}
	}
	items, n, faults, err := s.selectItems(events, func(position int64) bool { return stored[position] || s.handling[position] })
	if err != nil {
		return err
	}
	last = events[n-1]
	if s.window = min(2*s.window, windowEvents); n < len(events) {
		s.window = n
	}
	waiting, err := s.unfinished(items)
	if err != nil {
		return err
	}
	s.pending.FilterFaults += faults
	for _, it := range items {
		s.live = append(s.live, it)
		switch d := &it.delivery; {
		case it.body == nil:
			s.cancel(it, "the data of the event was erased")
		case waiting[d.Subject] || s.held[d.Subject] > 0 && s.webhook.Ordered:
			s.park(it)
		}
	}
	slices.SortFunc(s.live, func(a, b *item) int { return cmp.Compare(a.delivery.Position, b.delivery.Position) }) // some may have been read again
	s.readTo, s.readAt, s.lastWork = last.Position, last.At, time.Now()
	s.advance()
	return nil
}

// selectItems returns those of the first n events that the webhook selects, without those that are known. The body of an erased
// one is nil. n is at least 1, and less than all if the selection takes long.
func (s *session) selectItems(events []atrium.Event, known func(position int64) bool) (items []*item, n int, faults int64, err error) {
	began := time.Now()
	for i := range events {
		if i > 0 && time.Since(began) > selectTime {
			break
		}
		e := &events[i]
		n++
		if known(e.Position) {
			continue
		}
		var event []byte
		if !e.Erased {
			if event, err = s.config.Encode(e); err != nil {
				return nil, 0, 0, err
			}
		}
		selected, faulty := s.selection.Selects(e, event)
		if !selected {
			continue
		}
		if faulty {
			faults++
		}
		it := &item{at: e.At, read: time.Now(), delivery: atrium.Delivery{
			EventID: e.ID, Position: e.Position, Type: e.Type, Subject: subjectOf(e), EntryID: e.EntryID, State: atrium.DeliveryPending,
		}}
		if event != nil {
			if it.body, err = webhook.Body(s.endpoint.Format, event); err != nil {
				return nil, 0, 0, err
			}
		}
		items = append(items, it)
	}
	return items, n, faults, nil
}

// unfinished returns the subjects of items that have an unfinished delivery in the store, if the webhook is ordered.
func (s *session) unfinished(items []*item) (map[string]bool, error) {
	if !s.webhook.Ordered {
		return nil, nil
	}
	var subjects []string
	seen := map[string]bool{}
	for _, it := range items {
		if subject := it.delivery.Subject; subject != "" && !seen[subject] {
			seen[subject] = true
			subjects = append(subjects, subject)
		}
	}
	return s.config.Store.UnfinishedSubjects(s.ctx, s.lease, subjects)
}

// readDue reads deliveries whose next attempt is due.
func (s *session) readDue(now time.Time) error {
	// Those that are handled are due as long as their outcomes are not stored.
	due, err := s.config.Store.DueDeliveries(s.ctx, s.lease, dueLimit+len(s.handling))
	if err != nil {
		return err
	}
	due = slices.DeleteFunc(due, func(d atrium.Delivery) bool { return s.handling[d.Position] })
	if due = due[:min(len(due), dueLimit)]; len(due) == 0 {
		s.dueAt = now.Add(s.timing.poll)
		return nil
	}
	positions := make([]int64, len(due))
	for i := range due {
		positions[i] = due[i].Position
	}
	events, err := s.config.Store.EventsAt(s.ctx, s.lease.TenantID, positions)
	if err != nil {
		return err
	}
	last := int64(math.MaxInt64) // no event is stored any longer
	byPosition := map[int64]*atrium.Event{}
	for i := range events { // in order; if their contents are large, the last ones are read the next time
		last = events[i].Position
		byPosition[last] = &events[i]
	}
	complete := len(due) < dueLimit
	for i := range due {
		if due[i].Position > last {
			complete = false
		} else if err := s.addRetry(&due[i], byPosition[due[i].Position]); err != nil {
			return err
		}
	}
	s.lastWork = now
	if complete {
		s.dueAt = now.Add(s.timing.poll)
	}
	return nil
}

// addRetry adds a delivery that is due to those that are sent. e is its event, nil if that has expired.
func (s *session) addRetry(d *atrium.Delivery, e *atrium.Event) error {
	it := &item{delivery: *d, read: time.Now(), stored: true}
	switch {
	case e == nil:
		s.cancel(it, "the event has expired")
		return nil
	case e.Erased:
		s.cancel(it, "the data of the event was erased")
		return nil
	}
	it.at = e.At
	event, err := s.config.Encode(e)
	if err != nil {
		return err
	}
	if it.body, err = webhook.Body(s.endpoint.Format, event); err != nil {
		return err
	}
	s.retries = append(s.retries, it)
	return nil
}

// maxReplayStep is how many events one step of a replay reads.
const maxReplayStep = 100

// continueReplay schedules the next events of a replay, as many as its rate allows in the time between two steps.
func (s *session) continueReplay(now time.Time) error {
	r, err := s.config.Store.Replay(s.ctx, s.lease.TenantID, s.lease.WebhookID, s.replay)
	if err != nil {
		return err
	}
	if r.FinishedAt != nil {
		s.replay = ""
		return nil
	}
	step := min(max(1, r.Rate), maxReplayStep)
	events, err := s.config.Store.Events(s.ctx, s.lease.TenantID, r.Cursor, int(step))
	cursor := r.To // if there are no events
	if expired, ok := errors.AsType[*atrium.ExpiredEventsError](err); ok {
		events, err = nil, nil
		cursor = min(r.To, expired.Oldest-1)
	}
	if err != nil {
		return err
	}
	events = slices.DeleteFunc(events, func(e atrium.Event) bool { return e.Position > r.To })
	items, n, _, err := s.selectItems(events, func(position int64) bool { return s.handling[position] })
	if err != nil {
		return err
	}
	if n > 0 {
		cursor = events[n-1].Position
	}
	deliveries := make([]atrium.Delivery, len(items))
	for i, it := range items {
		deliveries[i] = it.delivery
	}
	if err := s.config.Store.ScheduleReplay(s.ctx, s.lease, r.ID, cursor, deliveries); err != nil {
		return err
	}
	s.lastWork, s.dueAt = now, time.Time{}
	s.replayAt = now.Add(time.Duration(float64(time.Second) * float64(step) / float64(max(1, r.Rate))))
	if cursor >= r.To {
		s.replay = ""
		s.polledAt = time.Time{} // another one may follow
	}
	return nil
}

// advance moves the cursor that is to be stored: up to the first event that has neither a delivery nor an outcome.
func (s *session) advance() {
	cursor := s.readTo
	behind := atrium.Time(0)
	for _, it := range s.live {
		if it.delivery.Position > cursor {
			break
		}
		if !it.done {
			cursor, behind = it.delivery.Position-1, it.at
			break
		}
	}
	s.pending.Cursor = max(s.pending.Cursor, cursor)
	if behind == 0 && !s.atEnd {
		behind = s.readAt
	}
	s.behind.Store(int64(behind))
	s.pending.BehindSince = nil
	if behind != 0 {
		s.pending.BehindSince = &behind
	}
}

var _ Store = (*store.Store)(nil)
