package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"atrium/internal/limit"
)

func TestPaceDelaysWhatExceedsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.NewPace(1000, 100)
		for i, c := range []struct {
			idle time.Duration
			n    int
			want time.Duration
		}{
			{0, 60, 0},
			{0, 40, 0},
			{0, 50, 50 * time.Millisecond},
			{50 * time.Millisecond, 10, 10 * time.Millisecond},
			{20 * time.Millisecond, 10, 0},                 // 10 of the 20 were left
			{time.Hour, 100, 0},                            // no more than the burst is saved
			{0, 5000, 5 * time.Second},                     // more than the burst together
			{5*time.Second + 100*time.Millisecond, 100, 0}, // all of it
		} {
			time.Sleep(c.idle)
			if got := p.Spend(c.n); got != c.want {
				t.Errorf("step %d: Spend(%d) = %s, want %s", i, c.n, got, c.want)
			}
		}
	})
}
