package ingest

import (
	"maps"
	"slices"
	"time"

	"atrium"
)

// delayDuration is how long a tenant stays delayed after a commit that had to wait.
const delayDuration = 10 * time.Second

// While several tenants send entries, a commit has at most maxPerTenant entries of each, so that no tenant
// waits for long commits of another. The limit stays in force for sharedDuration after the last change
// from one tenant to another.
const (
	maxPerTenant   = 64
	sharedDuration = time.Second
)

// A queue holds the waiting entries, in FIFO order per tenant. It is guarded by the mutex of its
// Writer.
//
// A tenant is delayed while other transactions hold locks on its accounts. Its entries would delay
// those of other tenants in the same commit, so they are in a separate lane.
type queue struct {
	tenants         map[atrium.TenantID]*tenantQueue
	normal          lane
	delayed         lane
	delayedUntil    map[atrium.TenantID]time.Time
	committing      map[atrium.TenantID]bool // the delayed tenants with a commit in flight
	entries         int
	bytes           int
	lastTenant      atrium.TenantID // of the last entry taken
	tenantChangedAt time.Time       // when lastTenant last changed
}

// A lane has the nonempty queues of some tenants.
type lane struct {
	order   []*tenantQueue // in the order of service
	entries int
}

// A tenantQueue has the waiting entries of one tenant.
type tenantQueue struct {
	tenant  atrium.TenantID
	lane    *lane
	waiters []*waiter
	bytes   int // of the waiters
}

func newQueue() *queue {
	return &queue{
		tenants: map[atrium.TenantID]*tenantQueue{}, delayedUntil: map[atrium.TenantID]time.Time{},
		committing: map[atrium.TenantID]bool{},
	}
}

// queueOf returns the queue of a tenant. It creates an empty one if needed; the caller must add an
// entry to it.
func (q *queue) queueOf(tenant atrium.TenantID) *tenantQueue {
	t := q.tenants[tenant]
	if t == nil {
		t = &tenantQueue{tenant: tenant, lane: &q.normal}
		if until, ok := q.delayedUntil[tenant]; ok && time.Now().Before(until) {
			t.lane = &q.delayed
		}
		q.tenants[tenant] = t
		t.lane.order = append(t.lane.order, t)
	}
	return t
}

// push adds an entry, and returns the lane that it is in.
func (q *queue) push(w *waiter) *lane {
	t := q.queueOf(w.draft.TenantID)
	t.waiters = append(t.waiters, w)
	q.count(t, w, 1)
	return t.lane
}

// pushFront returns entries to the front of the queues of their tenants, in their order. These tenants
// are served next, in the order of their first entries.
func (q *queue) pushFront(batch []*waiter) {
	for _, w := range slices.Backward(batch) {
		t := q.queueOf(w.draft.TenantID)
		t.waiters = slices.Insert(t.waiters, 0, w)
		q.count(t, w, 1)
		order := t.lane.order
		i := slices.Index(order, t)
		t.lane.order = slices.Insert(slices.Delete(order, i, i+1), 0, t)
	}
}

// delay delays a tenant from now on.
func (q *queue) delay(tenant atrium.TenantID) {
	now := time.Now()
	maps.DeleteFunc(q.delayedUntil, func(_ atrium.TenantID, until time.Time) bool { return until.Before(now) })
	q.delayedUntil[tenant] = now.Add(delayDuration)
	if t := q.tenants[tenant]; t != nil && t.lane != &q.delayed {
		q.setLane(t, &q.delayed)
	}
}

// setLane moves the queue of a tenant to another lane.
func (q *queue) setLane(t *tenantQueue, to *lane) {
	t.lane.order = slices.DeleteFunc(t.lane.order, func(other *tenantQueue) bool { return other == t })
	t.lane.entries -= len(t.waiters)
	t.lane = to
	to.order = append(to.order, t)
	to.entries += len(t.waiters)
}

