package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/migrations"
	"atrium/internal/store/register"
)

var schema = []guarantee{
	{"migrations run in order and only once", migrationsRunOnce},
	{concurrent + "nodes run each migration once", migrationsConcurrent},
	{"a failed migration is rolled back and can be retried", migrationFails},
	{"the migration to search indexes stored records, also after it was interrupted", migrationIndexes},
	{"the migration of long domains moves them out of their accounts", migrationMovesDomains},
	{"the migration to erasures of persons gives its scope to keys that may erase accounts, and to no others", migrationAddsScope},
	{"a database that a newer release has migrated can be used until the upgrade is finished", upgradeFinished},
	{"a database is not migrated before the last upgrade is finished", upgradeUnfinished},
	{"a new database does not need the end of an upgrade", upgradeOfNew},
}

// unmigrated returns a store on an empty database, and the names of all migrations.
func (e *env) unmigrated(t *testing.T) (s *store.Store, open func() engine.DB, all []string) {
	t.Helper()
	steps, err := migrations.For(e.engine.Name)
	if err != nil || len(steps) == 0 {
		t.Fatalf("%d migrations, %v", len(steps), err)
	}
	for _, m := range steps {
		all = append(all, m.Name)
	}
	open = e.engine.New(t)
	return store.New(open(), time.Now), open, all
}

func migrationsRunOnce(t *testing.T, e *env) {
	s, _, all := e.unmigrated(t)
	ran, err := s.Migrate(t.Context())
	if err != nil || len(ran) != len(all) {
		t.Fatalf("ran %v, %v, want %v", ran, err, all)
	}
	for i, name := range ran {
		if !strings.HasSuffix(name, all[i]) {
			t.Errorf("step %d was %s, want %s", i+1, name, all[i])
		}
	}
	for range 2 {
		if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != 0 {
			t.Errorf("ran %v again, %v", ran, err)
		}
	}
}

func migrationsConcurrent(t *testing.T, e *env) {
	s, open, all := e.unmigrated(t)
	stores := []*store.Store{s, store.New(open(), time.Now), store.New(open(), time.Now)}
	ran := make([]int, 2*len(stores))
	parallel(t, len(ran), func(i int) {
		names, err := stores[i%len(stores)].Migrate(t.Context())
		if err != nil {
			t.Errorf("migrate: %v", err)
		}
		ran[i] = len(names)
	})
	total := 0
	for _, n := range ran {
		total += n
	}
	if total != len(all) {
		t.Errorf("%d migrations ran, want %d", total, len(all))
	}
}

// A failingMigrations is a DB whose migrations fail at a statement.
type failingMigrations struct {
	engine.DB
	at string // the beginning of the statement
}

func (f failingMigrations) Migrate(ctx context.Context, do func(engine.Tx) error) error {
	return f.DB.Migrate(ctx, func(tx engine.Tx) error { return do(failingMigrationsTx{tx, f.at}) })
}

type failingMigrationsTx struct {
	engine.Tx
	at string
}

func (f failingMigrationsTx) Exec(sql string, args ...any) (int64, error) {
	if strings.HasPrefix(sql, f.at) {
		return 0, errOnPurpose
	}
	return f.Tx.Exec(sql, args...)
}

func migrationFails(t *testing.T, e *env) {
	_, open, all := e.unmigrated(t)
	db := open()
	broken := store.New(failingMigrations{db, "INSERT INTO schema_migrations"}, time.Now)
	if ran, err := broken.Migrate(t.Context()); !errors.Is(err, errOnPurpose) || len(ran) != 0 {
		t.Errorf("ran %v, %v, want none", ran, err)
	}
	if err := db.Read(t.Context(), func(tx engine.Tx) error {
		_, err := get(tx, "any")
		return err
	}); err == nil || errors.Is(err, engine.ErrNoRow) {
		t.Error("a migration that failed left a table")
	}
	s := store.New(db, time.Now)
	if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != len(all) {
		t.Errorf("ran %v, %v, want all of %v", ran, err, all)
	}
	if _, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant"); err != nil {
		t.Errorf("use the database: %v", err)
	}
}

