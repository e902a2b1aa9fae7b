package kernel

import (
	"context"
	"math"
	"sync"
	"time"

	"atrium"
	"atrium/internal/store/engine"
)

// A transaction that causes events of a tenant stores references to them in its outbox, if the tenant has
// events enabled. It reads the setting itself, so that no event is missing because of a stale copy. Package
// store/events then gives them positions.

var enabledFeeds = engine.NewBatch(`SELECT batch.tenant_id FROM batch JOIN event_feeds f ON f.tenant_id = batch.tenant_id
	WHERE f.enabled = 1`, "tenant_id bytea")

// PipelineEventSwitches calls enabled for each of the tenants that has events enabled, before the next
// statement returns.
func PipelineEventSwitches(tx engine.Tx, tenants []atrium.TenantID, enabled func(atrium.TenantID)) error {
	rows := make([]engine.Args, len(tenants))
	for i, tenant := range tenants {
		rows[i] = engine.Args{IDArg(tenant)}
	}
	return tx.PipelineQuery(enabledFeeds, rows, func(r engine.Row) { enabled(IDAt[atrium.TenantID](r, 0)) })
}

// EventsEnabled reports whether a tenant has events enabled.
func EventsEnabled(query QueryFunc, tenant atrium.TenantID) (enabled bool, err error) {
	err = query("SELECT enabled FROM event_feeds WHERE tenant_id = $1", engine.Args{IDArg(tenant)}, func(r engine.Row) error {
		enabled = r.Int(0) == 1
		return nil
	})
	return enabled, err
}

var insertOutbox = engine.NewBatch(`INSERT INTO event_outbox (tenant_id, at, outbox_id, refs)
	SELECT batch.tenant_id, at, outbox_id, refs FROM batch`, "tenant_id bytea", "at bigint", "outbox_id bytea", "refs bytea")

// A TenantEvents has the events of a tenant that a transaction causes, at least one.
type TenantEvents struct {
	Tenant atrium.TenantID
	At     atrium.Time
	Refs   []EventRef // in the order of their positions
}

// WriteOutbox stores events of tenants that have them enabled. It needs no extra round trip: the statement is
// sent with the next one or the commit. After the commit, the caller passes the tenants to DB.Events.Add.
func WriteOutbox(tx engine.Tx, all ...TenantEvents) error {
	rows := make([]engine.Args, len(all))
	for i := range all {
		e := &all[i]
		rows[i] = engine.Args{IDArg(e.Tenant), int64(e.At), IDArg(atrium.NewID[atrium.EventID]()), EncodeEventRefs(e.Refs)}
	}
	return tx.PipelineExec(insertOutbox, rows)
}

// PendingEvents has the tenants whose outboxes this process has written to, or found rows in. The zero
// value is empty. It is safe for concurrent use.
type PendingEvents struct {
	mu        sync.Mutex
	tenants   map[atrium.TenantID]bool      // guarded by mu
	cooldowns map[atrium.TenantID]time.Time // until when Take skips a tenant; guarded by mu
	added     chan struct{}                 // guarded by mu; closed by Add while a call of Take waits; nil while none does
}

// Add adds a tenant. Call it after the commit.
func (p *PendingEvents) Add(tenant atrium.TenantID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tenants == nil {
		p.tenants = map[atrium.TenantID]bool{}
	}
	p.tenants[tenant] = true
	if p.added != nil {
		close(p.added)
		p.added = nil
	}
}

// Cooldown makes Take skip the tenant for d, so that the sequencer batches its next events.
func (p *PendingEvents) Cooldown(tenant atrium.TenantID, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cooldowns == nil {
		p.cooldowns = map[atrium.TenantID]time.Time{}
	}
	p.cooldowns[tenant] = time.Now().Add(d)
}

// Take removes all tenants without a cooldown and returns them, in no particular order. If there is none, it waits
// for one up to a duration, or until ctx ends. Only one call may wait at a time.
func (p *PendingEvents) Take(ctx context.Context, wait time.Duration) []atrium.TenantID {
	for end := time.Now().Add(wait); ; {
		tenants, next, added := p.take()
		left := time.Until(end)
		if len(tenants) > 0 || left <= 0 || ctx.Err() != nil {
			return tenants
		}
		timer := time.NewTimer(min(left, next))
		select {
		case <-added:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// take returns the tenants without a cooldown, the time until the next cooldown ends, and a channel that is closed when a tenant is
// added.
func (p *PendingEvents) take() (tenants []atrium.TenantID, next time.Duration, added <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for tenant, until := range p.cooldowns {
		if !until.After(now) {
			delete(p.cooldowns, tenant)
		}
	}
	next = math.MaxInt64
	for tenant := range p.tenants {
		if until, ok := p.cooldowns[tenant]; ok {
			next = min(next, until.Sub(now))
			continue
		}
		tenants = append(tenants, tenant)
		delete(p.tenants, tenant)
	}
	if p.added == nil {
		p.added = make(chan struct{})
	}
	return tenants, next, p.added
}
