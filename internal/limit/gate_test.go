package limit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/limit"
)

func enter(t *testing.T, g *limit.Gate) {
	t.Helper()
	if err := g.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhoComesFirstToABusyGateIsTheFirstInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limit.NewGate(2, time.Minute)
		enter(t, g)
		enter(t, g)
		var order []int
		var mu sync.Mutex
		for i := range 2 {
			go func() {
				if err := g.Enter(context.Background()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			synctest.Wait()
		}
		g.Leave()
		synctest.Wait()
		g.Leave()
		synctest.Wait()
		if len(order) != 2 || order[0] != 0 || order[1] != 1 {
			t.Errorf("they came in as %v", order)
		}
		if g.Inside() != 2 {
			t.Errorf("%d are inside", g.Inside())
		}
	})
}

func TestAGateRefusesWhoHasWaitedEnoughAndAtOnceWhoFindsAllPlacesTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limit.NewGate(3, time.Second)
		for range 3 {
			enter(t, g)
		}
		start := time.Now()
		refused := make(chan error, 3)
		for range 3 {
			go func() { refused <- g.Enter(context.Background()) }()
		}
		synctest.Wait()
		if err := g.Enter(t.Context()); !errors.Is(err, limit.ErrBusy) || time.Since(start) > 0 {
			t.Errorf("with as many waiting as may: %v after %v", err, time.Since(start))
		}
		for range 3 {
			if err := <-refused; !errors.Is(err, limit.ErrBusy) || time.Since(start) != time.Second {
				t.Errorf("who waited: %v after %v", err, time.Since(start))
			}
		}
		g.Leave()
		enter(t, g)
	})
}

func TestWhoGivesUpAtAGateLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limit.NewGate(1, time.Minute)
		enter(t, g)
		for range 100 { // would fill the places many times
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := g.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		g.Leave()
		enter(t, g)
	})
}

func TestAGateWithoutPatienceRefusesAtOnceAndNoGateNobody(t *testing.T) {
	g := limit.NewGate(1, 0)
	enter(t, g)
	if err := g.Enter(t.Context()); !errors.Is(err, limit.ErrBusy) {
		t.Error(err)
	}
	none := limit.NewGate(0, time.Second)
	for range 1000 {
		enter(t, none)
	}
	none.Leave()
}

func BenchmarkGate(b *testing.B) {
	for name, g := range map[string]*limit.Gate{"off": nil, "on": limit.NewGate(2048, time.Second)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = g.Enter(b.Context())
				g.Leave()
			}
		})
	}
}
