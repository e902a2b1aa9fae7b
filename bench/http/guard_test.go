package main

import (
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRatioFailsOnlyBelowItsTolerance(t *testing.T) {
	rows := []reference{
		{"sqlite", "GET", rateRatio, 0.50, 0.20},
		{"sqlite", "GET", processorRatio, 0.60, 0.10},
		{"postgres", "GET", rateRatio, 0.30, 0.40},
	}
	measured := map[key]float64{
		{"sqlite", "GET", rateRatio}:      0.41, // reference 0.40
		{"sqlite", "GET", processorRatio}: 0.53, // reference 0.54
		{"postgres", "GET", rateRatio}:    0.90,
	}
	_, fallen, err := judge(rows, measured)
	if err != nil || len(fallen) != 1 || fallen[0] != rows[1] {
		t.Errorf("fell: %v, %v", fallen, err)
	}
}

func TestMissingMeasurementOrReferenceFails(t *testing.T) {
	k := key{"sqlite", "GET", rateRatio}
	rows := []reference{{"sqlite", "GET", rateRatio, 0.5, 0.2}}
	if _, _, err := judge(rows, map[key]float64{}); err == nil {
		t.Error("a missing measurement did not fail")
	}
	if _, _, err := judge(rows, map[key]float64{k: math.NaN()}); err == nil {
		t.Error("a NaN ratio did not fail")
	}
	if got := unguarded(rows, map[key]float64{k: 0.5}); len(got) != 0 {
		t.Errorf("%v has a reference", got)
	}
	if got := unguarded(nil, map[key]float64{k: 0.5}); len(got) != 1 {
		t.Errorf("%v has none", got)
	}
}

func TestToleranceFollowsTheSpreadWithinLimits(t *testing.T) {
	for _, test := range []struct {
		medians          []float64
		least, tolerance float64
	}{
		{[]float64{0.50, 0.50, 0.50}, 0.50, leastTolerance},
		{[]float64{0.50, 0.45, 0.48}, 0.45, 0.20},
		{[]float64{0.50, 0.20, 0.50}, 0.20, mostTolerance},
	} {
		rows := refer(map[key][]float64{{"sqlite", "GET", rateRatio}: test.medians})
		if len(rows) != 1 || rows[0].Least != test.least || math.Abs(rows[0].Tolerance-test.tolerance) > 1e-9 {
			t.Errorf("%v: %+v", test.medians, rows)
		}
	}
}

// A simulated machine: rounds vary by a fifth in either direction, and every fifth round
// is disturbed by as much as a busy neighbor would.
func measurement(r *rand.Rand, ratio float64, rounds int) float64 {
	all := make([]float64, rounds)
	for i := range all {
		all[i] = ratio * (0.8 + 0.4*r.Float64())
		if r.IntN(5) == 0 {
			all[i] *= 0.3 + r.Float64()
		}
	}
	return median(all)
}

func TestGuardDetectsADropAndToleratesNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	k := key{"sqlite", "GET", rateRatio}
	falls := func(ratio float64) (n int) {
		for range 1000 {
			runs := map[key][]float64{}
			for range 5 {
				runs[k] = append(runs[k], measurement(r, 0.5, guardRounds))
			}
			_, fallen, err := judge(refer(runs), map[key]float64{k: measurement(r, ratio, guardRounds)})
			if err != nil {
				t.Fatal(err)
			}
			if len(fallen) == 0 {
				continue
			}
			if _, fallen, err = judge(fallen, map[key]float64{k: measurement(r, ratio, 2*guardRounds)}); err != nil {
				t.Fatal(err)
			}
			n += len(fallen)
		}
		return n
	}
	if n := falls(0.5); n > 0 {
		t.Errorf("the same speed failed %d of 1000 times", n)
	}
	if n := falls(0.5 / 2); n < 990 {
		t.Errorf("half the speed failed only %d of 1000 times", n)
	}
}

func TestGuardUsesAvailableCPUsOnly(t *testing.T) {
	set := func(cpus ...int) (s unix.CPUSet) {
		for _, cpu := range cpus {
			s.Set(cpu)
		}
		return s
	}
	for _, test := range []struct{ all, want unix.CPUSet }{
		{set(0, 1, 2, 3), set(0, 1)}, {set(5, 70, 71), set(5, 70)}, {set(3), set(3)},
	} {
		if got := firstOf(test.all, 2); got != test.want {
			t.Errorf("the first two of %v are %v", test.all, got)
		}
	}
}
