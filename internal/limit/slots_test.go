package limit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"atrium"
	"atrium/internal/limit"
)

func TestSlotsLetSoManyThroughAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limit.NewSlots(3)
		var inside, most atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				err := g.Do(t.Context(), func() error {
					most.Store(max(most.Load(), inside.Add(1)))
					time.Sleep(time.Second)
					inside.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 3 {
			t.Errorf("%d were inside at once", most.Load())
		}
	})
}

func TestASlotIsLeftWithErrorsAndWithTheContext(t *testing.T) {
	g := limit.NewSlots(1)
	bad := errors.New("bad")
	for range 3 {
		if err := g.Do(t.Context(), func() error { return bad }); !errors.Is(err, bad) {
			t.Errorf("error %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := g.Do(t.Context(), func() error {
		return g.Do(ctx, func() error { t.Error("two are inside"); return nil })
	})
	if atrium.CodeOf(err) != atrium.CodeUnavailable {
		t.Errorf("error %v", err)
	}
}
