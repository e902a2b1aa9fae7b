package crash

import (
	"net/http"
	"testing"
	"time"
)

// Kills PostgreSQL repeatedly. No acknowledged entry may be lost, retried entries must
// exist once, and the service must recover by itself.
func TestKilledDatabaseLosesAndDuplicatesNothing(t *testing.T) {
	o := newOutage(t, clientCount, nil)
	const kills = 5
	for range kills {
		o.workABit()
		o.server.Kill(t)
		waitUntil(t, "the service to be not ready", startLimit, func() bool { return o.atrium.status("/readyz") == http.StatusServiceUnavailable })
		if status := o.atrium.status("/healthz"); status != http.StatusOK {
			t.Errorf("/healthz without a database: %d", status)
		}
		o.server.Restart(t)
		o.waitForService()
	}
	o.finish()
	t.Logf("PostgreSQL was killed %d times", kills)
}

// When all connections are closed at once, as in a failover, the service opens new ones
// and hardly any request fails.
func TestClosedConnectionsFailFewRequests(t *testing.T) {
	o := newOutage(t, clientCount, nil)
	const times = 5
	for range times {
		o.workABit()
		o.server.Terminate(t)
		o.waitForService()
	}
	o.finish()
	f := o.ledger.figures
	t.Logf("all connections were closed %d times", times)
	if limit := times * 2; f.refused > limit {
		t.Errorf("%d of %d requests were refused", f.refused, f.sent)
	}
}

// While PostgreSQL hangs, every request gets a timely response, a 503 if it needs the
// database, and nothing accumulates in the process. Then the service recovers.
func TestHangingDatabaseReturns503AndRecovers(t *testing.T) {
	t.Parallel() // it mostly waits
	const many = 96
	o := newOutage(t, many, nil)
	calm := o.atrium.metric("go_goroutines")
	o.server.Pause(t)
	paused := time.Now()
	waitUntil(t, "the service to be not ready", 3*time.Second, func() bool { return o.atrium.status("/readyz") == http.StatusServiceUnavailable })
	t.Logf("not ready after %s", time.Since(paused).Round(time.Millisecond))
	refused := o.ledger.figuresNow().refused
	goroutines, memory := 0.0, 0.0
	for time.Since(paused) < *pause {
		goroutines = max(goroutines, o.atrium.metric("go_goroutines"))
		memory = max(memory, o.atrium.metric("process_resident_memory_bytes"))
		if status := o.atrium.status("/healthz"); status != http.StatusOK {
			t.Errorf("/healthz while the database hangs: %d", status)
		}
		if status := o.atrium.status("/readyz"); status != http.StatusServiceUnavailable {
			t.Errorf("/readyz while the database hangs: %d", status)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := o.ledger.figuresNow().refused; n == refused {
		t.Error("no request was refused")
	}
	o.server.Resume(t)
	resumed := time.Now()
	waitUntil(t, "the service to be ready", 3*time.Second, func() bool { return o.atrium.status("/readyz") == http.StatusOK })
	t.Logf("ready again after %s", time.Since(resumed).Round(time.Millisecond))
	o.waitForService()

	t.Logf("%.0f goroutines before, %.0f at most in %s, %.0f MiB at most", calm, goroutines, *pause, memory/(1<<20))
	// Two or three goroutines per client connection, and one per database connection that
	// closes it.
	if limit := float64(4*many + 4*connections + 100); goroutines > limit {
		t.Errorf("%.0f goroutines, more than %.0f", goroutines, limit)
	}
	if limit := float64(512 << 20); memory > limit { // including the race detector's
		t.Errorf("%.0f bytes of memory, more than %.0f", memory, limit)
	}
	waitUntil(t, "the goroutines of the outage to end", startLimit, func() bool {
		return o.atrium.metric("go_goroutines") <= calm+50
	})
	o.finish()
}
