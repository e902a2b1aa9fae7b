package nodes_test

import (
	"flag"
	"testing"
	"time"

	"atrium"
	"atrium/test/nodes"
	"atrium/test/receiver"
)

var (
	kills   = flag.Int("kills", 3, "how many times a node that delivers events is killed")
	entries = flag.Int64("entries", 100, "how many entries are acknowledged before each of these kills")
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

// leases is more than the time until another node leases the webhooks of a killed one.
const leases = 30 * time.Second

func TestKilledNodesLoseNoEvent(t *testing.T) {
	r, keys := receiver.New(t), receiver.KeyFile(t)
	s := newService(t, "--secrets-key-file", keys, "--webhook-allow", "127.0.0.0/8")
	r.Subscribe(s.database, keys, s.tenant)
	front := nodes.Proxy(t, s.nodes)
	l := work(t, s, front.Addr, clients)
	for round := range *kills {
		arrived := r.Requests()
		l.await(t, *entries)
		nodes.Until(t, "events to arrive", leases, func() bool { return r.Requests() >= arrived+20 })
		n := s.nodes[round%len(s.nodes)]
		n.Kill()
		front.Await(t, 2)
		l.await(t, 100)
		n.Restart(t)
		front.Await(t, 3)
	}
	l.end(t)
	acknowledged := map[atrium.EntryID]bool{}
	for _, p := range l.postings {
		acknowledged[atrium.EntryID(p.id)] = true
	}
	delete(acknowledged, "")
	lost := r.Wait(acknowledged, leases)
	if lost > 0 || len(acknowledged) == 0 {
		t.Errorf("%d events of %d acknowledged entries have not arrived", lost, len(acknowledged))
	}
	t.Logf("killed %d times: acknowledged %d entries, %d requests of 2 webhooks, %d repeated, lost %d", *kills, len(acknowledged), r.Requests(), r.Repeated(), lost)
}
