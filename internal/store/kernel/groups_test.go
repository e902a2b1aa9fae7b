package kernel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
)

// A grouping calls Do and records the groups that ran.
type grouping struct {
	groups Groups[int]

	mu  sync.Mutex
	ran [][]int // guarded by mu
}

// do calls Do in a goroutine; its group takes a second.
func (g *grouping) do(ctx context.Context, tenant atrium.TenantID, item int) (result chan error) {
	result = make(chan error, 1)
	go func() {
		result <- g.groups.Do(ctx, tenant, item, func(group []int) {
			g.mu.Lock()
			g.ran = append(g.ran, slices.Clone(group))
			g.mu.Unlock()
			time.Sleep(time.Second)
		})
	}()
	synctest.Wait()
	return result
}

func (g *grouping) want(t *testing.T, want ...[]int) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.EqualFunc(g.ran, want, slices.Equal) {
		t.Errorf("the groups %v have run, want %v", g.ran, want)
	}
}

func TestCallsThatWaitForAGroupOfTheirTenantFormTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g grouping
		var results []chan error
		for i := range maxGroup + 3 {
			results = append(results, g.do(t.Context(), "a", i))
		}
		results = append(results, g.do(t.Context(), "b", 100))
		var next []int
		for i := range maxGroup {
			next = append(next, i+1)
		}
		g.want(t, []int{0}, []int{100})
		time.Sleep(time.Second)
		synctest.Wait()
		g.want(t, []int{0}, []int{100}, next)
		select {
		case err := <-results[1]:
			t.Errorf("Do returned %v before its group had ended", err)
		default:
		}
		for _, r := range results {
			if err := <-r; err != nil {
				t.Error(err)
			}
		}
		g.want(t, []int{0}, []int{100}, next, []int{maxGroup + 1, maxGroup + 2})
		if n := len(g.groups.waiting); n != 0 {
			t.Errorf("%d tenants are still known", n)
		}
	})
}

func TestACallThatEndsWhileItWaitsIsInNoGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g grouping
		ctx, cancel := context.WithCancelCause(t.Context())
		first, abandoned, last := g.do(t.Context(), "a", 1), g.do(ctx, "a", 2), g.do(t.Context(), "a", 3)
		gone := errors.New("gone")
		cancel(gone)
		if err := <-abandoned; !errors.Is(err, gone) {
			t.Errorf("error %v, want the cause", err)
		}
		if err := errors.Join(<-first, <-last); err != nil {
			t.Error(err)
		}
		g.want(t, []int{1}, []int{3})
	})
}

func TestAPanicEndsTheGroupForAllOfItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g grouping
		first := g.do(t.Context(), "a", 1)
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_ = g.groups.Do(t.Context(), "a", 2, func([]int) { panic("two") })
		}()
		synctest.Wait()
		second, third := g.do(t.Context(), "a", 3), make(chan error, 1)
		go func() { third <- g.groups.Do(t.Context(), "b", 4, func([]int) {}) }()
		if err := errors.Join(<-first, <-second, <-third); err != nil || <-panicked != "two" {
			t.Errorf("the other calls: %v", err)
		}
	})
}
