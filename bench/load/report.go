package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Report is the result of a load.
type Report struct {
	Answered int           // responses with the expected status
	Failed   int           // all other requests
	Failure  error         // the first failure; nil if none
	Unsent   int           // requests of an open loop that were due but never sent
	Elapsed  time.Duration // from the first request to the last response
	CPU      time.Duration // used by the servers in that time

	latencies *hdrhistogram.Histogram // of successful requests, in microseconds
}

func newReport() Report { return Report{latencies: newHistogram()} }

// Rate returns the responses per second.
func (r Report) Rate() float64 { return float64(r.Answered) / r.Elapsed.Seconds() }

// CPUPerRequest returns the CPU time of the servers per response.
func (r Report) CPUPerRequest() time.Duration { return r.CPU / time.Duration(max(r.Answered, 1)) }

// Latency returns a percentile of the latencies, to three digits and at most a minute.
func (r Report) Latency(percent float64) time.Duration {
	return time.Duration(r.latencies.ValueAtPercentile(percent)) * time.Microsecond
}

func (r *Report) record(latency time.Duration) {
	r.Answered++
	// Values within the limits are always recorded.
	_ = r.latencies.RecordValue(min(max(latency, time.Microsecond), longest).Microseconds())
}

func (r *Report) fail(err error) {
	r.Failed++
	if r.Failure == nil {
		r.Failure = err
	}
}

// Add adds the requests of a later report. The zero Report is empty.
func (r *Report) Add(other Report) {
	r.Elapsed += other.Elapsed
	r.CPU += other.CPU
	r.add(other)
}

// add is Add for a report of the same period.
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
