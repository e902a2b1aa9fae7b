package rest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"atrium"
	"atrium/internal/limit"
)

// This file limits how long requests keep a snapshot of the database open: documents, and checks of
// If-Match for accounts with many prospects.

// With SnapshotsMustEnd, a snapshot ends when it is older than snapshotAge, and another waits for up to
// snapshotWait before it begins.
const (
	snapshotAge   = 2 * time.Second
	snapshotWait  = 5 * time.Second
	snapshotCheck = 50 * time.Millisecond // between two checks of SnapshotsMustEnd
)

// errSnapshots is the cause of an error because of SnapshotsMustEnd.
var errSnapshots = fmt.Errorf("open snapshots keep the database's write-ahead log from being reset: %w", limit.ErrBusy)

// waitForSnapshots returns when a snapshot may begin. The error's code is atrium.CodeUnavailable.
func (l *Limits) waitForSnapshots(ctx context.Context) error {
	if l.SnapshotsMustEnd == nil {
		return nil
	}
	for deadline := time.Now().Add(snapshotWait); l.SnapshotsMustEnd(); {
		if time.Now().After(deadline) {
			return atrium.Unavailable(errSnapshots)
		}
		select {
		case <-time.After(snapshotCheck):
		case <-ctx.Done():
			return atrium.Unavailable(context.Cause(ctx))
		}
	}
	return nil
}

// whenSnapshotsMustEnd calls end once a snapshot that begins now must end, unless stop is called
// first. end is not running when stop has returned.
func (l *Limits) whenSnapshotsMustEnd(end func()) (stop func()) {
	if l.SnapshotsMustEnd == nil {
		return func() {}
	}
	var mu sync.Mutex
	stopped := false // guarded by mu
	var check func()
	check = func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case stopped:
		case l.SnapshotsMustEnd():
			end()
		default:
			time.AfterFunc(snapshotCheck, check)
		}
	}
	time.AfterFunc(snapshotAge, check)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}

// AdmitCheck waits until the If-Match precondition of an account with many prospects may be
// evaluated, which needs a snapshot of the database and much processor time. yield lets other
// tenants run for a moment. The code of its errors is atrium.CodeUnavailable.
func (l *Limits) AdmitCheck(
	ctx context.Context, tenant atrium.TenantID,
) (yield func() error, release func(), err error) {
	if err := l.Documents.Acquire(ctx, tenant); err != nil {
		return nil, nil, atrium.Unavailable(err)
	}
	if err := l.waitForSnapshots(ctx); err != nil {
		l.Documents.Release(tenant)
		return nil, nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	stop := l.whenSnapshotsMustEnd(func() { end(errSnapshots) })
	work := heavyWork{ctx: ctx, slots: l.Heavy, tenant: tenant}
	yield = func() error {
		work.pause()
		return work.resume()
	}
	release = func() {
		work.pause()
		stop()
		end(nil)
		l.Documents.Release(tenant)
	}
	if err := work.resume(); err != nil {
		release()
		return nil, nil, err
	}
	return yield, release, nil
}
