package crash

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"atrium/internal/store/engine/powercut"
)

// faults are transient disk faults.
var faults = map[string]func(disk *powercut.FS, on bool){
	"full disk":                            func(disk *powercut.FS, on bool) { disk.FailWrites(on) },
	"a file system that becomes read-only": func(disk *powercut.FS, on bool) { disk.ForbidWrites(on) },
}

// While the disk accepts no writes, every write request is rejected and reads succeed.
// Then the service recovers, and every response has proved correct.
func TestDiskFaultReturns503AndRecovers(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a commit of unknown outcome is retried after a while
			rng := random(t)
			b := newBench(t, asItIs)
			clients, l := newClients(t, rng, 8, b.tenants)
			ctx, cancel := context.WithCancel(t.Context())
			wait := load(ctx, clients, b.base)
			probe := newProbe(t, rng, b, l)
			for range 2 {
				probe.waitForService()
				fault(b.disk, true)
				for range 4 {
					probe.mustBeRefused()
					time.Sleep(time.Duration(rng.IntN(int(10 * time.Millisecond))))
				}
				b.cut(l, 0).report(t)
				fault(b.disk, false)
				probe.waitForService()
				b.cut(l, 0).report(t)
				b.cut(l, rng.Uint64()).report(t)
			}
			cancel()
			wait()
			settle(clients, b.base)
			b.finish(l)
			f := l.figures
			t.Logf("sent %d, acknowledged %d, refused %d", f.sent, f.acknowledged, f.refused)
			if f.refused == 0 {
				t.Error("no client met the fault")
			}
			for _, c := range clients {
				if len(c.pending) > 0 {
					t.Errorf("%d requests of %s were never acknowledged", len(c.pending), c.name)
				}
			}
		})
	}
}

// A failed checkpoint does not affect commits: they are in the WAL until one succeeds.
func TestFailedCheckpointLosesNothing(t *testing.T) {
	b := newBench(t, asItIs)
	clients, l := newClients(t, random(t), 1, b.tenants)
	c := clients[0]
	c.base = b.base
	b.fillLog()
	var attempts atomic.Int64
	b.disk.Before(func(name string) {
		if name == databaseName {
			attempts.Add(1)
		}
	})
	b.disk.FailWrites(true, databaseName)
	for after := 0; after < 3; {
		p := c.newPosting(b.tenants[0], false)
		if !c.post(p) || p.response == nil || c.made > 1000 {
			t.Fatalf("posting %d was not acknowledged", c.made)
		}
		if attempts.Load() > 0 {
			after++
		}
	}
	b.cut(l, 0).report(t)
	b.disk.FailWrites(false)
	for !b.checkpointed() {
		if c.post(c.newPosting(b.tenants[0], false)); l.acks() != c.made || c.made > 10_000 {
			t.Fatal("the service does not work after the fault")
		}
	}
	b.cut(l, 0).report(t)
	b.finish(l)
}

// A probe is a separate client that checks the service at a given moment.
type probe struct {
	*client
	first *posting // acknowledged before the first fault
}

func newProbe(t *testing.T, rng *rand.Rand, b *bench, l *ledger) *probe {
	clients, _ := newClients(t, rng, 1, b.tenants)
	c := clients[0]
	c.name, c.ledger, c.base = "probe", l, b.base
	p := &probe{c, c.newPosting(b.tenants[0], false)}
	if !c.post(p.first) || p.first.response == nil {
		t.Fatal("the service does not work before the fault")
	}
	return p
}

// waitForService posts an entry until it is acknowledged.
func (p *probe) waitForService() {
	p.t.Helper()
	for limit := time.Now().Add(startLimit); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		posting := p.newPosting(p.tenants[1], false)
		if p.post(posting) && posting.response != nil {
			return
		}
	}
	p.t.Fatal("the service did not come back")
}

// mustBeRefused checks that writes fail and reads succeed.
func (p *probe) mustBeRefused() {
	p.t.Helper()
	of := p.tenants[0]
	id := string(p.first.receipt.AccountID)
	keyed, unkeyed := p.newPosting(of, true), p.newPosting(of, false)
	for _, posting := range []*posting{keyed, unkeyed} {
		if !p.carryNew(posting) || posting.response != nil {
			p.t.Errorf("a posting during the fault got %s", posting.response)
		}
	}
	for _, request := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPatch, "/v0/accounts/" + id, `{"name":"Never"}`, http.StatusServiceUnavailable},
		{http.MethodGet, "/v0/accounts/" + id, "", http.StatusOK},
		{http.MethodGet, "/v0/pages", "", http.StatusOK},
		{http.MethodGet, "/healthz", "", http.StatusOK},
	} {
		a, ok := p.send(request.method, request.path, of.key, "", []byte(request.body))
		if !ok || a.status != request.status {
			p.t.Errorf("%s %s during the fault: %d %s", request.method, request.path, a.status, a.body)
		}
	}
}

// carryNew posts without retrying.
func (p *probe) carryNew(posting *posting) bool {
	p.ledger.sending(posting)
	return p.carry(posting)
}
