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
			t.Fatalf("request above the rate: %+v", b)
		}
		if b := r.Take("b"); !b.OK || b.Left != 9 {
			t.Fatalf("request of another key: %+v", b)
		}
		time.Sleep(99 * time.Millisecond)
		if b := r.Take("a"); b.OK || b.Wait != time.Millisecond {
			t.Fatalf("request 1 ms before Wait has passed: %+v", b)
		}
		time.Sleep(time.Millisecond)
		if b := r.Take("a"); !b.OK || b.Left != 0 {
			t.Fatalf("request after Wait has passed: %+v", b)
		}
		if r.Take("a").OK {
			t.Fatal("another request at the same time was allowed")
		}
		time.Sleep(time.Hour)
		if b := r.Take("a"); !b.OK || b.Left != 9 {
			t.Fatalf("request after an hour: %+v", b)
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
			t.Errorf("%d requests were allowed in 100 s at 7/s", taken)
		}
	})
}

func TestAddedRequestsDelayLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates[string](10, time.Second, 1)
		r.Add("a", 4)
		if b := r.Take("a"); !b.OK || b.Left != 5 {
			t.Errorf("after 4 requests: %+v", b)
		}
		r.Add("a", 25)
		if b := r.Take("a"); b.OK || b.Wait != 2100*time.Millisecond {
			t.Errorf("after 30 requests: %+v", b)
		}
		r.Add("b", 1)
		if r.Len() != 1 {
			t.Errorf("%d keys are remembered, want 1", r.Len())
		}
		var none *limit.Rates[string]
		none.Add("a", 1)
	})
}

func TestReturnedRequestsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates[string](2, time.Hour, 100)
		for range 100 {
			if !r.Take("a").OK {
				t.Fatal("a returned request was counted")
			}
			r.Return("a")
		}
		r.Return("unknown")
		for i := range 3 {
			if ok := r.Take("a").OK; ok != (i < 2) {
				t.Errorf("request %d at 2 per hour: allowed %v", i+1, ok)
			}
		}
	})
}

func TestTableOfRatesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		r := limit.NewRates[int](100, time.Minute, size)
		for range 100 {
			r.Take(-1) // uses up the rate
		}
		for i := range 20 * size {
			r.Take(i)
			if n := r.Len(); n > size {
				t.Fatalf("%d keys are remembered, want at most %d", n, size)
			}
		}
		if r.Take(-1).OK {
			t.Error("a flood of other keys reset a key that had used up its rate")
		}
		time.Sleep(time.Hour)
		for i := range size {
			r.Take(-2 - i)
		}
		if n := r.Len(); n > size {
			t.Errorf("%d keys are remembered, want at most %d", n, size)
		}
	})
}

func TestNilRatesLimitNothing(t *testing.T) {
	r := limit.NewRates[string](0, time.Second, 1)
	if r != nil {
		t.Fatal("a rate of 0 is not nil")
	}
	for range 1000 {
		if !r.Take("a").OK {
			t.Fatal("a request was refused")
		}
	}
	r.Return("a")
	if count, window := r.Policy(); r.Len() != 0 || count != 0 || window != 0 {
		t.Error("nil Rates have a policy or remember keys")
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
