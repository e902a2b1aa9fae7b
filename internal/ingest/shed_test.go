package ingest_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"atrium"
	"atrium/internal/ingest"
)

func TestAnEntryThatCannotFitDisplacesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		large := draft("other", "large")
		large.Payload = make([]byte, 10_000)
		w := newWriter(t, c, ingest.Limits{QueueBytes: large.Size() + 100})
		var wg sync.WaitGroup
		for range 5 { // one is in flight, four wait
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), draft("a", "small")); err != nil {
					t.Errorf("a small entry was rejected: %v", err)
				}
			})
			synctest.Wait()
		}
		_, err := w.Submit(t.Context(), large)
		wantUnavailable(t, err, ingest.ErrFull)
		if n := w.Waiting(); n != 4 {
			t.Errorf("%d entries wait, want 4", n)
		}
		close(c.gate)
		wg.Wait()
		if _, err := w.Submit(t.Context(), large); err != nil {
			t.Errorf("the large entry was rejected by an empty queue: %v", err)
		}
		_ = w.Close(t.Context())
	})
}

func TestLargeEntriesDoNotDisplaceSmallEntriesOfAnotherTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		large := func(tenant string) *atrium.Draft {
			d := draft(tenant, "large")
			d.Payload = make([]byte, 10_000)
			return d
		}
		w := newWriter(t, c, ingest.Limits{QueueBytes: 5 * large("x").Size(), BatchEntries: 1})
		var wg sync.WaitGroup
		submit := func(d *atrium.Draft, refused bool) {
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), d); (err != nil) != refused {
					t.Errorf("an entry of %s: %v", d.TenantID, err)
				}
			})
			synctest.Wait()
		}
		submit(draft("first", "in flight"), false)
		for range 10 {
			submit(draft("small", "small"), false)
		}
		for range 3 {
			submit(large("greedy"), false)
		}
		submit(large("greedy"), true) // displaced by the next entry
		submit(large("other"), false)
		close(c.gate)
		wg.Wait()
		_ = w.Close(t.Context())
	})
}
