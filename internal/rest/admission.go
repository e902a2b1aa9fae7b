package rest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// recheckInterval is how often a stream checks its key again. Verified keys are cached for
// auth.CacheTime, so this bounds how long a revoked key is served.
const recheckInterval = auth.CacheTime

// A requestLimits has the limits that a request is subject to while it is handled.
type requestLimits struct {
	limits  *Limits
	writer  http.ResponseWriter
	tenant  atrium.TenantID
	heavy   bool                        // the whole request is heavy work and holds a slot
	recheck func(context.Context) error // checks whether the key is still valid for the route
	checked time.Time                   // when it was checked
	memory  *memory                     // of the body and the response; nil with a nil limits
	stream  *heavyWork                  // of the response, while it is streamed
}

// admit acquires a slot of a semaphore, which the caller releases.
func admit(
	ctx context.Context, w http.ResponseWriter, slots *limit.Semaphore[atrium.TenantID], tenant atrium.TenantID,
) error {
	err := slots.Acquire(ctx, tenant)
	if errors.Is(err, limit.ErrBusy) {
		exchangeOf(w).Refused = telemetry.ByOverload
	}
	if err != nil {
		return atrium.Unavailable(err)
	}
	return nil
}

// Admit waits for a slot of a semaphore, for an open handler. The error's code is atrium.CodeUnavailable.
func Admit(ctx context.Context, w http.ResponseWriter, slots *limit.Semaphore[atrium.TenantID], tenant atrium.TenantID) (release func(), err error) {
	if err := admit(ctx, w, slots, tenant); err != nil {
		return nil, err
	}
	return func() { slots.Release(tenant) }, nil
}

// AcquireHeavy waits until the tenant of the request may do heavy work: work that takes more
// processor time than a small request. The caller releases it before it waits for a commit or
// the client. The error's code is atrium.CodeUnavailable.
func (r *Request) AcquireHeavy(ctx context.Context) (release func(), err error) {
	if r.limits == nil || r.heavy {
		return func() {}, nil
	}
	if err := admit(ctx, r.writer, r.limits.Heavy, r.tenant); err != nil {
		return nil, err
	}
	return func() { r.limits.Heavy.Release(r.tenant) }, nil
}

// beginHeavy acquires a slot for heavy work, which the request holds until endHeavy.
func (r *Request) beginHeavy(ctx context.Context) error {
	err := admit(ctx, r.writer, r.limits.Heavy, r.tenant)
	r.heavy = err == nil
	return err
}

// endHeavy releases that slot, if the request holds it.
func (r *Request) endHeavy() {
	if r.heavy {
		r.heavy = false
		r.limits.Heavy.Release(r.tenant)
	}
}

// AcquireChange waits until the tenant of the request may run a write transaction; a large one
// reads or writes much. The caller releases it after the transaction; after a long one, the tenant
// pauses. It ends heavy work first, so that no request waits for one slot while it holds another.
// The error's code is atrium.CodeUnavailable, or that of Recheck.
func (r *Request) AcquireChange(ctx context.Context, large bool) (release func(), err error) {
	if r.limits == nil {
		return func() {}, nil
	}
	r.endHeavy()
	if r.stream != nil {
		r.stream.pause() // until the next Write
	}
	if release, err = r.limits.AdmitChange(ctx, r.writer, r.tenant, large); err != nil {
		return nil, err
	}
	if err := r.Recheck(ctx); err != nil { // the wait may have been long
		release()
		return nil, err
	}
	return release, nil
}

// AdmitChange is Request.AcquireChange for an open handler, which holds no slot for heavy work.
func (l *Limits) AdmitChange(ctx context.Context, w http.ResponseWriter, tenant atrium.TenantID, large bool) (release func(), err error) {
	slots := l.Changes
	if large {
		slots = l.LargeChanges
	}
	if err := admit(ctx, w, slots, tenant); err != nil {
		return nil, err
	}
	began := time.Now()
	return func() {
		if took := time.Since(began); large && took > longChange {
			time.AfterFunc(pauseFactor*took, func() { slots.Release(tenant) })
			return
		}
		slots.Release(tenant)
	}, nil
}

