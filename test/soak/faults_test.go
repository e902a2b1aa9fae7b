package soak

import (
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/test/cutproxy"
	"atrium/test/nodes"
)

// grace is how long after recovery a fault may still have effects.
const grace = time.Second

// A faultKind is a kind of fault. Deadly faults end nodes.
type faultKind struct {
	name   string
	deadly bool
	do     func()
}

// unnoticed is the fault that fails no request if there are several nodes.
const unnoticed = "stop a node"

// kinds are the faults that apply to the engine.
func (s *soak) kinds() []faultKind {
	all := []faultKind{
		{"kill a node", true, func() { s.anyNode(true).Kill(); s.restart() }},
		{unnoticed, true, func() { s.stopNode() }},
		{"stall a node", false, func() { s.stall(s.anyNode(false)) }},
	}
	if s.server == nil {
		return append(all, faultKind{"hold the file", false, s.holdFile})
	}
	return append(all,
		faultKind{"kill the database", false, func() {
			s.server.Kill(s.t)
			s.pause(time.Second)
			s.server.Restart(s.t)
		}},
		faultKind{"end all sessions", false, func() { s.server.Terminate(s.t) }},
		faultKind{"stall the database", false, func() {
			s.server.Pause(s.t)
			s.pause(4 * time.Second)
			s.server.Resume(s.t)
		}},
		faultKind{"cut commits", false, func() {
			s.proxy.Rule(func(query, _ string) cutproxy.Fate {
				if query == "COMMIT" && rand.N(6) == 0 {
					return []cutproxy.Fate{cutproxy.Unanswered, cutproxy.Lost, cutproxy.Late}[rand.N(3)]
				}
				return cutproxy.Passes
			})
			s.pause(4 * time.Second)
			s.proxy.Rule(nil)
			time.Sleep(cutproxy.MaxLate)
		}},
		faultKind{"silence the network", false, func() {
			s.proxy.Silence()
			s.pause(4 * time.Second)
			s.proxy.Wake()
		}},
	)
}

// pickFault causes a random fault and waits for the recovery. Each kind occurs once before
// one is repeated.
func (s *soak) pickFault(deadly bool) {
	k := s.nextFault()
	for k.deadly && !deadly && len(s.nodes) == 1 {
		k = s.nextFault()
	}
	if k.name != unnoticed || len(s.nodes) == 1 {
		defer s.phases.beginFault()()
	}
	s.faults[k.name]++
	s.t.Logf("%s: %s", time.Since(s.began).Round(time.Second), k.name)
	k.do()
	s.recover()
	time.Sleep(grace)
}

func (s *soak) nextFault() faultKind {
	if len(s.deck) == 0 {
		s.deck = s.kinds()
		s.mu.Lock()
		s.rng.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
		s.mu.Unlock()
	}
	k := s.deck[0]
	s.deck = s.deck[1:]
	return k
}

// pause waits for a random duration.
func (s *soak) pause(most time.Duration) {
	s.mu.Lock()
	d := time.Duration(s.rng.Int64N(int64(most)))
	s.mu.Unlock()
	time.Sleep(d)
}

// anyNode returns a node. If there are several, the first one is never ended.
func (s *soak) anyNode(toEnd bool) *nodes.Node {
	first := 0
	if toEnd && len(s.nodes) > 1 {
		first = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[first+s.rng.IntN(len(s.nodes)-first)]
}

// restart restarts the nodes that have ended.
func (s *soak) restart() {
	s.pause(time.Second)
	for _, n := range s.nodes {
		if n.Ended() {
			s.checkLog(n)
			n.Restart(s.t)
		}
	}
}

// stopNode stops a node gracefully and restarts it.
func (s *soak) stopNode() {
	s.anyNode(true).Stop(s.t)
	s.restart()
}

// stall suspends a node for a while.
func (s *soak) stall(n *nodes.Node) {
	n.Signal(s.t, syscall.SIGSTOP)
	s.pause(3 * time.Second)
	n.Signal(s.t, syscall.SIGCONT)
}

// holdFile holds a write transaction on the file for a while, as another process could.
func (s *soak) holdFile() {
	db, err := sqlite.Open(s.file, sqlite.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Write(s.t.Context(), func(engine.Tx) error { s.pause(4 * time.Second); return nil }); err != nil {
		s.t.Error(err)
	}
}

// recover waits until the service has recovered.
func (s *soak) recover() {
	s.t.Helper()
	client := nodes.Client(s.t)
	for _, n := range s.nodes {
		nodes.Until(s.t, n.Addr+" to be ready", time.Minute, func() bool {
			res, err := client.Get("http://" + n.Addr + "/readyz")
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			return res.StatusCode == http.StatusOK
		})
	}
	if s.front != nil {
		s.front.Await(s.t, len(s.nodes))
	}
}
