package telemetry

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func names(r *ranking) []string { return slices.Sorted(maps.Keys(r.named)) }

// A graph of a tenant would have gaps if keys of similar activity took turns.
func TestSimilarlyActiveKeysKeepTheirNames(t *testing.T) {
	r, random := newRanking(10), rand.New(rand.NewPCG(1, 2))
	var before []string
	for range 500 { // elections
		for range 300 {
			r.add(fmt.Sprintf("key-%02d", random.IntN(30)))
		}
		r.elect()
		if before == nil {
			before = names(r)
		}
		if now := names(r); !slices.Equal(now, before) {
			t.Fatalf("the names changed from %v to %v", before, now)
		}
	}
}

// With few keys, every key is named at once and forever, even after a long pause.
func TestFewKeysAreAllNamed(t *testing.T) {
	r := newRanking(3)
	r.add("rare")
	for range 1000 {
		r.add("busy")
		r.add("busier")
		r.elect()
	}
	if got := names(r); !slices.Equal(got, []string{"busier", "busy", "rare"}) || r.others != 0 || r.named["rare"].total != 1 {
		t.Errorf("named are %v, with %d events of others", got, r.others)
	}
}

func TestBusyKeyIsNamedInTheNextElection(t *testing.T) {
	r := newRanking(2)
	for range 10 {
		r.add("first")
		r.add("second")
	}
	r.add("second")
	for i := range 1000 {
		r.add(fmt.Sprintf("noise-%d", i)) // all different
		if i%4 == 0 {
			r.add("busy")
		}
	}
	if got := names(r); !slices.Equal(got, []string{"first", "second"}) || r.others != 1250 {
		t.Fatalf("before the election, named are %v, with %d events of others", got, r.others)
	}
	r.elect()
	if got := names(r); !slices.Equal(got, []string{"busy", "second"}) {
		t.Fatalf("named are %v", got)
	}
	r.add("busy")
	if n := r.named["busy"].total; n != 1 {
		t.Errorf("a series starts at %d, which would look like a burst", n)
	}
}

// Whatever keys clients send, memory is bounded, and until the first election every event is counted
// once.
func TestRankingIsBoundedAndComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRanking(rapid.IntRange(1, 5).Draw(t, "size"))
		elected := false
		for i, n := range rapid.SliceOf(rapid.IntRange(-1, 50)).Draw(t, "keys") {
			switch {
			case n < 0:
				r.elect()
				elected = true
			case n == 50:
				r.add(otherKey)
			default:
				r.add(strconv.Itoa(n))
			}
			sum := r.others
			for key, tally := range r.named {
				sum += tally.total
				if slices.ContainsFunc(r.candidates, func(c candidate) bool { return c.key == key }) {
					t.Fatalf("%s is named and a candidate", key)
				}
			}
			if !elected && sum != uint64(i+1) {
				t.Fatalf("counted %d of %d events", sum, i+1)
			}
			if len(r.named) > r.size || len(r.candidates) > maxCandidates || r.named[otherKey] != nil {
				t.Fatalf("%d named keys and %d candidates", len(r.named), len(r.candidates))
			}
		}
	})
}
