// Package storetest has the tests that every engine of the store must pass: one test for each
// guarantee of the store's methods, and a model that random operations are compared with. Add a
// test here for every difference between engines that you find.
package storetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
)

// An Engine creates databases of one kind.
type Engine struct {
	Name string

	// New creates an empty database and returns a function that opens it. Every DB that it opens
	// is like another node of the service. The end of the test closes them.
	New func(t *testing.T) (open func() engine.DB)

	// Migrated is New for a database with the schema. It is nil unless it is faster than migrating one.
	Migrated func(t *testing.T) (open func() engine.DB)

	// Distributed says that the databases are Citus clusters: the tables are distributed.
	Distributed bool
}

// schema migrates the database.
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

// migrated creates a database with the schema, and returns it and a function that opens it again.
func (e Engine) migrated(t *testing.T) (db engine.DB, open func() engine.DB) {
	t.Helper()
	if e.Migrated != nil {
		open = e.Migrated(t)
		return open(), open
	}
	open = e.New(t)
	db = open()
	e.schema(t, db)
	return db, open
}

// Run tests all guarantees on an engine, or only those of the named groups. Most tests share one
// database, each with its own tenants: they must not see each other's data.
func Run(t *testing.T, e Engine, only ...string) {
	shared := e.New(t)
	db := shared()
	e.schema(t, db)
	for _, group := range []struct {
		name       string
		guarantees []guarantee
	}{
		{"identifiers", identifiers},
		{"attribution", slices.Concat(attribution, activity, deferral, legacyDomains, legacyDomainChanges)},
		{"names", names},
		{"renames", renames},
		{"idempotency", idempotency},
		{"nodes", nodes},
		{"tenants", tenants},
		{"tenant-deletions", tenantDeletions},
		{"keys", slices.Concat(keys, rotation)},
		{"users", slices.Concat(users, sessions, groupMappings)},
		{"audit", audits},
		{"timeline", timeline},
		{"find", find},
		{"moves", slices.Concat(moves, moveBounds)},
		{"brands", brands},
		{"accounts", slices.Concat(accountChanges, manyProspects, accountLists)},
		{"terms", terms},
		{"prospects", prospects},
		{"merges", slices.Concat(merges, mergeBounds)},
		{"erasures", slices.Concat(erasures, erasureBounds, erasureAdmissions)},
		{"tombstones", tombstones},
		{"persons", slices.Concat(persons, personExports)},
		{"retention", retention},
		{"webhooks", tenantWebhooks},
		{"receivers", slices.Concat(tenantReceivers, quarantines)},
		{"summaries", summaryTemplates},
		{"counts", slices.Concat(counts, mostActive)},
		{"events", slices.Concat(tenantEvents, eventContents, eventOrder, restoredEvents, keyNotices)},
		{"requestlog", slices.Concat(refusedRequests, personalReads)},
		{"pages", slices.Concat(pages, pageChanges, pageSizesBounded)},
		{"schedules", schedules},
		{"audiences", audiences},
		{"lists", lists},
		{"versions", slices.Concat(versions, versionChanges)},
		{"content", slices.Concat(contents, previews)},
		{"values", slices.Concat(values, largeRows)},
		{"import", slices.Concat(imports, matched)},
		{"trial", trials},
		{"export", exports},
		{"clocks", clocks},
		{"transactions", transactions},
		{"register", registered},
		{"migrations", schema},
		{"model", modeled},
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
	if len(only) == 0 || slices.Contains(only, "copies") {
		t.Run("copies", func(t *testing.T) { runCopies(t, e, shared, db, e) })
	}
}

// A guarantee is a test that every engine must pass. Its name states the guarantee.
type guarantee struct {
	name string
	test func(*testing.T, *env)
}

// tb has the methods of *testing.T and *rapid.T that helpers need.
type tb interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// An env has what the test of a guarantee needs: a store with a clock and a tenant.
type env struct {
	*store.Store
	clock  *clock
	engine Engine
	open   func() engine.DB // opens the database as another node
	db     engine.DB
	tenant atrium.TenantID
	target *copyTarget // nil unless the test is about copies
}

func newEnv(t *testing.T, e Engine, open func() engine.DB, db engine.DB) *env {
	t.Helper()
	c := &clock{at: start}
	env := &env{Store: store.New(db, c.now), clock: c, engine: e, open: open, db: db}
	env.UseSecrets(testKeys())
	env.tenant = env.newTenant(t)
	return env
}

// fresh returns an env on a new empty database.
func (e *env) fresh(t *testing.T) *env {
	t.Helper()
	db, open := e.engine.migrated(t)
	return newEnv(t, e.engine, open, db)
}

// node returns the env of another node with the same clock and tenant.
func (e *env) node() *env {
	other := *e
	other.db = e.open()
	other.Store = store.New(other.db, e.clock.now)
	other.UseSecrets(testKeys())
	return &other
}

// as returns the env for another tenant.
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

// start is the initial time of a clock. It has microseconds, so that tests notice values that are
// not truncated to milliseconds.
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

// instant returns the time of the clock with the precision of stored instants.
func (c *clock) instant() atrium.Time { return atrium.At(c.now()) }

// concurrent begins the names of guarantees that start goroutines. scripts/test runs these with the race
// detector.
const concurrent = "concurrent: "

// startsGoroutines fails a guarantee that starts goroutines although its name does not say so.
func startsGoroutines(t *testing.T) {
	t.Helper()
	if !strings.Contains(t.Name(), "/"+strings.ReplaceAll(concurrent, " ", "_")) {
		t.Errorf("the name of this guarantee must begin with %q", concurrent)
	}
}

// parallel runs f n times at once and waits for all.
func parallel(t *testing.T, n int, f func(i int)) {
	t.Helper()
	startsGoroutines(t)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

func pointer[T any](v T) *T { return &v }
