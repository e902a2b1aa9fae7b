package ingest_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"atrium"
	"atrium/internal/ingest"
)

func TestAnEntryThatFindsNoRoomEvenSoTurnsNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		large := draft("other", "large")
		large.Payload = make([]byte, 10_000)
		w := newWriter(t, c, ingest.Limits{QueueBytes: large.Size() + 100})
		var wg sync.WaitGroup
		for range 5 { // one is being committed, four wait
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), draft("a", "small")); err != nil {
					t.Errorf("a small entry was turned away: %v", err)
				}
			})
			synctest.Wait()
		}
		_, err := w.Submit(t.Context(), large)
		wantUnavailable(t, err, ingest.ErrFull)
		if n := w.Waiting(); n != 4 {
			t.Errorf("%d wait, want the 4 that did", n)
		}
		close(c.gate)
		wg.Wait()
		if _, err := w.Submit(t.Context(), large); err != nil {
			t.Errorf("there is room, and the large entry was turned away: %v", err)
		}
		_ = w.Close(t.Context())
	})
}

func TestATenantWithManySmallEntriesDoesNotPayForLargeOnes(t *testing.T) {
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
		submit(draft("first", "is being committed"), false)
		for range 10 {
			submit(draft("small", "small"), false)
		}
		for range 3 {
			submit(large("greedy"), false)
		}
		submit(large("greedy"), true) // it makes room for the next one
		submit(large("other"), false)
		close(c.gate)
		wg.Wait()
		_ = w.Close(t.Context())
	})
}
