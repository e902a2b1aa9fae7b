package limit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"atrium/internal/limit"
)

func acquire(t *testing.T, s *limit.Semaphore[string], key string) {
	t.Helper()
	if err := s.Acquire(t.Context(), key); err != nil {
		t.Fatalf("%s is not admitted: %v", key, err)
	}
}

func TestOneKeyCannotTakeAllSlots(t *testing.T) {
	s := limit.NewSemaphore[string](limit.SemaphoreBounds{Slots: 8})
	taken := map[string]int{}
	for _, key := range []string{"a", "b", "c", "d"} {
		for s.Acquire(t.Context(), key) == nil {
			taken[key]++
		}
	}
	if taken["a"] != 4 || taken["b"] != 2 || taken["c"] != 1 || taken["d"] != 1 {
		t.Errorf("holders by key: %v, want a:4 b:2 c:1 d:1", taken)
	}
	if s.Held() != 8 {
		t.Errorf("%d slots are held", s.Held())
	}
}

func TestASingleSlotCanBeHeld(t *testing.T) {
	s := limit.NewSemaphore[string](limit.SemaphoreBounds{Slots: 1})
	acquire(t, s, "a")
	if err := s.Acquire(t.Context(), "b"); !errors.Is(err, limit.ErrBusy) {
		t.Errorf("a second slot: %v", err)
	}
	s.Release("a")
	acquire(t, s, "b")
}

func TestNoKeyHoldsMoreThanEach(t *testing.T) {
	s := limit.NewSemaphore[string](limit.SemaphoreBounds{Slots: 100, Each: 2})
	acquire(t, s, "a")
	acquire(t, s, "a")
	if err := s.Acquire(t.Context(), "a"); !errors.Is(err, limit.ErrBusy) {
		t.Errorf("a third slot: %v", err)
	}
}

func TestLongQueueOfOneKeyDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limit.NewSemaphore[string](limit.SemaphoreBounds{Slots: 1, Waiting: 100})
		acquire(t, s, "a")
		var mu sync.Mutex
		var order []string
		wait := func(key string) {
			go func() {
				if s.Acquire(t.Context(), key) != nil {
					return
				}
				mu.Lock()
				order = append(order, key)
				mu.Unlock()
				s.Release(key)
			}()
			synctest.Wait()
		}
		for range 50 {
			wait("a")
		}
		wait("b")
		wait("c")
		wait("b")
		s.Release("a")
		synctest.Wait()
		if len(order) != 53 || !slices.Equal(order[:6], []string{"a", "b", "c", "a", "b", "a"}) {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestWaiterIsRefusedByQueueLengthOrTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limit.NewSemaphore[string](limit.SemaphoreBounds{Slots: 1, Waiting: 1, Timeout: time.Second})
		acquire(t, s, "a")
		waited := make(chan error, 1)
		go func() { waited <- s.Acquire(t.Context(), "b") }()
		synctest.Wait()
		if err := s.Acquire(t.Context(), "b"); !errors.Is(err, limit.ErrBusy) {
			t.Errorf("a second waiter: %v", err)
		}
		if err := <-waited; !errors.Is(err, limit.ErrBusy) {
			t.Errorf("after the timeout: %v", err)
		}
		ended := errors.New("ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { waited <- s.Acquire(ctx, "c") }()
		synctest.Wait()
		cancel(ended)
		if err := <-waited; !errors.Is(err, ended) {
			t.Errorf("after the context ended: %v", err)
		}
		s.Release("a")
		acquire(t, s, "d") // no slot is granted to a waiter that has left
	})
}

func TestEverySlotIsReturnedAndEveryWaiterServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := limit.NewSemaphore[int](limit.SemaphoreBounds{Slots: rapid.IntRange(1, 5).Draw(t, "slots"), Waiting: 1000})
		var all sync.WaitGroup
		for _, key := range rapid.SliceOfN(rapid.IntRange(1, 4), 1, 100).Draw(t, "keys") {
			all.Go(func() {
				ctx := context.Background()
				if key == 4 { // sometimes times out
					short, cancel := context.WithTimeout(ctx, time.Microsecond)
					defer cancel()
					ctx = short
				}
				_ = s.Do(ctx, key, func() error { return nil })
			})
		}
		all.Wait()
		if s.Held() != 0 {
			t.Fatalf("%d slots are held at the end", s.Held())
		}
	})
}

func TestNilSemaphoreHasNoLimit(t *testing.T) {
	s := limit.NewSemaphore[string](limit.SemaphoreBounds{})
	for range 100 {
		acquire(t, s, "a")
	}
	s.Release("a")
	if s.Held() != 0 {
		t.Error("slots are held")
	}
}

func TestKeysOfAGroupShareTheSlotsOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limit.NewGroupedSemaphore(limit.SemaphoreBounds{Slots: 2, Waiting: 1}, func(key string) string { return key[:1] })
		acquire(t, s, "a")
		waited := make(chan error, 1)
		go func() { waited <- s.Acquire(t.Context(), "a, second queue") }()
		synctest.Wait()
		acquire(t, s, "b")
		s.Release("b")
		synctest.Wait()
		if len(waited) > 0 || s.Held() != 1 {
			t.Errorf("a group holds %d slots", s.Held())
		}
		s.Release("a")
		if err := <-waited; err != nil {
			t.Error(err)
		}
		s.Release("a, second queue")
		if n := s.Held(); n != 0 {
			t.Errorf("%d slots are held", n)
		}
	})
}