func (q *queue) count(t *tenantQueue, w *waiter, sign int) {
	q.entries += sign
	t.lane.entries += sign
	q.bytes += sign * w.draft.Size()
	t.bytes += sign * w.draft.Size()
}

// take removes and returns a batch of up to the given entries and bytes from a lane, but at least one
// entry if there is one. It takes the oldest entry of each tenant in turn, at most maxPerTenant of each
// if there are several, or with oneTenant, only entries of the next tenant.
func (q *queue) take(from *lane, entries, bytes int, oneTenant bool) (batch []*waiter) {
	shared := len(from.order) > 1 || time.Since(q.tenantChangedAt) < sharedDuration
	takenBytes, takenOf := 0, map[*tenantQueue]int{}
	for len(from.order) > 0 && len(batch) < entries {
		t := from.order[0]
		if shared && takenOf[t] == maxPerTenant { // the others have had their turns
			break
		}
		takenOf[t]++
		if oneTenant && len(batch) > 0 && batch[0].draft.TenantID != t.tenant {
			break
		}
		w := t.waiters[0]
		if takenBytes += w.draft.Size(); takenBytes > bytes && len(batch) > 0 {
			break
		}
		batch = append(batch, w)
		q.serve(t.tenant)
		t.waiters[0] = nil
		t.waiters = t.waiters[1:]
		q.count(t, w, -1)
		switch {
		case len(t.waiters) == 0:
			from.order = from.order[1:]
			delete(q.tenants, t.tenant)
		case !oneTenant:
			from.order = append(from.order[1:], t)
		}
	}
	if oneTenant && len(from.order) > 0 && len(batch) > 0 && batch[0].draft.TenantID == from.order[0].tenant {
		from.order = append(from.order[1:], from.order[0]) // the other tenants come first now
	}
	return batch
}

// serve notes that an entry of the tenant was taken.
func (q *queue) serve(tenant atrium.TenantID) {
	if q.lastTenant != "" && q.lastTenant != tenant {
		q.tenantChangedAt = time.Now()
	}
	q.lastTenant = tenant
}

// takeDelayed removes and returns a batch of the next delayed tenant that has no commit in flight,
// nil for none. The caller calls commitEnded after the commit.
func (q *queue) takeDelayed(entries, bytes int) (batch []*waiter) {
	i := slices.IndexFunc(q.delayed.order, func(t *tenantQueue) bool { return !q.committing[t.tenant] })
	if i < 0 {
		return nil
	}
	t := q.delayed.order[i]
	q.delayed.order = slices.Insert(slices.Delete(q.delayed.order, i, i+1), 0, t)
	q.committing[t.tenant] = true
	return q.take(&q.delayed, entries, bytes, true)
}

// commitEnded ends a commit of takeDelayed. If the tenant's delay has expired and mayReturn is true, its
// remaining entries move to the normal lane.
func (q *queue) commitEnded(tenant atrium.TenantID, mayReturn bool) {
	delete(q.committing, tenant)
	if t := q.tenants[tenant]; t != nil && t.lane == &q.delayed && mayReturn && time.Now().After(q.delayedUntil[tenant]) {
		q.setLane(t, &q.normal)
	}
}

// A measure is a limited resource of the queue.
type measure int

const (
	byEntries measure = iota
	byBytes
)

func (m measure) of(t *tenantQueue) int {
	switch {
	case t == nil:
		return 0
	case m == byBytes:
		return t.bytes
	}
	return len(t.waiters)
}

func (m measure) ofOne(w *waiter) int {
	if m == byBytes {
		return w.draft.Size()
	}
	return 1
}

// dropFor removes and returns the newest entry of the tenant that uses most of a resource, to make
// room for a new entry. It returns nil if that tenant has only one entry, or would then use less
// than the new entry's tenant, with the new entry.
func (q *queue) dropFor(newest *waiter, m measure) *waiter {
	var largest *tenantQueue
	for _, from := range []*lane{&q.normal, &q.delayed} {
		for _, t := range from.order {
			if largest == nil || m.of(t) > m.of(largest) {
				largest = t
			}
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
