package crash

import (
	"net/http"
	"testing"
	"time"
)

// However often PostgreSQL is killed, nothing that was acknowledged is lost, and
// what is sent again is there once. The service comes back by itself.
func TestKilledDatabaseLosesAndDoublesNothing(t *testing.T) {
	o := newOutage(t, clientCount, nil)
	const kills = 5
	for range kills {
		o.workABit()
		o.server.Kill(t)
		waitUntil(t, "the service is not ready", startLimit, func() bool { return o.atrium.status("/readyz") == http.StatusServiceUnavailable })
		if status := o.atrium.status("/healthz"); status != http.StatusOK {
			t.Errorf("/healthz without a database: %d", status)
		}
		o.server.Restart(t)
		o.waitForService()
	}
	o.finish()
	t.Logf("PostgreSQL was killed %d times", kills)
}

// When all connections end at once, as in a failover, the service makes new ones
// and hardly any request is refused.
func TestEndedConnectionsAreHardlyNoticed(t *testing.T) {
	o := newOutage(t, clientCount, nil)
	const times = 5
	for range times {
		o.workABit()
		o.server.Terminate(t)
		o.waitForService()
	}
	o.finish()
	f := o.ledger.figures
	t.Logf("all connections were ended %d times", times)
	if limit := times * 2; f.refused > limit {
		t.Errorf("%d of %d requests were refused", f.refused, f.sent)
	}
}

// While PostgreSQL hangs, every request is answered in time, with a 503 where it
// needs the database, and nothing piles up in the process. Then it goes on.
func TestHangingDatabaseIsAnswered503AndPasses(t *testing.T) {
	t.Parallel() // it waits most of the time
	const many = 96
	o := newOutage(t, many, nil)
	calm := o.atrium.metric("go_goroutines")
	o.server.Pause(t)
	paused := time.Now()
	waitUntil(t, "the service is not ready", 3*time.Second, func() bool { return o.atrium.status("/readyz") == http.StatusServiceUnavailable })
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
	waitUntil(t, "the service is ready", 3*time.Second, func() bool { return o.atrium.status("/readyz") == http.StatusOK })
	t.Logf("ready again after %s", time.Since(resumed).Round(time.Millisecond))
	o.waitForService()

	t.Logf("%.0f goroutines before, %.0f at most in %s, %.0f MiB at most", calm, goroutines, *pause, memory/(1<<20))
	// Each client has a connection, of two or three goroutines, and each connection
	// to the database one that closes it.
	if limit := float64(4*many + 4*connections + 100); goroutines > limit {
		t.Errorf("%.0f goroutines, more than %.0f", goroutines, limit)
	}
	if limit := float64(512 << 20); memory > limit { // the race detector's own included
		t.Errorf("%.0f bytes of memory, more than %.0f", memory, limit)
	}
	waitUntil(t, "the goroutines of the outage have ended", startLimit, func() bool {
		return o.atrium.metric("go_goroutines") <= calm+50
	})
	o.finish()
}
