package kernel

import (
	"context"
	"slices"
	"sync"

	"atrium"
	"atrium/internal/store/engine"
)

// maxGroup is the maximum number of calls in a group.
const maxGroup = 32

// Groups runs the calls of each tenant in groups, one group at a time. Calls that arrive while a
// group of their tenant runs form the next one, so a lone call runs at once. Groups needs no
// goroutines: one of the calls runs the group. The zero value is ready to use, and safe for
// concurrent use.
type Groups[T any] struct {
	mu      sync.Mutex
	waiting map[atrium.TenantID][]*groupCall[T] // guarded by mu; has each tenant with a running group
}

type groupCall[T any] struct {
	item T
	wake chan []*groupCall[T] // receives a group to run; closed when the group of the call has run
}

// Do calls run with the items of a group that includes item, or waits for a concurrent Do that
// does. If ctx ends while the call waits, Do returns its cause, and no group includes item.
func (g *Groups[T]) Do(ctx context.Context, tenant atrium.TenantID, item T, run func(group []T)) error {
	call := &groupCall[T]{item, make(chan []*groupCall[T], 1)}
	group := g.enter(tenant, call)
	if group == nil {
		select {
		case group = <-call.wake:
		case <-ctx.Done():
			if g.remove(tenant, call) {
				return context.Cause(ctx)
			}
			group = <-call.wake // woken in the meantime
		}
	}
	if group == nil {
		return nil
	}
	defer g.leave(tenant, group)
	items := make([]T, len(group))
	for i, c := range group {
		items[i] = c.item
	}
	run(items)
	return nil
}

// enter returns a group of the call alone if no group of the tenant runs. Otherwise it queues the
// call and returns nil.
func (g *Groups[T]) enter(tenant atrium.TenantID, call *groupCall[T]) []*groupCall[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = map[atrium.TenantID][]*groupCall[T]{}
	}
	waiting, running := g.waiting[tenant]
	if !running {
		g.waiting[tenant] = nil
		return []*groupCall[T]{call}
	}
	g.waiting[tenant] = append(waiting, call)
	return nil
}

// leave ends a group, and lets the first waiting call run the next one.
func (g *Groups[T]) leave(tenant atrium.TenantID, group []*groupCall[T]) {
	for _, call := range group[1:] {
		close(call.wake)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := g.waiting[tenant]
	if len(waiting) == 0 {
		delete(g.waiting, tenant)
		return
	}
	n := min(len(waiting), maxGroup)
	next := slices.Clone(waiting[:n])
	g.waiting[tenant] = slices.Delete(waiting, 0, n)
	next[0].wake <- next
}

// remove removes a waiting call, and reports whether it waited.
func (g *Groups[T]) remove(tenant atrium.TenantID, call *groupCall[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting[tenant], call)
	if i >= 0 {
		g.waiting[tenant] = slices.Delete(g.waiting[tenant], i, i+1)
	}
	return i >= 0
}

// MutateGroup runs f in one durable transaction for several changes of one tenant, which have no
// idempotency keys, and then writes the audit rows of all. The mutations are in the order of
// changes. The engine may retry f. MutateGroup does not retry conflicts: the caller then makes each
// change by itself.
func MutateGroup(ctx context.Context, db *DB, changes []atrium.Change, f func(engine.Tx, []*Mutation) error) error {
	ctx, cancel := context.WithTimeout(engine.ForTenant(ctx, string(changes[0].TenantID)), changeTimeout)
	defer cancel()
	events := false
	err := db.Engine.Write(ctx, func(tx engine.Tx) error {
		group := make([]*Mutation, len(changes))
		for i, c := range changes {
			group[i] = &Mutation{Tx: tx, DB: db, Change: c, At: atrium.At(db.Now())}
		}
		check, err := beginTenantCheck(tx, changes[0].TenantID)
		if err != nil {
			return err
		}
		if err := f(tx, group); err != nil && !check.missing {
			return err
		}
		if err := check.end(); err != nil {
			return err
		}
		for _, m := range group {
			if m.err != nil {
				return m.err
			}
		}
		events, err = writeAudit(tx, group...)
		return err
	})
	if events && err == nil {
		db.Events.Add(changes[0].TenantID)
	}
	return err
}
