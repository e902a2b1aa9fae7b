package soak

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/test/cutproxy"
	"atrium/test/nodes"
)

const (
	tenantCount = 3
	markPrefix  = "mark-"
	markLen     = len(markPrefix) + 12
)

// A soak is a service under load: one node on a file, or three on PostgreSQL behind
// HAProxy.
type soak struct {
	t        *testing.T
	engine   string
	database string // URL that the nodes use
	direct   string // the same without the proxy
	proxy    *cutproxy.Proxy
	file     string // path of the database; "" on a server
	server   *postgrestest.Server
	nodes    []*nodes.Node
	front    *nodes.Front // nil for one node
	base     string       // URL that clients use
	tenants  []*tenant

	phases  phases
	tally   *tally
	ledger  *ledger
	timing  *timing
	growth  *growth
	faults  map[string]int
	deck    []faultKind  // upcoming faults
	load    sync.RWMutex // held for reading by working clients, and for writing to pause them
	stopped atomic.Int64 // when the load was to end, in nanoseconds since 1970; 0 before
	working sync.WaitGroup
	began   time.Time
	ends    time.Time

	mu         sync.Mutex
	rng        *rand.Rand        // guarded by mu
	transports []*http.Transport // guarded by mu
}

// newSoak starts the service with its tenants.
func newSoak(t *testing.T, engine string, rng *rand.Rand) *soak {
	s := &soak{
		t: t, engine: engine, rng: rng, tally: newTally(), ledger: newLedger(),
		timing: newTiming(), growth: newGrowth(), faults: map[string]int{},
	}
	// By default, an address that sends many invalid keys soon gets late 429 responses.
	// The soak disables this, because it measures the time of each rejection.
	flags := []string{"--auth-failures", "0", "--metrics-addr", "127.0.0.1:0", "--log-sample", "0", "--database-timeout", "2s", "--database-connections", "8"}
	n := 1
	switch engine {
	case "sqlite":
		s.file = filepath.Join(t.TempDir(), "atrium.db")
		s.database = "sqlite:" + s.file
		s.direct = s.database
	case "postgres":
		s.server = postgrestest.Start(t)
		s.direct = s.server.NewDatabase(t)
		s.proxy, s.database = cutproxy.New(t, s.direct)
		flags = append(flags, "--shutdown-delay", "2s")
		n = 3
	}
	s.makeTenants()
	s.nodes = nodes.Start(t, n, s.database, flags...)
	s.base = "http://" + s.nodes[0].Addr
	if n > 1 {
		s.front = nodes.Proxy(t, s.nodes)
		s.base = "http://" + s.front.Addr
	}
	t.Cleanup(s.stop)
	return s
}

// open opens the database directly.
func (s *soak) open() *store.Store {
	s.t.Helper()
	st, err := store.Open(s.t.Context(), s.direct, store.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// makeTenants creates the tenants of the load, and a tenant to export and one to import
// into, which share a mark.
func (s *soak) makeTenants() {
	s.t.Helper()
	st := s.open()
	defer func() { _ = st.Close() }()
	if _, err := st.Migrate(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for i := range tenantCount + 2 {
		of := &tenant{mark: fmt.Sprintf("%s%012x", markPrefix, s.rng.Uint64()>>16)}
		if i == tenantCount+1 {
			of.mark = s.tenants[tenantCount].mark
		}
		made, _, err := st.CreateTenant(s.t.Context(), atrium.CommandLine(atrium.OperatorChain), of.mark)
		if err != nil {
			s.t.Fatal(err)
		}
		of.id = made.ID
		of.key, of.keyID = s.newKey(st, of.id, atrium.ExternalScopes())
		of.manage, _ = s.newKey(st, of.id, atrium.Scopes{atrium.ScopeManage})
		s.tenants = append(s.tenants, of)
	}
	for range pooledKeys {
		key, _ := s.newKey(st, s.tenants[0].id, atrium.ExternalScopes())
		s.timing.pool = append(s.timing.pool, pooledKey{text: key})
	}
}

func (s *soak) newKey(st *store.Store, of atrium.TenantID, scopes atrium.Scopes) (text string, id atrium.KeyID) {
	s.t.Helper()
	id, text, hash := auth.NewKey()
	k := atrium.APIKey{ID: id, TenantID: of, Name: "soak", Scopes: scopes}
	if _, _, err := st.CreateKey(s.t.Context(), atrium.CommandLine(of), k, hash); err != nil {
		s.t.Fatal(err)
	}
	return text, id
}

// giveUp reports whether clients stop retrying: a minute after the end.
func (s *soak) giveUp() bool {
	at := s.stopped.Load()
	return at != 0 && time.Since(time.Unix(0, at)) > time.Minute
}

// work calls step repeatedly, with a random rest after each, until the soak stops.
func (s *soak) work(c *client, rest time.Duration, step func()) {
	s.working.Go(func() {
		for s.stopped.Load() == 0 {
			s.load.RLock()
			step()
			s.load.RUnlock()
			time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(rest)))
		}
	})
}

// stop ends the load.
func (s *soak) stop() {
	s.stopped.CompareAndSwap(0, time.Now().UnixNano())
	s.working.Wait()
}

// run runs the load for a duration. In the first part everything may fail. In the second
// part, some processes survive, so that their growth can be measured.
func (s *soak) run(length time.Duration) {
	s.began, s.ends = time.Now(), time.Now().Add(length)
	s.startLoad()
	s.quiet(length / 12)
	for time.Since(s.began) < length*2/5 {
		s.pickFault(true)
		s.quiet(s.quietTime(length))
	}
	s.quiet(length / 12)
	s.sample()
	every, last := max(length/20, 4*time.Second), time.Now()
	for time.Since(s.began) < length*9/10 {
		s.pickFault(false)
		s.quiet(s.quietTime(length))
		if time.Since(last) > every {
			s.sample()
			last = time.Now()
		}
	}
	s.quiet(max(time.Until(s.ends), 2*time.Second))
	s.sample()
	s.stop()
}

// quietTime is the length of a quiet phase, longer in long runs.
func (s *soak) quietTime(length time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := min(max(length/20, time.Second), 15*time.Second)
	return most/2 + time.Duration(s.rng.Int64N(int64(most)))
}

// quiet continues the load without a fault and takes the measurements for quiet phases.
func (s *soak) quiet(length time.Duration) {
	end := time.Now().Add(length)
	s.timing.measure(s, end)
	time.Sleep(time.Until(end))
}

// startLoad starts all clients. It first creates the resources that exist throughout.
func (s *soak) startLoad() {
	for i, of := range s.tenants[:tenantCount] {
		site := s.newSite(of)
		for n := range 2 {
			p := &poster{client: s.newClient(fmt.Sprintf("poster%d", n), of), site: site}
			s.work(p.client, 120*time.Millisecond, p.step)
		}
		m := s.newManager(of)
		s.work(m.client, 400*time.Millisecond, m.step)
		w := &walker{client: s.newClient("walker", of), site: site}
		s.work(w.client, 700*time.Millisecond, w.step)
		h := &hostile{client: s.newClient("hostile", of), victim: s.tenants[(i+1)%tenantCount], site: site}
		s.work(h.client, 250*time.Millisecond, h.step)
	}
	x := s.newCarrier(s.tenants[tenantCount], s.tenants[tenantCount+1])
	s.work(x.client, 4*time.Second, x.step)
}
