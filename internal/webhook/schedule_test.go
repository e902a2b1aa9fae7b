package webhook

import (
	"net/http"
	"testing"
	"time"
)

func TestAttemptsFollowTheSchedule(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var total time.Duration
	for n, delay := range []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	} {
		total += delay
		seen := map[time.Time]bool{}
		for range 100 {
			at, more := NextAttempt(n+1, now, 0)
			if !more || at.Before(now.Add(delay*9/10)) || at.After(now.Add(delay*11/10)) {
				t.Fatalf("after attempt %d: %v, %t, want about %v", n+1, at.Sub(now), more, delay)
			}
			seen[at] = true
		}
		if len(seen) < 2 {
			t.Errorf("the time after attempt %d does not vary", n+1)
		}
		if at, more := NextAttempt(n+1, now, MaxRetryAfter); !more || at.Before(now.Add(MaxRetryAfter)) {
			t.Errorf("after attempt %d: %v, which is earlier than the endpoint asked for", n+1, at.Sub(now))
		}
		if at, _ := NextAttempt(n+1, now, 1000*time.Hour); at.After(now.Add(max(MaxRetryAfter, delay*11/10))) {
			t.Errorf("after attempt %d: %v, which is later than an endpoint can ask for", n+1, at.Sub(now))
		}
	}
	if total < 75*time.Hour || MaxAttempts != 10 {
		t.Errorf("%d attempts in %v", MaxAttempts, total)
	}
	for _, n := range []int{MaxAttempts, MaxAttempts + 1} {
		if at, more := NextAttempt(n, now, time.Hour); more {
			t.Errorf("there is an attempt at %v after %d", at, n)
		}
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "120": 2 * time.Minute, "86400": MaxRetryAfter, "86401": MaxRetryAfter, "18446744073709551615": MaxRetryAfter,
		"-1": 0, "1.5": 0, "soon": 0, "99999999999999999999": 0,
		now.Add(time.Hour).Format(http.TimeFormat): time.Hour, now.Add(-time.Hour).Format(http.TimeFormat): 0, now.AddDate(1, 0, 0).Format(http.TimeFormat): MaxRetryAfter,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
