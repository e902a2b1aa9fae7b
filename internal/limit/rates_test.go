package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/limit"
)

func TestRateAllowsABurstAndThenEvenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates[string](10, time.Second, 100)
		for i := range 10 {
			if b := r.Take("a"); !b.OK || b.Left != 9-i || b.Wait != 100*time.Millisecond {
				t.Fatalf("request %d: %+v", i, b)
			}
		}
		if b := r.Take("a"); b.OK || b.Left != 0 || b.Wait != 100*time.Millisecond {
			t.Fatalf("one above the rate: %+v", b)
		}
		if b := r.Take("b"); !b.OK || b.Left != 9 {
			t.Fatalf("another one: %+v", b)
		}
		time.Sleep(99 * time.Millisecond)
		if b := r.Take("a"); b.OK || b.Wait != time.Millisecond {
			t.Fatalf("a moment too early: %+v", b)
		}
		time.Sleep(time.Millisecond)
		if b := r.Take("a"); !b.OK || b.Left != 0 {
			t.Fatalf("when it was said: %+v", b)
		}
		if r.Take("a").OK {
			t.Fatal("and one more with it")
		}
		time.Sleep(time.Hour)
		if b := r.Take("a"); !b.OK || b.Left != 9 {
			t.Fatalf("after a long time: %+v", b)
		}
	})
}

func TestRateIsExactOverALongTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates[string](7, time.Second, 100)
		taken := 0
		for range 10_000 { // a hundred seconds
			if r.Take("a").OK {
				taken++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if taken < 700 || taken > 707 {
			t.Errorf("%d were taken in 100 s at 7/s", taken)
		}
	})
}

func TestReturnedRequestsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates[string](2, time.Hour, 100)
		for range 100 {
			if !r.Take("a").OK {
				t.Fatal("what was returned was counted")
			}
			r.Return("a")
		}
		r.Return("nobody")
		for i := range 3 {
			if ok := r.Take("a").OK; ok != (i < 2) {
				t.Errorf("then request %d of 2 is within the rate: %v", i+1, ok)
			}
		}
	})
}

func TestTableOfRatesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		r := limit.NewRates[int](100, time.Minute, size)
		for range 100 {
			r.Take(-1) // has used all
		}
		for i := range 20 * size {
			r.Take(i)
			if n := r.Len(); n > size {
				t.Fatalf("%d are remembered", n)
			}
		}
		if r.Take(-1).OK {
			t.Error("a flood of others has given one that used all of its rate a new one")
		}
		time.Sleep(time.Hour)
		for i := range size {
			r.Take(-2 - i)
		}
		if n := r.Len(); n > size {
			t.Errorf("%d are remembered", n)
		}
	})
}

func TestNilRatesLimitNothing(t *testing.T) {
	r := limit.NewRates[string](0, time.Second, 1)
	if r != nil {
		t.Fatal("a rate of 0 is one")
	}
	for range 1000 {
		if !r.Take("a").OK {
			t.Fatal("held back")
		}
	}
	r.Return("a")
	if count, window := r.Policy(); r.Len() != 0 || count != 0 || window != 0 {
		t.Error("it has a policy, or remembers")
	}
}

func BenchmarkRates(b *testing.B) {
	for name, r := range map[string]*limit.Rates[string]{"off": nil, "on": limit.NewRates[string](1<<30, time.Second, 1000)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Take("key_01kzdemo0000000000000000p2")
			}
		})
	}
}