// A large change that takes longer than longChange keeps its slot for pauseFactor times as long
// after it has ended: a tenant that makes such changes continuously leaves most of the time of
// SQLite's only writer to others.
const (
	longChange  = 10 * time.Millisecond
	pauseFactor = 3
)

// admitChange is AcquireChange for a change of one resource. A large one also reserves the memory of
// its response, which a client may leave unread: once the change is made, the response cannot be
// refused.
func (r *Request) admitChange(ctx context.Context, large bool) (func(), error) {
	release, err := r.AcquireChange(ctx, large)
	if err != nil || !large {
		return release, err
	}
	if r.memory != nil && !r.memory.holdResponse(atrium.MaxPageSize) {
		release()
		exchangeOf(r.writer).Refused = telemetry.ByBodyMemory
		return nil, atrium.Unavailable(errBodies)
	}
	return release, nil
}

// DecodeBody calls f, which decodes the body of the request: as heavy work if the body is
// large. Then its error is that of Recheck if the key became invalid during the wait.
func (r *Request) DecodeBody(ctx context.Context, f func() error) error {
	if len(r.Body) <= heavyBody {
		return f()
	}
	return r.Heavily(ctx, func() error {
		if err := r.recheckLate(ctx); err != nil {
			return err
		}
		return f()
	})
}

