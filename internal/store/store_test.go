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

// sqliteEngine is the embedded engine, each database in a directory of its test, with
// wrap around every DB.
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

// postgresEngine is a server, each database one of its own, with wrap around every DB.
func postgresEngine(options postgres.Options, wrap func(engine.DB) engine.DB) storetest.Engine {
	return storetest.Engine{Name: "postgres", New: func(t *testing.T) func() engine.DB {
		url := postgrestest.Shared(t).NewDatabase(t)
		return func() engine.DB { return wrap(openPostgres(t, url, options)) }
	}}
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

// A transaction that the engine starts over must leave nothing behind in memory:
// not in what it returns, nor in what it was given.
func TestGuaranteesHoldWhenTransactionsStartOver(t *testing.T) {
	t.Parallel()
	storetest.Run(t, sqliteEngine(func(db engine.DB) engine.DB { return startingOver{db, func() {}} }),
		"attribution", "names", "idempotency", "nodes", "tenants", "keys", "moves", "terms", "accounts", "prospects",
		"pages", "audiences", "versions", "import", "migrations", "model")
}

func TestANumberIsGivenAnewWhenTheTransactionStartsOver(t *testing.T) {
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
	put(store.New(startingOver{db, func() { put(other, version()) }}, time.Now), version())

	versions, _, err := other.Versions(t.Context(), tenant.ID, page.ID, audience.ID, 0, 9)
	if err != nil || len(versions) != 2 || versions[0].Number != 2 || versions[1].Number != 1 {
		t.Errorf("versions %+v, %v, want numbers 2 and 1", versions, err)
	}
}

// startingOver is a DB that runs every write transaction twice, and rolls back
// the first. In between, something else may be done.
type startingOver struct {
	engine.DB
	between func()
}

var errStartOver = errors.New("start over")

func (db startingOver) Write(ctx context.Context, f func(engine.Tx) error) error {
	return db.twice(ctx, db.DB.Write, f)
}

func (db startingOver) Migrate(ctx context.Context, f func(engine.Tx) error) error {
	return db.twice(ctx, db.DB.Migrate, f)
}

func (db startingOver) twice(ctx context.Context, write func(context.Context, func(engine.Tx) error) error, f func(engine.Tx) error) error {
	err := write(ctx, func(tx engine.Tx) error {
		_ = f(tx) // whatever came of it is not so any more
		return errStartOver
	})
	if !errors.Is(err, errStartOver) {
		return err
	}
	db.between()
	return write(ctx, f)
}

func (db startingOver) Snapshot(ctx context.Context, f func(engine.DB) error) error {
	return db.DB.Snapshot(ctx, func(snapshot engine.DB) error { return f(startingOver{snapshot, db.between}) })
}
