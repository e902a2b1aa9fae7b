package limit

import "time"

// A Pace limits a rate with the generic cell rate algorithm (GCRA): a burst, and then rate units a second. The zero Pace is
// not usable. A Pace is not safe for concurrent use.
type Pace struct {
	rate   int // a second
	burst  int
	fullAt time.Time // when the full burst is available again
}

// NewPace returns a Pace of rate a second, at least 1, after a burst.
func NewPace(rate, burst int) Pace { return Pace{rate: rate, burst: burst} }

// Spend counts n units, and returns how long the source must wait until they are within the rate.
func (p *Pace) Spend(n int) time.Duration {
	now := time.Now()
	if p.fullAt.Before(now) {
		p.fullAt = now
	}
	p.fullAt = p.fullAt.Add(p.duration(n))
	return max(0, p.fullAt.Sub(now)-p.duration(p.burst))
}

// Forget forgets what was spent beyond the rate, so that the next wait is at most most.
func (p *Pace) Forget(most time.Duration) {
	if latest := time.Now().Add(p.duration(p.burst) + most); p.fullAt.After(latest) {
		p.fullAt = latest
	}
}

func (p *Pace) duration(n int) time.Duration {
	return time.Duration(float64(n) / float64(p.rate) * float64(time.Second)) // no product that overflows
}
