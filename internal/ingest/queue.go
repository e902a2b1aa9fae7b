package ingest

import "atrium"

// A queue holds what waits, in the order of arrival for each tenant. Its user
// holds the lock.
type queue struct {
	tenants map[atrium.TenantID]*line
	turns   []*line // the lines that are not empty, the next one to serve first
	entries int
	bytes   int
}

// A line is what waits for one tenant.
type line struct {
	tenant  atrium.TenantID
	waiters []*waiter
	bytes   int // of the waiters
}

func newQueue() queue { return queue{tenants: map[atrium.TenantID]*line{}} }

func (q *queue) push(w *waiter) {
	l := q.tenants[w.draft.TenantID]
	if l == nil {
		l = &line{tenant: w.draft.TenantID}
		q.tenants[l.tenant] = l
		q.turns = append(q.turns, l)
	}
	l.waiters = append(l.waiters, w)
	q.count(l, w, 1)
}

func (q *queue) count(l *line, w *waiter, sign int) {
	q.entries += sign
	q.bytes += sign * w.draft.Size()
	l.bytes += sign * w.draft.Size()
}

// take removes up to so many entries of about so many bytes, at least one if
// there is one: the oldest of each tenant in turn, or of the one whose turn it is
// alone.
func (q *queue) take(entries, bytes int, oneTenant bool) (batch []*waiter) {
	taken := 0
	for len(q.turns) > 0 && len(batch) < entries {
		l := q.turns[0]
		if oneTenant && len(batch) > 0 && batch[0].draft.TenantID != l.tenant {
			break
		}
		w := l.waiters[0]
		if taken += w.draft.Size(); taken > bytes && len(batch) > 0 {
			break
		}
		batch = append(batch, w)
		l.waiters[0] = nil
		l.waiters = l.waiters[1:]
		q.count(l, w, -1)
		switch {
		case len(l.waiters) == 0:
			q.turns = q.turns[1:]
			delete(q.tenants, l.tenant)
		case !oneTenant:
			q.turns = append(q.turns[1:], l)
		}
	}
	if oneTenant && len(q.turns) > 0 && len(batch) > 0 && batch[0].draft.TenantID == q.turns[0].tenant {
		q.turns = append(q.turns[1:], q.turns[0]) // the others come first now
	}
	return batch
}

// A measure says how much of the queue a tenant takes: the one that has run out.
type measure int

const (
	byEntries measure = iota
	byBytes
)

func (m measure) of(l *line) int {
	switch {
	case l == nil:
		return 0
	case m == byBytes:
		return l.bytes
	}
	return len(l.waiters)
}

func (m measure) ofOne(w *waiter) int {
	if m == byBytes {
		return w.draft.Size()
	}
	return 1
}

// dropFor removes and returns the newest entry of the tenant that takes most of the
// queue, to make room for a new one. It returns nil if that would leave that tenant with
// less than the tenant of the new one has then.
func (q *queue) dropFor(newest *waiter, m measure) *waiter {
	var largest *line
	for _, l := range q.turns {
		if largest == nil || m.of(l) > m.of(largest) {
			largest = l
		}
	}
	if largest == nil {
		return nil
	}
	last := len(largest.waiters) - 1
	w := largest.waiters[last]
	if m.of(largest)-m.ofOne(w) < m.of(q.tenants[newest.draft.TenantID])+m.ofOne(newest) || last == 0 {
		return nil
	}
	largest.waiters[last] = nil
	largest.waiters = largest.waiters[:last]
	q.count(largest, w, -1)
	return w
}
