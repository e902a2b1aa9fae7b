package erasures

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPurgesTakeATenthOfTheTimeAndAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &purges{slot: make(chan struct{}, 1)}
		began := time.Now()
		var runs atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 10 {
					before := runs.Load()
					if err := p.run(t.Context(), &p.ofRequests, purgeWait, func() error {
						runs.Add(1)
						time.Sleep(20 * time.Millisecond)
						return nil
					}); err != nil || runs.Load() == before {
						t.Errorf("%v, after %d purges", err, runs.Load()-before)
					}
				}
			})
		}
		all.Wait()
		if took := time.Since(began); runs.Load() > 21 || took < time.Duration(runs.Load()-1)*200*time.Millisecond {
			t.Errorf("%d purges in %s", runs.Load(), took)
		}
	})
}

func TestJobsThatWaitShareAPurgeAndRequestsDoNotJoinIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &purges{slot: make(chan struct{}, 1)}
		var ofJobs, ofRequests int
		counting := func(n *int) func() error {
			return func() error {
				*n++
				time.Sleep(20 * time.Millisecond)
				return nil
			}
		}
		if err := p.run(t.Context(), &p.ofRequests, 0, counting(&ofRequests)); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 2 { // the second one finds the first one waiting
			all.Go(func() {
				if err := p.run(t.Context(), &p.ofJobs, purgeWait, counting(&ofJobs)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		began := time.Now()
		if err := p.run(t.Context(), &p.ofJobs, 0, counting(&ofJobs)); !errors.Is(err, errPurgeBusy) || time.Since(began) > 0 {
			t.Errorf("a job with other work waited for %s: %v", time.Since(began), err)
		}
		if err := p.run(t.Context(), &p.ofRequests, purgeWait, counting(&ofRequests)); err != nil {
			t.Error(err)
		}
		all.Wait()
		if ofJobs != 1 || ofRequests != 2 {
			t.Errorf("%d purges for jobs, %d for requests", ofJobs, ofRequests)
		}
	})
}

func TestAPurgeThatCannotBeginSoonIsLeftForLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &purges{slot: make(chan struct{}, 1)}
		long := func() error { time.Sleep(time.Second); return nil }
		if err := p.run(t.Context(), &p.ofJobs, 0, long); err != nil {
			t.Fatal(err)
		}
		if err := p.run(t.Context(), &p.ofRequests, purgeWait, long); !errors.Is(err, errPurgeBusy) {
			t.Errorf("during the pause: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.run(ctx, &p.ofRequests, purgeWait, long); err == nil {
			t.Error("it ran after the request was canceled")
		}
		time.Sleep(10 * time.Second)
		if err := p.run(t.Context(), &p.ofRequests, purgeWait, long); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	})
}
