package nodes_test

import (
	"testing"

	"atrium/test/nodes"
)

const clients = 16

// roll restarts the nodes one by one under load, and returns the number of failed
// requests.
func roll(t *testing.T, flags ...string) (failed int) {
	t.Helper()
	s := newService(t, flags...)
	front := nodes.Proxy(t, s.nodes)
	l := work(t, s, front.Addr, clients)
	for _, n := range s.nodes {
		l.await(t, 100)
		n.Stop(t)
		l.await(t, 100)
		n.Restart(t)
		front.Await(t, 3)
	}
	l.await(t, 100)
	return l.end(t)
}

func TestRollingRestartLosesAndDuplicatesNothing(t *testing.T) {
	t.Logf("%d requests had to be sent again by their clients", roll(t))
}

func TestRollingRestartWithShutdownDelayFailsNoRequest(t *testing.T) {
	if failed := roll(t, "--shutdown-delay", "2s"); failed > 0 {
		t.Errorf("%d requests failed", failed)
	}
}
