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
	q.count(w, 1)
}

func (q *queue) count(w *waiter, sign int) {
	q.entries += sign
	q.bytes += sign * w.draft.Size()
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
		q.count(w, -1)
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

// dropFromLongest removes and returns the newest entry of the tenant that waits
// with most, to make room for one of the given tenant. It returns nil if that
// would leave the other with fewer than the tenant has then.
func (q *queue) dropFromLongest(tenant atrium.TenantID) *waiter {
	own := 0
	if l := q.tenants[tenant]; l != nil {
		own = len(l.waiters)
	}
	var longest *line
	for _, l := range q.turns {
		if longest == nil || len(l.waiters) > len(longest.waiters) {
			longest = l
		}
	}
	if longest == nil || len(longest.waiters) < own+2 {
		return nil
	}
	last := len(longest.waiters) - 1
	w := longest.waiters[last]
	longest.waiters[last] = nil
	longest.waiters = longest.waiters[:last]
	q.count(w, -1)
	return w
}
