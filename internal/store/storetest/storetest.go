// Package storetest holds what every engine of the store must keep to: the
// guarantees of the store's methods, each stated as a test, and a model that
// random operations are compared with. Every difference between engines that
// anyone finds becomes a guarantee here.
package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// An Engine makes databases of one kind.
type Engine struct {
	Name string

	// New makes an empty database and returns what opens it. Every DB that was
	// opened is like one more node of the service; the test's end closes them.
	New func(t *testing.T) (open func() engine.DB)

	// Distributed says that the databases are clusters, over which the tables are
	// distributed.
	Distributed bool
}

// schema makes the schema.
func (e Engine) schema(t *testing.T, db engine.DB) {
	t.Helper()
	s := store.New(db, time.Now)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	if e.Distributed {
		if _, err := s.Distribute(t.Context()); err != nil {
			t.Fatalf("distribute: %v", err)
		}
	}
}

// Run verifies every guarantee on an engine, or those of the named groups alone.
// Most share one database, each with tenants of its own: what one leaves behind,
// none of the others may see.
func Run(t *testing.T, e Engine, only ...string) {
	shared := e.New(t)
	db := shared()
	e.schema(t, db)
	for _, group := range []struct {
		name       string
		guarantees []guarantee
	}{
		{"identifiers", identifiers},
		{"attribution", slices.Concat(attribution, legacyDomains)},
		{"names", names},
		{"idempotency", idempotency},
		{"nodes", nodes},
		{"tenants", tenants},
		{"keys", slices.Concat(keys, rotation)},
		{"audit", audits},
		{"timeline", timeline},
		{"moves", moves},
		{"brands", brands},
		{"accounts", slices.Concat(accountChanges, manyProspects, accountLists)},
		{"terms", terms},
		{"prospects", prospects},
		{"merges", merges},
		{"erasures", slices.Concat(erasures, erasureBounds)},
		{"pages", slices.Concat(pages, pageChanges)},
		{"schedules", schedules},
		{"audiences", audiences},
		{"lists", lists},
		{"versions", slices.Concat(versions, versionChanges)},
		{"values", values},
		{"import", imports},
		{"trial", trials},
		{"export", exports},
		{"clocks", clocks},
		{"transactions", transactions},
		{"migrations", schema},
		{"model", modelled},
	} {
		if len(only) > 0 && !slices.Contains(only, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, g := range group.guarantees {
				t.Run(g.name, func(t *testing.T) {
					g.test(t, newEnv(t, e, shared, db))
				})
			}
		})
	}
}

// A guarantee is a sentence that holds on every engine, and its proof.
type guarantee struct {
	name string
	test func(*testing.T, *env)
}

// tb is what a helper needs of a test; *rapid.T has it too.
type tb interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// An env is what one guarantee works with: a store with a clock and a tenant of
// its own.
type env struct {
	*store.Store
	clock  *clock
	engine Engine
	open   func() engine.DB // one more node on the same database
	db     engine.DB
	tenant atrium.TenantID
}

func newEnv(t *testing.T, e Engine, open func() engine.DB, db engine.DB) *env {
	t.Helper()
	c := &clock{at: start}
	env := &env{Store: store.New(db, c.now), clock: c, engine: e, open: open, db: db}
	env.tenant = env.newTenant(t)
	return env
}

// fresh returns an env on an empty database of its own.
func (e *env) fresh(t *testing.T) *env {
	t.Helper()
	open := e.engine.New(t)
	db := open()
	e.engine.schema(t, db)
	return newEnv(t, e.engine, open, db)
}

// node returns the env as another node sees it.
func (e *env) node() *env {
	other := *e
	other.db = e.open()
	other.Store = store.New(other.db, e.clock.now)
	return &other
}

// as returns the env as another tenant has it.
func (e *env) as(tenant atrium.TenantID) *env {
	other := *e
	other.tenant = tenant
	return &other
}

func (e *env) newTenant(t tb) atrium.TenantID {
	t.Helper()
	tenant, _, err := e.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatalf("create a tenant: %v", err)
	}
	return tenant.ID
}

// start is what a clock shows at first: an instant with microseconds, so that
// what is not cut to milliseconds is seen.
var start = time.Date(2026, 3, 4, 5, 6, 7, 890_123_000, time.UTC)

// A clock stands still until it is moved. It is safe for concurrent use.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// step moves the clock, back if d is negative.
func (c *clock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// shows returns the instant that the clock shows, as it is recorded.
func (c *clock) shows() atrium.Time { return atrium.At(c.now()) }

// parallel runs f so many times at once and returns when all have ended.
func parallel(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

func pointer[T any](v T) *T { return &v }
