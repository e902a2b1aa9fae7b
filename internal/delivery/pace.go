package delivery

import (
	"time"
)

// A pace limits the concurrency and rate of a webhook's requests. Concurrency grows by one per success and halves on failure (AIMD).
type pace struct {
	allowed  int
	failures int       // in a row
	rate     int64     // requests a second, 0 for no limit
	next     time.Time // when the next one may begin
	retryAt  time.Time // when the endpoint wants the next one
}

// initialConcurrency is the number of requests in flight at the start of a session.
const initialConcurrency = 4

// begin sets the pace of a new session. A webhook that was failing begins with one request, and one failure more ends the session.
func (p *pace) begin(failing bool) {
	p.allowed = initialConcurrency
	if failing {
		p.allowed, p.failures = 1, maxConsecutiveFailures-1
	}
}

func (p *pace) limit(rate int64) { p.rate = rate }

// started reports a request that begins.
func (p *pace) started(now time.Time) {
	if p.rate > 0 {
		interval := time.Second / time.Duration(p.rate)
		if p.next = p.next.Add(interval); p.next.Before(now) {
			p.next = now
		}
	}
}

// nextStart returns when the next request may begin: at now or later.
func (p *pace) nextStart(now time.Time) time.Time {
	at := now
	if p.rate > 0 && p.next.After(at) {
		at = p.next
	}
	if p.retryAt.After(at) {
		at = p.retryAt
	}
	return at
}

func (p *pace) succeeded() {
	p.failures = 0
	p.allowed = min(maxConcurrency, p.allowed+1)
}

// failed reports a failure. The endpoint may want no request for a time.
func (p *pace) failed(now time.Time, retryAfter time.Duration) {
	p.failures++
	p.allowed = max(1, p.allowed/2)
	if at := now.Add(retryAfter); retryAfter > 0 && at.After(p.retryAt) {
		p.retryAt = at
	}
}

// backoff returns how long to pause a webhook that has failed for some time: half of that time, within limits.
func (t *timing) backoff(failing time.Duration) time.Duration {
	return jitter(min(max(failing/2, t.minPause), t.maxPause))
}
