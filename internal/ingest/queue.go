package ingest

import "atrium"

// A queue has the waiting entries, in FIFO order per tenant. It is guarded by the mutex of its
// Writer.
type queue struct {
	tenants map[atrium.TenantID]*tenantQueue
	order   []*tenantQueue // the nonempty queues, in the order of service
	entries int
	bytes   int
}

// A tenantQueue has the waiting entries of one tenant.
type tenantQueue struct {
	tenant  atrium.TenantID
	waiters []*waiter
	bytes   int // of the waiters
}

func newQueue() queue { return queue{tenants: map[atrium.TenantID]*tenantQueue{}} }

func (q *queue) push(w *waiter) {
	l := q.tenants[w.draft.TenantID]
	if l == nil {
		l = &tenantQueue{tenant: w.draft.TenantID}
		q.tenants[l.tenant] = l
		q.order = append(q.order, l)
	}
	l.waiters = append(l.waiters, w)
	q.count(l, w, 1)
}

func (q *queue) count(l *tenantQueue, w *waiter, sign int) {
	q.entries += sign
	q.bytes += sign * w.draft.Size()
	l.bytes += sign * w.draft.Size()
}

// take removes and returns a batch of up to the given entries and bytes, but at least one entry if
// there is one. It takes the oldest entry of each tenant in turn, or with oneTenant, only entries
// of the next tenant.
func (q *queue) take(entries, bytes int, oneTenant bool) (batch []*waiter) {
	taken := 0
	for len(q.order) > 0 && len(batch) < entries {
		l := q.order[0]
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
			q.order = q.order[1:]
			delete(q.tenants, l.tenant)
		case !oneTenant:
			q.order = append(q.order[1:], l)
		}
	}
	if oneTenant && len(q.order) > 0 && len(batch) > 0 && batch[0].draft.TenantID == q.order[0].tenant {
		q.order = append(q.order[1:], q.order[0]) // the other tenants come first now
	}
	return batch
}

// A measure is a limited resource of the queue.
type measure int

const (
	byEntries measure = iota
	byBytes
)

func (m measure) of(l *tenantQueue) int {
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

// dropFor removes and returns the newest entry of the tenant that uses most of a resource, to make
// room for a new entry. It returns nil if that tenant would then use less than the tenant of the
// new entry.
func (q *queue) dropFor(newest *waiter, m measure) *waiter {
	var largest *tenantQueue
	for _, l := range q.order {
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
