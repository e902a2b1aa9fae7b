package ingest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/ingest"
)

// A commits is a Store that records its batches. A commit takes one second, or the time given in
// take. With a gate, each commit first waits for a token.
type commits struct {
	take time.Duration
	gate chan struct{}
	fail func([]*atrium.Draft) error

	mu      sync.Mutex
	batches [][]*atrium.Draft // guarded by mu; the committed batches
}

func (c *commits) Append(_ context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	if c.gate != nil {
		<-c.gate
	}
	time.Sleep(cmp.Or(c.take, time.Second))
	if c.fail != nil {
		if err := c.fail(drafts); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, drafts)
	outcomes := make([]atrium.Outcome, len(drafts))
	for i, d := range drafts {
		outcomes[i].EntryID = d.ID
	}
	return outcomes, nil
}

func (c *commits) TryAppend(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	return c.Append(ctx, drafts)
}

func (c *commits) sizes() (sizes []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.batches {
		sizes = append(sizes, len(b))
	}
	return sizes
}

func draft(tenant, source string) *atrium.Draft {
	return &atrium.Draft{
		TenantID:   atrium.TenantID(tenant),
		Submission: atrium.Submission{Source: source, Type: "t", Payload: []byte("{}")},
	}
}

func newWriter(t *testing.T, c *commits, limits ingest.Limits) *ingest.Writer {
	t.Helper()
	return ingest.NewWriter(c, limits, slog.New(slog.DiscardHandler), nil, nil)
}

func wantUnavailable(t *testing.T, err error, cause error) {
	t.Helper()
	if atrium.CodeOf(err) != atrium.CodeUnavailable || !errors.Is(err, cause) {
		t.Errorf("error is %v, want unavailable because of %v", err, cause)
	}
}

func TestALoneEntryIsCommittedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, &commits{}, ingest.Limits{})
		start := time.Now()
		r, err := w.Submit(t.Context(), draft("a", "s"))
		if err != nil || r.EntryID == "" {
			t.Errorf("%+v, %v", r, err)
		}
		if took := time.Since(start); took != time.Second { // only the commit, on the fake clock
			t.Errorf("took %v", took)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEntriesThatArriveDuringACommitFormTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{}
		w := newWriter(t, c, ingest.Limits{BatchEntries: 50})
		var wg sync.WaitGroup
		for i := range 121 {
			wg.Go(func() {
				if i > 0 {
					time.Sleep(time.Millisecond)
				}
				if _, err := w.Submit(t.Context(), draft("a", "s")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := fmt.Sprint(c.sizes()); got != "[1 50 50 20]" {
			t.Errorf("batches of %s", got)
		}
		_ = w.Close(t.Context())
	})
}

// A deferrals is a Store that stores up to n drafts of a commit and defers the others.
type deferrals struct {
	commits
	n atomic.Int64
}

func (d *deferrals) TryAppend(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	stored := drafts[:min(int(d.n.Load()), len(drafts))]
	outcomes, err := d.Append(ctx, stored)
	for range len(drafts) - len(stored) {
		outcomes = append(outcomes, atrium.Outcome{Err: atrium.ErrDeferred})
	}
	return outcomes, err
}

func TestDeferredEntriesAreStoredByTheNextCommitsInOrder(t *testing.T) {
	for closing, want := range map[bool]string{
		false: "[[first] [a0 b0 a1] [a2 a3 a4] [a5 a6]]",
		true:  "[[first] [a0 b0 a1] [a2 a3 a4 a5 a6]]", // without further deferral
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &deferrals{}
			c.n.Store(3)
			w := ingest.NewWriter(c, ingest.Limits{}, slog.New(slog.DiscardHandler), nil, nil)
			var wg sync.WaitGroup
			submit := func(tenant, source string) {
				wg.Go(func() {
					if r, err := w.Submit(t.Context(), draft(tenant, source)); err != nil || r.EntryID == "" {
						t.Errorf("%s: %+v, %v", source, r, err)
					}
				})
				synctest.Wait()
			}
			submit("a", "first")
			for i := range 7 {
				submit("a", fmt.Sprint("a", i))
			}
			submit("b", "b0")
			if closing {
				time.Sleep(1500 * time.Millisecond) // during the second commit
			} else {
				wg.Wait()
			}
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
			wg.Wait()
			var got []string
			for _, batch := range c.batches {
				var sources []string
				for _, d := range batch {
					sources = append(sources, d.Source)
				}
				got = append(got, fmt.Sprint(sources))
			}
			if fmt.Sprint(got) != want {
				t.Errorf("commits %s, want %s", got, want)
			}
		})
	}
}

func TestCommitsAreSmallAfterDeferredEntriesAndGrowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &deferrals{}
		c.n.Store(20)
		w := ingest.NewWriter(c, ingest.Limits{}, slog.New(slog.DiscardHandler), nil, nil)
		var wg sync.WaitGroup
		for i := range 1 + 256 + 500 {
			wg.Go(func() {
				if i > 0 {
					time.Sleep(time.Millisecond)
				}
				_, _ = w.Submit(t.Context(), draft("a", "s"))
			})
		}
		time.Sleep(3500 * time.Millisecond) // during the fourth commit
		c.n.Store(1000)
		wg.Wait()
		if got, want := fmt.Sprint(c.sizes()), "[1 20 20 20 64 128 256 248]"; got != want {
			t.Errorf("commits of %s, want %s", got, want)
		}
		_ = w.Close(t.Context())
	})
}

func TestSubmitReturnsAfterTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		w := newWriter(t, c, ingest.Limits{})
		returned := make(chan error, 1)
		go func() {
			_, err := w.Submit(t.Context(), draft("a", "s"))
			returned <- err
		}()
		synctest.Wait()
		select {
		case err := <-returned:
			t.Fatalf("Submit returned %v before the commit", err)
		default:
		}
		c.gate <- struct{}{}
		if err := <-returned; err != nil || len(c.sizes()) != 1 {
			t.Errorf("%v, batches %v", err, c.sizes())
		}
		_ = w.Close(t.Context())
	})
}

func TestAFloodingTenantDelaysAnotherByOneBatchAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		w := newWriter(t, c, ingest.Limits{BatchEntries: 10})
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() { _, _ = w.Submit(t.Context(), draft("flood", "s")) })
		}
		synctest.Wait()
		wg.Go(func() { _, _ = w.Submit(t.Context(), draft("other", "wanted")) })
		synctest.Wait()
		for range 30 {
			select {
			case c.gate <- struct{}{}:
				time.Sleep(2 * time.Second)
			case <-time.After(time.Minute):
			}
		}
		wg.Wait()
		for n, batch := range c.batches {
			for _, d := range batch {
				if d.Source == "wanted" && n > 1 {
					t.Errorf("the other tenant's entry is in batch %d", n)
				}
			}
		}
		_ = w.Close(t.Context())
	})
}

func TestAFullQueueRejectsEntriesOfTheTenantWithMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		w := newWriter(t, c, ingest.Limits{QueueEntries: 10, BatchEntries: 1})
		type result struct {
			tenant string
			err    error
		}
		results := make(chan result, 100)
		submit := func(tenant string, n int) {
			for range n {
				go func() {
					_, err := w.Submit(t.Context(), draft(tenant, "s"))
					results <- result{tenant, err}
				}()
				synctest.Wait()
			}
		}
		submit("flood", 20) // one is in flight, ten wait, nine are rejected
		submit("other", 3)  // each displaces an entry of flood
		if n := w.Waiting(); n != 10 {
			t.Errorf("%d wait", n)
		}
		close(c.gate)
		refused := map[string]int{}
		for range 23 {
			if r := <-results; r.err != nil {
				wantUnavailable(t, r.err, ingest.ErrFull)
				refused[r.tenant]++
			}
		}
		if refused["flood"] != 12 || refused["other"] != 0 {
			t.Errorf("refused %v", refused)
		}
		_ = w.Close(t.Context())
	})
}

func TestTheQueueAndBatchesAreLimitedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		big := func() *atrium.Draft {
			d := draft("a", "s")
			d.Payload = make([]byte, 10_000)
			return d
		}
		w := newWriter(t, c, ingest.Limits{QueueBytes: 5 * big().Size(), BatchBytes: 2 * big().Size()})
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range 8 {
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), big()); err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
			synctest.Wait()
		}
		close(c.gate)
		wg.Wait()
		if got := fmt.Sprint(c.sizes()); got != "[1 2 2 1]" || refused != 2 {
			t.Errorf("batches of %s, %d refused", got, refused)
		}
		_ = w.Close(t.Context())
	})
}

func TestACanceledSubmissionIsStillStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{}
		w := newWriter(t, c, ingest.Limits{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := w.Submit(ctx, draft("a", "s"))
		wantUnavailable(t, err, context.DeadlineExceeded)
		if err := w.Close(t.Context()); err != nil || len(c.sizes()) != 1 {
			t.Errorf("%v, batches %v", err, c.sizes())
		}
	})
}

func TestAnInvalidEntryFailsAlone(t *testing.T) {
	for name, fault := range map[string]func() error{
		"error": func() error { return errors.New("a bad entry") },
		"panic": func() error { panic("a bad entry") },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &commits{gate: make(chan struct{})}
			c.fail = func(drafts []*atrium.Draft) error {
				for _, d := range drafts {
					if d.Source == "bad" {
						return fault()
					}
				}
				return nil
			}
			w := newWriter(t, c, ingest.Limits{})
			var wg sync.WaitGroup
			for i := range 10 {
				source := "good"
				if i == 5 {
					source = "bad"
				}
				wg.Go(func() {
					_, err := w.Submit(t.Context(), draft("a", source))
					if (err != nil) != (source == "bad") {
						t.Errorf("%s: a %s entry got %v", name, source, err)
					}
				})
				synctest.Wait()
			}
			close(c.gate)
			wg.Wait()
			_ = w.Close(t.Context())
		})
	}
}

func TestUnavailableStorageFailsTheWholeBatchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("unreachable")
		calls := 0
		c := &commits{gate: make(chan struct{})}
		c.fail = func([]*atrium.Draft) error { calls++; return atrium.Unavailable(away) }
		w := newWriter(t, c, ingest.Limits{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := w.Submit(t.Context(), draft("a", "s"))
				wantUnavailable(t, err, away)
			})
			synctest.Wait()
		}
		close(c.gate)
		wg.Wait()
		if calls != 2 {
			t.Errorf("the store was called %d times, want 2", calls)
		}
		_ = w.Close(t.Context())
	})
}

func TestCloseCommitsQueuedEntriesAndRefusesNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{}
		w := newWriter(t, c, ingest.Limits{BatchEntries: 2})
		var wg sync.WaitGroup
		for range 7 {
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), draft("a", "s")); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
		_, err := w.Submit(t.Context(), draft("a", "s"))
		wantUnavailable(t, err, ingest.ErrClosed)
	})
}

func TestCloseReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commits{gate: make(chan struct{})}
		w := newWriter(t, c, ingest.Limits{})
		go func() { _, _ = w.Submit(context.Background(), draft("a", "s")) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed with %v", err)
		}
		close(c.gate)
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