// Heavily calls f as heavy work.
func (r *Request) Heavily(ctx context.Context, f func() error) error {
	release, err := r.AcquireHeavy(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f()
}

// HeavilyPausing is Heavily for an f that takes long. f calls pause to let others use the processor, and must return if pause
// returns an error. A limited number of calls of a tenant run or pause at a time, so that they end before others begin.
func (r *Request) HeavilyPausing(ctx context.Context, f func(pause func() error) error) error {
	if r.limits == nil {
		return f(nil)
	}
	if !r.heavy {
		return r.limits.HeavilyPausing(ctx, r.writer, r.tenant, f)
	}
	r.endHeavy()
	release, err := Admit(ctx, r.writer, r.limits.Pausing, r.tenant)
	if err != nil {
		return err
	}
	defer release()
	if err := r.beginHeavy(ctx); err != nil {
		return err
	}
	return f(func() error {
		r.endHeavy()
		return r.beginHeavy(ctx)
	})
}

// HeavilyPausing is Request.HeavilyPausing for an open handler.
func (l *Limits) HeavilyPausing(ctx context.Context, w http.ResponseWriter, tenant atrium.TenantID, f func(pause func() error) error) error {
	release, err := Admit(ctx, w, l.Pausing, tenant)
	if err != nil {
		return err
	}
	defer release()
	if err := admit(ctx, w, l.Heavy, tenant); err != nil {
		return err
	}
	held := true
	defer func() {
		if held {
			l.Heavy.Release(tenant)
		}
	}()
	return f(func() error {
		l.Heavy.Release(tenant)
		err := admit(ctx, w, l.Heavy, tenant)
		held = err == nil
		return err
	})
}

// EncodeBody calls encode, which returns the body of the response: as heavy work if the body
// is large. size is its approximate size in bytes.
func (r *Request) EncodeBody(ctx context.Context, size int, encode func() (Encoded, error)) (Encoded, error) {
	if size > heavyResponse {
		release, err := r.AcquireHeavy(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	return encode()
}

// A readSize is a class of reads by what they cost.
type readSize int

const (
	smallRead  readSize = iota // always admitted
	mediumRead                 // many at a time delay other tenants
	largeRead                  // heavy work
)

const (
	maxSmallRows = 10       // 32 such reads at a time delay other tenants at most 1.5 times as long as those of one row
	maxMedium    = 32 << 10 // bytes; reading and encoding them takes about a quarter of a millisecond
	rowCostBytes = 800      // encoding this many bytes takes as long as reading one row
)

// recentReads remembers the tenants with a medium or large response of a route within recentReadMemory. Their
// next one is expected to be of the same size, and waits for its turn. The size is known only after the
// read, so the first one is not limited, but the following ones are. A recentReads is safe for
// concurrent use. record does nothing on a nil one.
type recentReads struct {
	mu      sync.Mutex
	tenants map[atrium.TenantID]lastReads // guarded by mu; maxReaders at most
}

// lastReads has the times of the last medium and of the last large response, zero for none.
type lastReads struct{ medium, large time.Time }

const (
	recentReadMemory = time.Second
	maxReaders       = 10_000
)

// expected returns the probable size of the next body of the tenant.
func (l *recentReads) expected(tenant atrium.TenantID) readSize {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, found := l.tenants[tenant]
	switch {
	case !found:
		return smallRead
	case time.Since(last.large) <= recentReadMemory:
		return largeRead
	case time.Since(last.medium) <= recentReadMemory:
		return mediumRead
	}
	delete(l.tenants, tenant)
	return smallRead
}

// record records the size of a body in bytes, and the number of rows that it was encoded from, even if the body is not sent
// because the client has it.
func (l *recentReads) record(tenant atrium.TenantID, size, rows int) {
	large := max(size, rowCostBytes*rows) > maxMedium
	if l == nil || !large && rows <= maxSmallRows {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, found := l.tenants[tenant]
	if l.tenants == nil || !found && len(l.tenants) >= maxReaders {
		l.tenants = map[atrium.TenantID]lastReads{}
	}
	if large {
		last.large = time.Now()
	} else {
		last.medium = time.Now()
	}
	l.tenants[tenant] = last
}

// admitRead waits until a read of a size may begin. The caller releases it when the response is encoded.
func (r *Request) admitRead(ctx context.Context, size readSize) (release func(), err error) {
	switch size {
	case largeRead:
		return r.endHeavy, r.beginHeavy(ctx)
	case mediumRead:
		return Admit(ctx, r.writer, r.limits.MediumReads, r.tenant)
	case smallRead:
	}
	return func() {}, nil
}

// Reserve takes bytes from the quota that the bodies of all requests share. The error's code
// is atrium.CodeUnavailable if the tenant may not have them.
func (r *Request) Reserve(bytes int64) (release func(), err error) {
	if r.limits == nil {
		return func() {}, nil
	}
	if !r.limits.Bodies.Take(r.tenant, bytes) {
		exchangeOf(r.writer).Refused = telemetry.ByBodyMemory
		return nil, atrium.Unavailable(errBodies)
	}
	return func() { r.limits.Bodies.Return(r.tenant, bytes) }, nil
}

// HoldMemory is Limits.HoldMemory for the tenant of the request.
func (r *Request) HoldMemory() (hold func(bytes int64) error, release func()) {
	if r.limits == nil {
		return func(int64) error { return nil }, func() {}
	}
	return r.limits.HoldMemory(r.writer, r.tenant)
}

// Recheck returns an error if the key of the request is no longer valid for the route, as it
// was revoked or has expired. It is for work that takes longer than a verified key is cached,
// and is cheap.
func (r *Request) Recheck(ctx context.Context) error {
	if r.recheck == nil {
		return nil
	}
	return r.recheck(ctx)
}

// lateRecheck is the age above which the result of the last check of a key is not used. Most bodies
// arrive with their headers: their requests check the key once.
const lateRecheck = 100 * time.Millisecond

// recheckLate is Recheck if the last check is older than lateRecheck: the body arrived slowly, or the
// request waited.
func (r *Request) recheckLate(ctx context.Context) error {
	if time.Since(r.checked) < lateRecheck {
		return nil
	}
	r.checked = time.Now()
	return r.Recheck(ctx)
}

// A rechecker periodically checks whether a stream may continue. It is for one goroutine.
type rechecker struct {
	recheck func(context.Context) error // nil for never
	last    time.Time
}

// check checks the key if the last check was recheckInterval ago. An unavailable store does
// not end a stream.
func (c *rechecker) check(ctx context.Context) error {
	if c.recheck == nil || time.Since(c.last) < recheckInterval {
		return nil
	}
	c.last = time.Now()
	if err := c.recheck(ctx); err != nil && atrium.CodeOf(err) != atrium.CodeUnavailable {
		return err
	}
	return nil
}
