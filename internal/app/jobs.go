package app

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"atrium"
	"atrium/internal/requestlog"
	"atrium/internal/store"
)

// A job is background work that every node polls for. run must be idempotent, as several
// nodes may run it at once, and must leave nothing half done when ctx ends.
type job struct {
	name     string
	interval time.Duration // between runs, unless there is more to do
	run      func(ctx context.Context) (more bool, err error)
}

// newJobs returns all jobs. One of them sends an error to newer when a newer release uses the database.
func newJobs(s *store.Store, requests *requestlog.Recorder, newer chan<- error) []job {
	var (
		after         atrium.TenantID // whose requests were deleted last
		scheduled     atrium.TenantID // whose schedules were run last, "" if no more are due
		swept         atrium.TenantID // whose activity was swept last
		expired       atrium.TenantID // whose tombstones were deleted last
		signedOut     atrium.TenantID // whose expired sessions were deleted last
		forgotten     atrium.TenantID // whose refused requests were deleted last
		unread        atrium.TenantID // whose reads of personal data were deleted last
		retained      atrium.TenantID // whose retention rules were applied last
		outdated      atrium.TenantID // whose expired events were deleted last
		delivered     atrium.TenantID // whose expired deliveries were deleted last
		corrected     atrium.TenantID // whose expired deliveries in quarantine were deleted last
		attended      atrium.TenantID // whose delivery problems were counted last
		noticed       atrium.TenantID // whose keys that expire were reported last
		counted       atrium.TenantID // whose counts were swept last
		countedAll    bool            // whether all tenants were swept once
		retentionLeft bool            // whether a tenant had more to delete since the first one
	)
	all := []job{
		{"activity", activityInterval, s.UpdateActivity},
		{"activity-sweep", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			swept, err = s.SweepActivity(ctx, swept)
			return swept != "", err
		}},
		{"attention", countInterval, func(ctx context.Context) (_ bool, err error) {
			attended, err = s.CountDeliveryProblems(ctx, attended)
			return attended != "", err
		}},
		{"counts", countInterval, func(ctx context.Context) (more bool, err error) {
			if counted, err = s.SweepCounts(ctx, counted); err != nil {
				return false, err
			}
			countedAll = countedAll || counted == ""
			more, err = s.UpdateCounts(ctx)
			return more || !countedAll && err == nil, err
		}},
		{"delivery-expiry", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			delivered, err = s.DeleteExpiredDeliveries(ctx, delivered)
			return delivered != "", err
		}},
		{"erasures", pollInterval, s.ContinueErasures},
		{"events", sequenceInterval, s.RunSequencer},
		{"event-expiry", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			outdated, err = s.DeleteExpiredEvents(ctx, outdated)
			return outdated != "", err
		}},
		{"key-expiry", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			noticed, err = s.ReportExpiringKeys(ctx, noticed)
			return noticed != "", err
		}},
		{"person-erasures", pollInterval, s.RunErasures},
		{"quarantine-expiry", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			corrected, err = s.DeleteExpiredQuarantine(ctx, corrected)
			return corrected != "", err
		}},
		{"request-log", pollInterval, func(ctx context.Context) (bool, error) { return false, requests.Write(ctx) }},
		{"request-log-expiry", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			var readsErr error
			forgotten, err = s.DeleteExpiredRefusedRequests(ctx, forgotten)
			unread, readsErr = s.DeleteExpiredReads(ctx, unread)
			return forgotten != "" || unread != "", errors.Join(err, readsErr)
		}},
		{"requests", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			after, err = s.DeleteExpiredRequests(ctx, after)
			return after != "", err
		}},
		{"retention", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			var more bool
			retained, more, err = s.RunRetention(ctx, retained)
			if retentionLeft = retentionLeft || more; retained != "" {
				return true, err
			}
			more, retentionLeft = retentionLeft, false
			return more, err
		}},
		{"sessions", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			signedOut, err = s.DeleteExpiredSessions(ctx, signedOut)
			return signedOut != "", err
		}},
		{"schedules", pollInterval, func(ctx context.Context) (_ bool, err error) {
			var done int
			done, scheduled, err = s.RunDue(ctx, scheduled, maxDue)
			return done > 0 || scheduled != "", err
		}},
		{"tenant-deletions", pollInterval, s.DeleteTenants},
		{"tombstones", cleanupInterval, func(ctx context.Context) (_ bool, err error) {
			expired, err = s.DeleteExpiredTombstones(ctx, expired)
			return expired != "", err
		}},
		{"upgrade", upgradeInterval, func(ctx context.Context) (bool, error) {
			_, err := s.CheckUpgrade(ctx)
			if errors.Is(err, store.ErrNewer) {
				select {
				case newer <- err:
				default: // it was sent before
				}
			}
			return false, err
		}},
	}
	if !s.Traits().Remote { // without requests, nothing else would notice a missing file
		all = append(all, job{"files", pollInterval, func(context.Context) (bool, error) { return false, s.CheckFiles() }})
	}
	return all
}

