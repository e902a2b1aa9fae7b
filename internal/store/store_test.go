package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/engine/recording"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/storetest"
)

// sqliteEngine is the embedded engine. Each database is in a directory of its test. wrap wraps
// every DB.
func sqliteEngine(wrap func(engine.DB) engine.DB) storetest.Engine {
	return storetest.Engine{Name: "sqlite", New: func(t *testing.T) func() engine.DB {
		path := filepath.Join(t.TempDir(), "test.db")
		return func() engine.DB {
			db, err := sqlite.Open(path, sqlite.Options{})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			return wrap(db)
		}
	}}
}

// postgresEngine is a PostgreSQL server. Each test has its own database. wrap wraps every DB.
func postgresEngine(options postgres.Options, wrap func(engine.DB) engine.DB) storetest.Engine {
	opens := func(t *testing.T, url string) func() engine.DB {
		return func() engine.DB { return wrap(openPostgres(t, url, options)) }
	}
	return storetest.Engine{
		Name:     "postgres",
		New:      func(t *testing.T) func() engine.DB { return opens(t, postgrestest.Shared(t).NewDatabase(t)) },
		Migrated: func(t *testing.T) func() engine.DB { return opens(t, storetest.NewMigrated(t)) },
	}
}

func openPostgres(t *testing.T, url string, options postgres.Options) engine.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, options)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func TestSQLiteKeepsEveryGuarantee(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	storetest.Run(t, sqliteEngine(func(db engine.DB) engine.DB { return recording.New(db, recording.Embedded, r.note) }))
	t.Run("plans", r.checkPlans)
}

func TestPostgreSQLKeepsEveryGuarantee(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	storetest.Run(t, postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return recording.New(db, recording.Server, r.note) }))
	t.Run("plans", func(t *testing.T) { r.checkServerPlans(t, regexp.MustCompile(`tenant_id = `)) })
}

// A retried transaction must not depend on results that the first attempt left in memory, in
// return values or in arguments.
func TestGuaranteesHoldWhenTransactionsAreRetried(t *testing.T) {
	t.Parallel()
	storetest.Run(t, sqliteEngine(func(db engine.DB) engine.DB { return retryingDB{db, func() {}} }),
		"attribution", "names", "idempotency", "nodes", "tenants", "keys", "moves", "counts", "terms", "accounts", "prospects",
		"pages", "audiences", "versions", "events", "import", "copies", "migrations", "model")
}

func TestARetriedTransactionAssignsVersionNumbersAgain(t *testing.T) {
	db := sqliteEngine(func(db engine.DB) engine.DB { return db }).New(t)()
	other := store.New(db, time.Now)
	if _, err := other.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := other.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	page := &atrium.Page{
		ID: atrium.NewID[atrium.PageID](), BrandID: "brand", Status: atrium.PageDraft,
		Actions: []byte("[]"), Scripts: []byte("[]"), FooterLinks: []byte("[]"),
	}
	audience := &atrium.Audience{ID: atrium.NewID[atrium.AudienceID](), PageID: page.ID}
	put := func(s *store.Store, records ...store.Record) {
		t.Helper()
		var items []store.Import
		for _, r := range records {
			items = append(items, store.Import{Record: r})
		}
		if _, err := s.Import(t.Context(), atrium.CommandLine(tenant.ID), items); err != nil {
			t.Fatal(err)
		}
	}
	version := func() store.Record {
		return &atrium.AudienceVersion{Version: atrium.Version{AudienceID: audience.ID}}
	}
	put(other, page, audience)
	put(store.New(retryingDB{db, func() { put(other, version()) }}, time.Now), version())

	versions, _, err := other.Versions(t.Context(), tenant.ID, page.ID, audience.ID, 0, 9)
	if err != nil || len(versions) != 2 || versions[0].Number != 2 || versions[1].Number != 1 {
		t.Errorf("versions %+v, %v, want numbers 2 and 1", versions, err)
	}
}

// A retryingDB is a DB that runs every write transaction twice and rolls the first attempt back.
// It calls between after that.
type retryingDB struct {
	engine.DB
	between func()
}

var errRetry = errors.New("retry")

func (db retryingDB) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.twice(ctx, db.DB.Write, f)
}

func (db retryingDB) Migrate(ctx context.Context, f func(engine.Tx) error) error {
	return db.twice(ctx, db.DB.Migrate, f)
}

func (db retryingDB) twice(ctx context.Context, write func(context.Context, func(engine.Tx) error) error, f func(engine.Tx) error) error {
	err := write(ctx, func(tx engine.Tx) error {
		_ = f(tx) // the result of the first attempt does not count
		return errRetry
	})
	if !errors.Is(err, errRetry) {
		return err
	}
	db.between()
	return write(ctx, f)
}

func (db retryingDB) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	return db.DB.Snapshot(ctx, func(snapshot engine.DB) error { return f(retryingDB{snapshot, db.between}) })
}
