package workload

import (
	"testing"
)

func TestPayloadHasTheRequestedSize(t *testing.T) {
	for _, n := range []int{33, 200, 1024} {
		if got := len(Payload(n)); got != n {
			t.Errorf("a payload of %d bytes, want %d", got, n)
		}
	}
}

func TestMixWeightsAddUpTo100(t *testing.T) {
	w := Workload{Accounts: 1, Payload: "{}"}
	for _, m := range w.Mixes() {
		total := 0
		for _, s := range m.Mix {
			total += s.Weight
		}
		if total != 100 {
			t.Errorf("%s: the weights are %d in all", m.Name, total)
		}
	}
}