// maxDue is how many schedules one run handles.
const maxDue = 100

// A job runs every pollInterval, or at a longer interval if its work can wait. After a failure the
// interval is 2 s, and doubles with each further failure up to maxFailureInterval. All intervals vary
// by a quarter, so that the nodes do not poll at the same moment. So work that cannot wait starts
// within 1.25 s as long as any node can do it.
const (
	pollInterval       = time.Second
	sequenceInterval   = 20 * time.Millisecond // after a wait for events of up to a second; longer is cheaper: more of them share a commit
	activityInterval   = 4 * time.Second       // longer is cheaper: more accounts of a page are updated together
	countInterval      = 30 * time.Second      // longer is cheaper: more entries are counted together
	cleanupInterval    = 10 * time.Minute
	upgradeInterval    = 5 * time.Second
	maxFailureInterval = 10 * time.Second
)

// A jobRunner runs jobs in the background.
type jobRunner struct {
	stop  context.CancelFunc // makes the jobs finish
	ended chan struct{}      // closed when all have finished
	log   *slog.Logger
}

// startJobs runs the jobs until stop is called or ctx ends. ran, which may be nil, is called after each run
// with its error, except for a run that the end of ctx stopped.
func startJobs(ctx context.Context, all []job, log *slog.Logger, ran func(job string, err error)) *jobRunner {
	ctx, stop := context.WithCancel(ctx)
	r := &jobRunner{stop: stop, ended: make(chan struct{}), log: log}
	var running sync.WaitGroup
	for _, j := range all {
		running.Go(func() { j.loop(ctx, log, ran) })
	}
	go func() {
		running.Wait()
		close(r.ended)
	}()
	return r
}

// wait returns when all jobs have finished or ctx has ended. A statement on a database that
// hangs cannot be canceled; the database rolls it back when the process exits.
func (r *jobRunner) wait(ctx context.Context) {
	select {
	case <-r.ended:
	case <-ctx.Done():
		r.log.Warn("a job did not finish in time")
	}
}

// loop runs the job until ctx ends.
func (j job) loop(ctx context.Context, log *slog.Logger, ran func(string, error)) {
	failureInterval := pollInterval
	for ctx.Err() == nil {
		more, err := j.run(ctx)
		pause := j.interval
		if err != nil && ctx.Err() != nil {
			return
		}
		if ran != nil {
			ran(j.name, err)
		}
		switch {
		case err != nil:
			log.Error("a job failed and will be retried", "job", j.name, "error", err)
			failureInterval = min(2*failureInterval, maxFailureInterval)
			pause = failureInterval
		case more:
			failureInterval = pollInterval
			continue
		default:
			failureInterval = pollInterval
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause*3/4 + rand.N(pause/2)):
		}
	}
}
