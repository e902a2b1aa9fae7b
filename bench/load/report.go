package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Report is what came of a load.
type Report struct {
	Answered int           // requests that were answered with the status of their kind
	Failed   int           // requests that were not
	Failure  error         // the first one of a connection; nil for none
	Unsent   int           // requests of an open loop that were due and never sent
	Elapsed  time.Duration // from the first request until the last answer
	CPU      time.Duration // that the servers used meanwhile

	latencies *hdrhistogram.Histogram // of what was answered, in microseconds
}

func newReport() Report { return Report{latencies: newHistogram()} }

// Rate returns the answers a second.
func (r Report) Rate() float64 { return float64(r.Answered) / r.Elapsed.Seconds() }

// CPUPerRequest returns the processor time of the servers for one answer.
func (r Report) CPUPerRequest() time.Duration { return r.CPU / time.Duration(max(r.Answered, 1)) }

// Latency returns what percent of the answers took at most, to three digits, and a
// minute for what took longer.
func (r Report) Latency(percent float64) time.Duration {
	return time.Duration(r.latencies.ValueAtPercentile(percent)) * time.Microsecond
}

func (r *Report) record(latency time.Duration) {
	r.Answered++
	// In its range a value is always recorded.
	_ = r.latencies.RecordValue(min(max(latency, time.Microsecond), longest).Microseconds())
}

func (r *Report) fail(err error) {
	r.Failed++
	if r.Failure == nil {
		r.Failure = err
	}
}

// Add takes the requests of another report into this one. The zero Report has none.
func (r *Report) Add(other Report) {
	r.Elapsed += other.Elapsed
	r.CPU += other.CPU
	r.add(other)
}

// add is Add for a report of the same time.
func (r *Report) add(other Report) {
	if r.latencies == nil {
		r.latencies = newHistogram()
	}
	r.Answered += other.Answered
	r.Failed += other.Failed
	r.Unsent += other.Unsent
	if r.Failure == nil {
		r.Failure = other.Failure
	}
	r.latencies.Merge(other.latencies)
}