// setMark stores the number of the newest migration of the release to which an upgrade is finished.
func setMark(t *testing.T, db engine.DB, number uint64) {
	t.Helper()
	if err := db.Write(t.Context(), func(tx engine.Tx) error {
		_, err := tx.Exec("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
			register.Finished, binary.BigEndian.AppendUint64(nil, number))
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func wantUpgrade(t *testing.T, s *store.Store, finished bool) {
	t.Helper()
	if got, err := s.CheckUpgrade(t.Context()); err != nil || got != finished {
		t.Errorf("the upgrade is finished: %v, %v, want %v", got, err, finished)
	}
}

func upgradeFinished(t *testing.T, e *env) {
	s, open, all := e.unmigrated(t)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := open()
	if err := db.Write(t.Context(), func(tx engine.Tx) error {
		for i := range 3 {
			if _, err := tx.Exec("INSERT INTO schema_migrations (number, name, applied_at) VALUES ($1, $2, $3)", int64(len(all)+i+1), "later", int64(0)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != 0 {
		t.Errorf("ran %v, %v, want none", ran, err)
	}
	wantUpgrade(t, s, true) // to the release of this binary
	if _, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant"); err != nil {
		t.Errorf("use the database: %v", err)
	}

	setMark(t, db, uint64(len(all)+3))
	_, migrate := s.Migrate(t.Context())
	_, check := s.CheckUpgrade(t.Context())
	for _, err := range []error{migrate, check} {
		if !errors.Is(err, store.ErrNewer) {
			t.Errorf("after the upgrade: %v", err)
		}
	}
	if err := s.FinishUpgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CheckUpgrade(t.Context()); !errors.Is(err, store.ErrNewer) {
		t.Errorf("an older binary has undone the end of an upgrade: %v", err)
	}
}

func upgradeUnfinished(t *testing.T, e *env) {
	s, db := e.migratedTo(t, migrations.Previous)
	setMark(t, db, migrations.Previous-1)
	if ran, err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "run atrium migrate --finish") || len(ran) > 0 {
		t.Errorf("before the last upgrade is finished: ran %v, %v", ran, err)
	}
	setMark(t, db, migrations.Previous)
	if ran, err := s.Migrate(t.Context()); err != nil || len(ran) == 0 {
		t.Fatalf("after it: ran %v, %v", ran, err)
	}
	wantUpgrade(t, s, false)
	for range 2 {
		if err := s.FinishUpgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantUpgrade(t, s, true)
	}
}

func upgradeOfNew(t *testing.T, e *env) {
	s, _, _ := e.unmigrated(t)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantUpgrade(t, s, true)
	unmarked, _ := e.migratedTo(t, migrations.Previous) // by a release without marks
	if _, err := unmarked.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantUpgrade(t, unmarked, false)
}

// migratedTo returns a store on a database with the migrations up to a number.
func (e *env) migratedTo(t *testing.T, number int64) (s *store.Store, db engine.DB) {
	t.Helper()
	steps, err := migrations.For(e.engine.Name)
	if err != nil {
		t.Fatalf("migrations: %v", err)
	}
	db = e.engine.New(t)()
	if err := db.Migrate(t.Context(), func(tx engine.Tx) error {
		if err := tx.Script("CREATE TABLE schema_migrations (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)"); err != nil {
			return err
		}
		for _, m := range steps[:number] {
			if err := tx.Script(m.SQL); err != nil {
				return err
			}
			if _, err := tx.Exec("INSERT INTO schema_migrations (number, name, applied_at) VALUES ($1, $2, $3)", m.Number, m.Name, int64(0)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("migrate to %d: %v", number, err)
	}
	return store.New(db, time.Now), db
}

// beforeSearch stores a tenant with accounts and a prospect in the schema from before the search.
func beforeSearch(t *testing.T, db engine.DB, accounts int) (tenant atrium.TenantID) {
	t.Helper()
	tenant = atrium.NewID[atrium.TenantID]()
	if err := db.Write(t.Context(), func(tx engine.Tx) error {
		if _, err := tx.Exec("INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, $2, $3)", storedID(tenant), "Tenant", int64(0)); err != nil {
			return err
		}
		for i := range accounts {
			name := any(fmt.Sprint("Name ", i))
			if i%2 == 0 {
				name = nil
			}
			domain := fmt.Sprintf("d%d.example", i)
			if _, err := tx.Exec(`INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, created_at, updated_at, stored_at)
				VALUES ($1, $2, $3, $4, $5, $6, $6, $6)`,
				storedID(tenant), storedID(atrium.NewID[atrium.AccountID]()), domain, hashed(domain), name, int64(i)); err != nil {
				return err
			}
		}
		_, err := tx.Exec("INSERT INTO prospects (tenant_id, prospect_id, email, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)",
			storedID(tenant), storedID(atrium.NewID[atrium.ProspectID]()), "jane@d1.example", int64(0))
		return err
	}); err != nil {
		t.Fatalf("store: %v", err)
	}
	return tenant
}

func migrationMovesDomains(t *testing.T, e *env) {
	s, db := e.migratedTo(t, 2)
	tenant := beforeSearch(t, db, 4)
	domains := []string{"first.example", strings.Repeat("日", 1025), strings.Repeat("日", 1026), strings.Repeat("z", 1<<20)}
	for i, domain := range domains {
		if err := db.Write(t.Context(), func(tx engine.Tx) error {
			_, err := tx.Exec("UPDATE accounts SET domain = $1, domain_hash = $2 WHERE tenant_id = $3 AND domain_hash = $4",
				domain, hashed(domain), storedID(tenant), hashed(fmt.Sprintf("d%d.example", i)))
			return err
		}); err != nil {
			t.Fatalf("store: %v", err)
		}
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	e = (&env{Store: s, clock: e.clock, engine: e.engine, db: db}).as(tenant)
	for _, domain := range domains {
		if a := e.account(t, e.record(t, byDomain(domain)).AccountID); a.Domain != domain {
			t.Errorf("the domain of %d bytes came back with %d", len(domain), len(a.Domain))
		}
	}
	if n := e.rowsOf(t, "accounts"); n != int64(len(domains)) {
		t.Errorf("there are %d accounts", n)
	}
	e.checkLongDomains(t)
	e.wantTerms(t)
}

func migrationAddsScope(t *testing.T, e *env) {
	s, db := e.migratedTo(t, 11)
	tenant := atrium.NewID[atrium.TenantID]()
	e = (&env{Store: s, clock: e.clock, engine: e.engine, db: db}).as(tenant)
	e.sql(t, "INSERT INTO tenants (tenant_id, name, created_at) VALUES ($1, $2, $3)", storedID(tenant), "Tenant", int64(0))
	const added = " manage:erase"
	keys := []struct {
		tenant any // nil for the key of an operator
		scopes string
		want   string
	}{
		{storedID(tenant), "manage:accounts", added},
		{storedID(tenant), "pages:read manage:accounts", added},
		{storedID(tenant), "manage:accounts pages:read", added},
		{nil, "manage:accounts manage:tenants", added},
		{nil, "manage:tenants", ""},
		{storedID(tenant), "manage:accounts_all", ""},
		{storedID(tenant), "pages:read also_manage:accounts", ""},
		{storedID(tenant), "manage:read manage:pages", ""},
		{storedID(tenant), "", ""},
	}
	ids := make([]any, len(keys))
	for i, k := range keys {
		ids[i] = storedID(atrium.NewID[atrium.KeyID]())
		e.sql(t, "INSERT INTO api_keys (key_id, tenant_id, name, scopes, secret_hash, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
			ids[i], k.tenant, "Key", k.scopes, secretHash(byte(i)), int64(0))
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	for i, k := range keys {
		if err := engine.Find(func(sql string, args engine.Args, each func(engine.Row) error) error {
			return db.Query(t.Context(), sql, args, each)
		},
			"SELECT scopes FROM api_keys WHERE key_id = $1", engine.Args{ids[i]}, func(r engine.Row) {
				if got := r.Text(0); got != k.scopes+k.want {
					t.Errorf("the key with %q has %q", k.scopes, got)
				}
			}); err != nil {
			t.Error(err)
		}
	}
}

func migrationIndexes(t *testing.T, e *env) {
	const accounts = 1100 // more than one batch
	s, db := e.migratedTo(t, 2)
	var tenants []atrium.TenantID
	for range 2 {
		tenants = append(tenants, beforeSearch(t, db, accounts))
	}
	broken := store.New(failingMigrations{db, "INSERT INTO schema_migrations"}, time.Now) // the last statement
	if ran, err := broken.Migrate(t.Context()); !errors.Is(err, errOnPurpose) || len(ran) != 0 {
		t.Fatalf("ran %v, %v, want none", ran, err)
	}
	if ran, err := s.Migrate(t.Context()); err != nil || len(ran) == 0 || ran[0] != "0003_management" {
		t.Fatalf("ran %v, %v, want it and those after it", ran, err)
	}
	e = &env{Store: s, clock: e.clock, engine: e.engine, db: db}
	for _, tenant := range tenants {
		e := e.as(tenant)
		e.wantTerms(t)
		for query, want := range map[string]string{"d1099": "d1099.example", "name 7 d7.e": "d7.example", "d500.example": "d500.example"} {
			if got := e.found(t, query); !slices.Equal(got, []string{want}) {
				t.Errorf("%q finds %v, want %s", query, got, want)
			}
		}
		found, _, err := e.Prospects(t.Context(), tenant, atrium.ProspectFilter{Words: []string{"jane"}}, nil, 10)
		if err != nil || len(found) != 1 {
			t.Errorf("found %v, %v, want the one prospect", found, err)
		}
	}
}
