package limit_test

import (
	"testing"

	"pgregory.net/rapid"

	"atrium/internal/limit"
)

// all takes as much as a key gets, in steps of 1, and returns the amount.
func all(b *limit.Quota[string], key string) (n int64) {
	for b.Take(key, 1) {
		n++
	}
	return n
}

func TestOneKeyGetsHalfOfAQuotaAndTwoAThirdEach(t *testing.T) {
	b := limit.NewQuota[string](600)
	if n := all(b, "a"); n != 300 {
		t.Errorf("a single key gets %d, want 300", n)
	}
	if n := all(b, "b"); n != 150 {
		t.Errorf("the second key gets %d, want 150", n)
	}
	b.Return("a", 100)
	if n := all(b, "b"); n != 50 {
		t.Errorf("after a partial return, the second key gets %d more, want 50", n)
	}
	b.Return("a", 200)
	b.Return("b", 200)
	if n := all(b, "c"); n != 300 {
		t.Errorf("after a full return, a single key gets %d, want 300", n)
	}
	if none := (*limit.Quota[string])(nil); !none.Take("a", 1<<60) {
		t.Error("a nil quota is limited")
	}
}

func TestKeyHoldsAtMostWhatRemains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const total = 1000
		b, held, sum := limit.NewQuota[int](total), map[int]int64{}, int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			key, n := rapid.IntRange(0, 5).Draw(t, "key"), rapid.Int64Range(0, 400).Draw(t, "n")
			if rapid.Bool().Draw(t, "return") {
				n = min(n, held[key])
				b.Return(key, n)
				held[key] -= n
				sum -= n
				continue
			}
			may := held[key]+n <= total-sum-n
			if got := b.Take(key, n); got != may {
				t.Fatalf("%d of %d are held; key %d holds %d and takes %d: %v", sum, total, key, held[key], n, got)
			}
			if may {
				held[key] += n
				sum += n
			}
		}
	})
}

func TestGuaranteeHoldsWhenTheQuotaIsUsedUp(t *testing.T) {
	b := limit.NewQuota[string](10_000).Guarantee(10, 20)
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		all(b, key)
	}
	for _, key := range []string{"late", "later"} {
		if !b.Take(key, 10) {
			t.Errorf("%s does not get its guarantee", key)
		}
		if b.Take(key, 1) {
			t.Errorf("%s gets more than its guarantee", key)
		}
	}
	if b.Take("last", 10) {
		t.Error("the guarantees exceed their sum")
	}
	b.Return("late", 10)
	if !b.Take("last", 10) {
		t.Error("a returned guarantee is lost")
	}
	for _, key := range []string{"last", "later"} {
		b.Return(key, 10)
	}
	if b.Take("a", 2); all(b, "late") < 10 || all(b, "later") < 10 {
		t.Error("returned guarantees are lost")
	}
}
