package soak

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// A tally counts responses and their faults.
type tally struct {
	mu         sync.Mutex
	operations map[string]*operation // guarded by mu, as are the fields below
	refused    int                   // requests that a fault explains: 503, or no response
	unexpected int                   // 5xx and requests without a response that no fault explains
	hangs      int
	leaks      int
	wrong      int // responses that violate the interface
	faults     []string
}

// An operation has the responses to an operation.
type operation struct {
	classes [6]int // by the first digit of the status; 0 without a response
	quiet   latencies
}

// maxFaults is how many faults of a kind are kept as text.
const maxFaults = 20

func newTally() *tally { return &tally{operations: map[string]*operation{}} }

// fault counts a fault in one of the tally's counters.
func (t *tally) fault(counter *int, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*counter++
	if *counter <= maxFaults {
		t.faults = append(t.faults, fmt.Sprintf(format, args...))
	}
}

// answered records a response; status is 0 without one. The latency counts in quiet
// phases.
func (t *tally) answered(name string, status int, took time.Duration, quiet bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	op := t.operations[name]
	if op == nil {
		op = &operation{}
		t.operations[name] = op
	}
	op.classes[min(status/100, 5)]++
	if quiet && status != 0 {
		op.quiet.add(took)
	}
}

func (t *tally) refusal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused++
}

// latencies is a histogram with buckets of 5 %.
type latencies struct {
	counts [400]int
	n      int
}

const step = 1.05

func (l *latencies) add(d time.Duration) {
	i := int(math.Log(float64(max(d.Microseconds(), 1))) / math.Log(step))
	l.counts[min(i, len(l.counts)-1)]++
	l.n++
}

// quantile returns the latency at a quantile.
func (l *latencies) quantile(q float64) time.Duration {
	left := int(math.Ceil(q * float64(l.n)))
	for i, n := range l.counts {
		if left -= n; left <= 0 && l.n > 0 {
			return time.Duration(math.Pow(step, float64(i+1))) * time.Microsecond
		}
	}
	return 0
}
