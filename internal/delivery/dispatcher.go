package delivery

import (
	"cmp"
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/store"
)

// A Dispatcher delivers the events of all tenants, with the Dispatchers of other processes. It is safe for concurrent
// use.
type Dispatcher struct {
	config   Config
	timing   timing
	node     []byte                            // identifies the process in leases
	requests *limit.Semaphore[atrium.TenantID] // in flight

	crowded atomic.Bool // webhooks wait for sessions of others to end

	mu       sync.Mutex
	refused  bool                                  // since the last complete pass, a webhook got no session because maxSessions were open; guarded by mu
	sessions map[atrium.WebhookID]*session         // guarded by mu
	tenants  map[atrium.TenantID]*tenantDeliveries // those with sessions, or whose token bucket is not full; guarded by mu
	active   int                                   // tenants with sessions; guarded by mu
}

// tenantDeliveries are the deliveries of a tenant.
type tenantDeliveries struct {
	sessions int           // guarded by Dispatcher.mu
	refused  bool          // since the last complete pass, a webhook got no session because maxTenantSessions were open; guarded by Dispatcher.mu
	crowded  atomic.Bool   // webhooks of the tenant wait for sessions of others of it to end
	storing  chan struct{} // one for each transaction that stores results

	mu   sync.Mutex
	next time.Time // when the next request may begin; guarded by mu
}

// reserveStart claims the tenant's next start time and returns how long to wait for it: a token bucket with a burst of maxBurst. A
// large body takes several tokens.
func (t *tenantDeliveries) reserveStart(now time.Time, interval time.Duration, body int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(now, 1+body/bytesPerRequest, interval)
	return t.next.Sub(now)
}

// take takes n tokens. The caller holds mu.
func (t *tenantDeliveries) take(now time.Time, n int, interval time.Duration) {
	if earliest := now.Add(-maxBurst * interval); t.next.Before(earliest) {
		t.next = earliest
	}
	t.next = t.next.Add(interval * time.Duration(n))
}

// charge takes n tokens for a request that was more expensive than expected.
func (t *tenantDeliveries) charge(n int, interval time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(time.Now(), n, interval)
}

// bucketFull reports whether the tenant has its whole burst again.
func (t *tenantDeliveries) bucketFull(now time.Time, interval time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.next.After(now.Add(-maxBurst * interval))
}

// othersActive reports whether other tenants have deliveries, or use the process for anything else.
func (d *Dispatcher) othersActive(tenant atrium.TenantID) bool {
	d.mu.Lock()
	some := d.active > 1
	d.mu.Unlock()
	return some || d.config.OthersActive != nil && d.config.OthersActive(tenant)
}

// New returns a Dispatcher. Run makes it deliver.
func New(c Config) *Dispatcher {
	node := make([]byte, 8)
	_, _ = rand.Read(node) // never fails: crypto/rand ends the process instead
	return &Dispatcher{
		config: c, timing: usualTiming, node: node,
		requests: limit.NewSemaphore[atrium.TenantID](limit.SemaphoreBounds{
			Slots: max(1, c.MaxRequests), Each: max(1, c.MaxRequests/tenantShare), Waiting: maxTenantSessions * maxConcurrency,
		}),
		sessions: map[atrium.WebhookID]*session{}, tenants: map[atrium.TenantID]*tenantDeliveries{},
	}
}

// Leases returns the number of webhooks that the process has leased.
func (d *Dispatcher) Leases() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// InFlight returns the number of requests in flight.
func (d *Dispatcher) InFlight() int { return d.requests.Held() }

// Run delivers until ctx ends. Then it begins no request, waits for those in flight until drain ends, stores their
// results, and releases its leases.
func (d *Dispatcher) Run(ctx, drain context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	failing := false
	for ctx.Err() == nil {
		complete, err := d.claim(ctx, drain, &running)
		if err != nil && ctx.Err() == nil && !failing {
			d.config.Log.Error("webhooks could not be leased; trying again", "error", err)
		}
		failing = err != nil
		if complete || err != nil {
			d.wait(ctx)
		}
	}
}

// wakeDelay is how long a poll waits for the transaction that has woken a webhook to commit, and for others.
const wakeDelay = 20 * time.Millisecond

// wait returns when it is time to look for webhooks again.
func (d *Dispatcher) wait(ctx context.Context) {
	timer := time.NewTimer(jitter(d.timing.poll))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-d.config.Store.Woken():
		select {
		case <-ctx.Done():
		case <-time.After(wakeDelay):
		}
	}
}

