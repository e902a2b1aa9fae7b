package webhook

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// delays are the times between attempts: 75 hours in all, so that an endpoint that fails on a Friday evening
// gets its events on Monday.
var delays = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// MaxAttempts is the number of attempts to send a message.
const MaxAttempts = len(delays) + 1

// NextAttempt returns the time of the next attempt after the given number of failed ones, the last of which ended now, or false
// if none is left. Delays have ±10 % jitter, so that retries after an outage do not arrive together. retryAfter can only
// postpone the attempt.
func NextAttempt(attempts int, now time.Time, retryAfter time.Duration) (at time.Time, more bool) {
	if attempts >= MaxAttempts {
		return time.Time{}, false
	}
	delay := delays[max(attempts, 1)-1]
	delay = delay*9/10 + rand.N(delay/5)
	return now.Add(max(delay, min(retryAfter, MaxRetryAfter))), true
}

// retryAfter returns the value of Retry-After (RFC 9110 section 10.2.3), from 0 to MaxRetryAfter, or 0 if it has
// no valid one.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}
