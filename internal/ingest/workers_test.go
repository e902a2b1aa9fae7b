package ingest_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/ingest"
)

// submitAll submits n entries one after the other, and returns when all have their outcome.
func submitAll(t *testing.T, w *ingest.Writer, n int) (took time.Duration) {
	t.Helper()
	start := time.Now()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := w.Submit(t.Context(), draft("a", "s")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	wg.Wait()
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return time.Since(start)
}

func TestAsManyCommitsRunAsThereAreWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{}
		w := newWriter(t, c, ingest.Limits{BatchEntries: 16, Workers: 3})
		took := submitAll(t, w, 1+16+16+5)
		first, rest := slices.Sorted(slices.Values(c.sizes()[:3])), c.sizes()[3:]
		if took != 2*time.Second || fmt.Sprint(first, rest) != "[1 16 16] [5]" {
			t.Errorf("took %v in batches of %v, want three at once and then the rest", took, c.sizes())
		}
	})
}

func TestAShortQueueWaitsForTheCommitInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{take: 10 * time.Millisecond}
		w := newWriter(t, c, ingest.Limits{Workers: 3})
		if took := submitAll(t, w, 1+15); took != 20*time.Millisecond || fmt.Sprint(c.sizes()) != "[1 15]" {
			t.Errorf("took %v in batches of %v, want the second to have all others", took, c.sizes())
		}
	})
}

func TestEntriesDoNotWaitForASlowCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{take: time.Minute}
		w := newWriter(t, c, ingest.Limits{Workers: 3})
		if took := submitAll(t, w, 1+15); took > time.Minute+time.Second || len(c.sizes()) != 2 {
			t.Errorf("took %v in batches of %v, want the others not to wait for the first", took, c.sizes())
		}
	})
}

func TestWithOneTenantACommitHasEntriesOfOneTenantOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		w := newWriter(t, c, ingest.Limits{BatchEntries: 3, OneTenant: true})
		var wg sync.WaitGroup
		for _, tenant := range []string{"first", "flood", "flood", "flood", "flood", "flood", "a", "b", "a"} {
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), draft(tenant, "s")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(c.gate)
		wg.Wait()
		var got []string
		for _, batch := range c.batches {
			tenant := string(batch[0].TenantID)
			for _, d := range batch {
				if string(d.TenantID) != tenant {
					t.Errorf("a batch has entries of %s and %s", tenant, d.TenantID)
				}
			}
			got = append(got, fmt.Sprint(tenant, len(batch)))
		}
		if want := []string{"first1", "flood3", "a2", "b1", "flood2"}; !slices.Equal(got, want) {
			t.Errorf("batches %v, want %v: tenants take turns", got, want)
		}
		_ = w.Close(t.Context())
	})
}