// jitter varies a duration by up to a quarter, so that processes do not poll at the same moment.
func jitter(d time.Duration) time.Duration { return d*3/4 + mathrand.N(d/2+1) }

// maxLeasesPerPass is how many webhooks one pass leases, each in a transaction. The next pass reads the due webhooks again, so
// that those of other tenants do not wait for hundreds of leases.
const maxLeasesPerPass = 8

// claim leases webhooks that are due, while there is room for them, and starts their sessions. It reports whether it has tried
// all of them.
func (d *Dispatcher) claim(ctx, drain context.Context, running *sync.WaitGroup) (complete bool, err error) {
	due, err := d.config.Store.DueWebhooks(ctx, 2*maxSessions)
	if err != nil {
		return false, err
	}
	// Shuffle, so that processes try different webhooks first, but only in chunks: those that have waited longest come first.
	for some := range slices.Chunk(due, maxTenantSessions) {
		mathrand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	leased := 0
	alternate(due)
	for _, webhook := range due {
		if ctx.Err() != nil || leased == maxLeasesPerPass { // the process ends, or others have a turn
			return false, nil
		}
		started, err := d.lease(ctx, drain, webhook, running)
		if err != nil {
			return false, err
		}
		if started {
			leased++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crowded.Store(d.refused)
	d.refused = false
	now := time.Now()
	for id, t := range d.tenants {
		t.crowded.Store(t.refused)
		t.refused = false
		if t.sessions == 0 && t.bucketFull(now, requestInterval) {
			delete(d.tenants, id)
		}
	}
	return true, nil
}

// alternate sorts webhooks so that tenants take turns. The order within a tenant stays.
func alternate(due []store.DueWebhook) {
	turns := map[atrium.TenantID]int{}
	turn := make(map[store.DueWebhook]int, len(due))
	for _, w := range due {
		turn[w] = turns[w.TenantID]
		turns[w.TenantID]++
	}
	slices.SortStableFunc(due, func(a, b store.DueWebhook) int { return cmp.Compare(turn[a], turn[b]) })
}

// lease leases a webhook and starts its session, unless the limits of sessions are reached.
func (d *Dispatcher) lease(ctx, drain context.Context, due store.DueWebhook, running *sync.WaitGroup) (started bool, err error) {
	if !d.reserve(due) {
		return false, nil
	}
	lease, claimed, err := d.config.Store.ClaimWebhook(ctx, due, d.node, d.timing.lease)
	if err != nil || !claimed {
		d.unreserve(due)
		return false, err
	}
	s := d.newSession(lease)
	d.mu.Lock()
	d.sessions[due.WebhookID] = s
	d.mu.Unlock()
	running.Go(func() {
		defer d.unreserve(due)
		s.run(ctx, drain)
	})
	return true, nil
}

// reserve reserves a session within the limits, and reports whether it could.
func (d *Dispatcher) reserve(due store.DueWebhook) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, has := d.sessions[due.WebhookID]; has {
		return false
	}
	t := d.tenants[due.TenantID]
	switch {
	case t != nil && t.sessions >= maxTenantSessions: // no session of another tenant has to end for it
		t.refused = true
		return false
	case len(d.sessions) >= maxSessions:
		d.refused = true
		return false
	case t == nil:
		t = &tenantDeliveries{storing: make(chan struct{}, maxStoring)}
		d.tenants[due.TenantID] = t
	}
	if t.sessions++; t.sessions == 1 {
		d.active++
	}
	d.sessions[due.WebhookID] = nil
	return true
}

// unreserve releases what reserve has reserved. A tenant whose token bucket is not full is not forgotten: its webhooks may
// soon have sessions again.
func (d *Dispatcher) unreserve(due store.DueWebhook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, due.WebhookID)
	t := d.tenants[due.TenantID]
	if t.sessions--; t.sessions == 0 {
		d.active--
		if t.bucketFull(time.Now(), requestInterval) {
			delete(d.tenants, due.TenantID)
		}
	}
}

// Lag returns the age of the oldest event that the sessions of the process have read and not delivered or tried yet, 0 if
// there is none.
func (d *Dispatcher) Lag() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := int64(0)
	for _, s := range d.sessions {
		if s == nil {
			continue
		}
		if at := s.behind.Load(); at != 0 && (oldest == 0 || at < oldest) {
			oldest = at
		}
	}
	if oldest == 0 {
		return 0
	}
	return max(0, d.config.Store.Now().Sub(atrium.Time(oldest).Std()))
}
