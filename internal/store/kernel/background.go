package kernel

import (
	"context"
	"slices"
	"sync"
	"time"

	"atrium"
)

// After a background transaction of a tenant that takes longer than longTransaction, the tenant's
// background work pauses for longPause times as long: so it leaves most of the only writer of an
// embedded database to others. Background work is the work of jobs, and the transactions of an
// erasing request after the first.
const (
	longTransaction = 2 * time.Millisecond
	longPause       = 3
)

// pauseAfter starts a pause of the tenant's background work if a transaction took long. The
// duration includes the wait for the writer: the busier it is, the longer are the pauses.
//
// Only embedded databases need pauses, because they have one writer. On a server, transactions of
// different tenants do not wait for each other, and much of their time is that of the network.
func (db *DB) pauseAfter(tenant atrium.TenantID, took time.Duration) {
	if took > longTransaction && !db.Engine.Traits().Remote {
		db.background.add(tenant, longPause*took)
	}
}

// pauses are the pauses of the background work of tenants. It is safe for concurrent use.
type pauses struct {
	mu    sync.Mutex
	until map[atrium.TenantID]time.Time // guarded by mu
}

// add starts a pause of a tenant.
func (p *pauses) add(tenant atrium.TenantID, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for other, until := range p.until {
		if !until.After(now) {
			delete(p.until, other)
		}
	}
	if p.until == nil {
		p.until = map[atrium.TenantID]time.Time{}
	}
	p.until[tenant] = now.Add(pause)
}

// next returns the first tenant that does not pause, or -1 and when the first pause ends.
func (p *pauses) next(tenants []atrium.TenantID) (i int, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for i, tenant := range tenants {
		ends := p.until[tenant]
		if !ends.After(now) {
			return i, now
		}
		if i == 0 || ends.Before(until) {
			until = ends
		}
	}
	return -1, until
}

func (p *pauses) pausing(tenant atrium.TenantID) bool {
	i, _ := p.next([]atrium.TenantID{tenant})
	return i < 0
}

// wait returns when one of the tenants does not pause, or when ctx has ended.
func (p *pauses) wait(ctx context.Context, tenants ...atrium.TenantID) error {
	for {
		i, until := p.next(tenants)
		if i >= 0 || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		select {
		case <-time.After(time.Until(until)):
		case <-ctx.Done():
		}
	}
}

// InTurn calls run for one tenant after the other until none has more to do, run returns an error,
// or ctx ends. Each call of run should make one transaction. A tenant that pauses after a long one
// (pauseAfter) lets the others go first.
func (db *DB) InTurn(ctx context.Context, tenants []atrium.TenantID, run func(context.Context, atrium.TenantID) (more bool, err error)) error {
	for queue := slices.Clone(tenants); len(queue) > 0; {
		if err := db.background.wait(ctx, queue...); err != nil {
			return err
		}
		i, _ := db.background.next(queue)
		if i < 0 { // another job was first
			continue
		}
		tenant, began := queue[i], time.Now()
		queue = slices.Delete(queue, i, i+1)
		more, err := run(ctx, tenant)
		db.pauseAfter(tenant, time.Since(began))
		if err != nil {
			return err
		}
		if more {
			queue = append(queue, tenant)
		}
	}
	return nil
}
