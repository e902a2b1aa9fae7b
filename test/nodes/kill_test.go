package nodes_test

import (
	"testing"

	"atrium/test/nodes"
)

func TestKilledNodeLosesAndDuplicatesNothing(t *testing.T) {
	s := newService(t)
	front := nodes.Proxy(t, s.nodes)
	l := work(t, s, front.Addr, clients)
	for round := range 3 {
		n := s.nodes[round]
		l.await(t, 100)
		n.Kill()
		front.Await(t, 2)
		l.await(t, 100)
		n.Restart(t)
		front.Await(t, 3)
		served := front.Served(t, round)
		nodes.Until(t, "the node that is back to take part", settled, func() bool { return front.Served(t, round) >= served+20 })
	}
	failed := l.end(t)
	t.Logf("killed 3 times: %d requests had to be sent again by their clients", failed)
}
