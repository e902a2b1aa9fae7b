package limit_test

import (
	"testing"

	"pgregory.net/rapid"

	"atrium/internal/limit"
)

// all takes as much as who is given, one by one.
func all(b *limit.Pool[string], who string) (n int64) {
	for b.Take(who, 1) {
		n++
	}
	return n
}

func TestOneAloneHasHalfOfAPoolAndTwoAThird(t *testing.T) {
	b := limit.NewPool[string](600)
	if n := all(b, "a"); n != 300 {
		t.Errorf("one has %d", n)
	}
	if n := all(b, "b"); n != 150 {
		t.Errorf("who comes next has %d", n)
	}
	b.Return("a", 100)
	if n := all(b, "b"); n != 50 {
		t.Errorf("when the other has a third there are %d more", n)
	}
	b.Return("a", 200)
	b.Return("b", 200)
	if n := all(b, "c"); n != 300 {
		t.Errorf("when all is returned, one has %d", n)
	}
	if none := (*limit.Pool[string])(nil); !none.Take("a", 1<<60) {
		t.Error("no pool has an end")
	}
}

func TestNobodyHoldsMoreThanIsLeftForOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const total = 1000
		b, held, sum := limit.NewPool[int](total), map[int]int64{}, int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			who, n := rapid.IntRange(0, 5).Draw(t, "who"), rapid.Int64Range(0, 400).Draw(t, "n")
			if rapid.Bool().Draw(t, "return") {
				n = min(n, held[who])
				b.Return(who, n)
				held[who] -= n
				sum -= n
				continue
			}
			may := held[who]+n <= total-sum-n
			if got := b.Take(who, n); got != may {
				t.Fatalf("%d of %d are held: %d has %d and may have %d more: %v", sum, total, who, held[who], n, got)
			}
			if may {
				held[who] += n
				sum += n
			}
		}
	})
}

func TestEachHasWhatIsGuaranteedHoweverManyCameBefore(t *testing.T) {
	b := limit.NewPool[string](10_000).Guarantee(10, 20)
	for _, who := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		all(b, who)
	}
	for _, who := range []string{"late", "later"} {
		if !b.Take(who, 10) {
			t.Errorf("%s does not get what is guaranteed", who)
		}
		if b.Take(who, 1) {
			t.Errorf("%s gets more", who)
		}
	}
	if b.Take("last", 10) {
		t.Error("more is guaranteed than there is")
	}
	b.Return("late", 10)
	if !b.Take("last", 10) {
		t.Error("what was returned is not there again")
	}
	for _, who := range []string{"last", "later"} {
		b.Return(who, 10)
	}
	if b.Take("a", 2); all(b, "late") < 10 || all(b, "later") < 10 {
		t.Error("the guarantee is used up when all of it was returned")
	}
}
