package kernel

import (
	"context"
	"slices"
	"sync"
	"time"

	"atrium"
)

// An embedded database has one writer. To leave most of its time to others, a tenant's background
// work pauses after each transaction longer than longTransaction, for pauseFactor times its
// duration. Background work is that of jobs, and the transactions of an erasing request after the
// first.
const (
	longTransaction = 2 * time.Millisecond
	pauseFactor     = 3
)

// pauseAfter starts a pause of the tenant's background work if a transaction took long. The
// duration includes the wait for the writer: the busier it is, the longer the pauses.
//
// Only embedded databases need pauses, because they have one writer. On a server, transactions of
// different tenants do not wait for each other, and much of their time is network latency.
func (db *DB) pauseAfter(tenant atrium.TenantID, took time.Duration) {
	if took > longTransaction && !db.Engine.Traits().Remote {
		db.background.add(tenant, pauseFactor*took)
	}
}

// pauses records until when each tenant's background work pauses. It is safe for concurrent use.
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

// next returns the index of the first tenant that does not pause, or -1 and the time at which the
// first pause ends.
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

// Paced calls run, which makes one transaction of a tenant, after the pause of its background work.
func (db *DB) Paced(ctx context.Context, tenant atrium.TenantID, run func() error) error {
	if err := db.background.wait(ctx, tenant); err != nil {
		return err
	}
	began := time.Now()
	err := run()
	db.pauseAfter(tenant, time.Since(began))
	return err
}

// InTurn calls run for the tenants round-robin until none has more to do, run returns an error, or
// ctx ends. Each call of run should make one transaction. InTurn skips tenants while they pause
// (pauseAfter).
func (db *DB) InTurn(ctx context.Context, tenants []atrium.TenantID, run func(context.Context, atrium.TenantID) (more bool, err error)) error {
	for queue := slices.Clone(tenants); len(queue) > 0; {
		if err := db.background.wait(ctx, queue...); err != nil {
			return err
		}
		i, _ := db.background.next(queue)
		if i < 0 { // another goroutine started a pause in between
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
