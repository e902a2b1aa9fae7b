package ingest_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/ingest"
)

// A locks is a Store on which other transactions hold locks for some tenants. A commit takes a
// millisecond, and with a draft of such a tenant a minute.
type locks struct {
	commits

	mu   sync.Mutex
	held map[atrium.TenantID]bool // guarded by mu
}

func newLocks(tenants ...atrium.TenantID) *locks {
	l := &locks{commits: commits{take: time.Millisecond}, held: map[atrium.TenantID]bool{}}
	for _, t := range tenants {
		l.held[t] = true
	}
	return l
}

func (l *locks) holds(drafts []*atrium.Draft) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(drafts, func(d *atrium.Draft) bool { return l.held[d.TenantID] })
}

func (l *locks) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.held)
}

func (l *locks) TryAppend(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	if l.holds(drafts) {
		time.Sleep(50 * time.Millisecond)
		return nil, atrium.ErrLocked
	}
	return l.Append(ctx, drafts)
}

func (l *locks) Append(ctx context.Context, drafts []*atrium.Draft) ([]atrium.Outcome, error) {
	if l.holds(drafts) {
		time.Sleep(time.Minute)
	}
	return l.commits.Append(ctx, drafts)
}

func (l *locks) start(t *testing.T, workers int) *ingest.Writer {
	t.Helper()
	return ingest.NewWriter(l, ingest.Limits{Workers: workers}, slog.New(slog.DiscardHandler), nil, nil)
}

func TestEntriesThatWaitForALockDelayNoOtherTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks("a", "b")
		w := l.start(t, 1)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 1000 {
			locked := i%100 == 0
			tenant := "tenant " + strconv.Itoa(i%97)
			if locked {
				tenant = []string{"a", "b"}[i/100%2]
			}
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), draft(tenant, "s")); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); !locked && took > 2*time.Second {
					t.Errorf("an entry took %v because of the locks of another tenant", took)
				} else if locked && took < time.Minute {
					t.Errorf("an entry was committed after %v, while its account was locked", took)
				} else if locked && took > 90*time.Second { // the other tenant's locks took another minute
					t.Errorf("an entry took %v because of the locks of another tenant", took)
				}
			})
		}
		wg.Wait()
		_ = w.Close(t.Context())
	})
}

func TestADelayedTenantKeepsTheOrderOfItsEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks("a")
		w := l.start(t, 1)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { _, _ = w.Submit(t.Context(), draft("a", strconv.Itoa(i))) })
			synctest.Wait()
			if i == 50 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(time.Minute)
		l.release()
		wg.Wait()
		_ = w.Close(t.Context())
		next := 0
		for _, batch := range l.batches {
			for _, d := range batch {
				if d.Source != strconv.Itoa(next) {
					t.Fatalf("entry %s was committed in place of %d", d.Source, next)
				}
				next++
			}
		}
		if next != 100 {
			t.Errorf("%d entries were committed", next)
		}
	})
}

func TestATenantIsDelayedUntilItsLocksAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks("a")
		w := l.start(t, 1)
		submit := func(tenant string) {
			if _, err := w.Submit(t.Context(), draft(tenant, "s")); err != nil {
				t.Error(err)
			}
		}
		submit("a")
		l.release()
		time.Sleep(time.Minute)
		l.take = 10 * time.Second // the next ones arrive during a commit, and share the one after it
		var wg sync.WaitGroup
		wg.Go(func() { submit("b") })
		synctest.Wait()
		wg.Go(func() { submit("a") })
		wg.Go(func() { submit("b") })
		wg.Wait()
		_ = w.Close(t.Context())
		if last := l.batches[len(l.batches)-1]; len(last) != 2 {
			t.Errorf("the last batch has %d entries, want one of each tenant", len(last))
		}
	})
}

func TestCloseCommitsTheEntriesOfDelayedTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLocks("a", "b")
		w := l.start(t, 2)
		var wg sync.WaitGroup
		for _, tenant := range []string{"a", "b", "c", "a"} {
			wg.Go(func() {
				if _, err := w.Submit(t.Context(), draft(tenant, "s")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

// lateCommits is a Store whose first commit of a batch has an unknown outcome and still holds its
// locks, and whose later commits fail.
type lateCommits struct{}

func (lateCommits) TryAppend(context.Context, []*atrium.Draft) ([]atrium.Outcome, error) {
	return nil, errors.Join(atrium.ErrLocked, atrium.Uncertain(errors.New("the connection was cut")))
}

func (lateCommits) Append(context.Context, []*atrium.Draft) ([]atrium.Outcome, error) {
	return nil, atrium.Unavailable(errors.New("timeout"))
}

func TestEntryOfAnUncertainCommitIsNotReportedAsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := ingest.NewWriter(lateCommits{}, ingest.Limits{Workers: 1}, slog.New(slog.DiscardHandler), nil, nil)
		defer func() {
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		want := atrium.Uncertain(nil).Detail
		var submissions sync.WaitGroup
		for i := range 4 { // of several tenants, so that their batch is divided
			submissions.Go(func() {
				_, err := w.Submit(t.Context(), draft("tenant "+strconv.Itoa(i), "s"))
				if e, ok := errors.AsType[*atrium.Error](err); !ok || e.Detail != want {
					t.Errorf("%v, want %q", err, want)
				}
			})
		}
		submissions.Wait()
	})
}
