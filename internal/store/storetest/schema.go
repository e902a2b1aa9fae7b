package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/migrations"
)

var schema = []guarantee{
	{"migrations run once, in order, and then never again", migrationsRunOnce},
	{"nodes that migrate at once run each migration once", migrationsConcurrent},
	{"a migration that fails leaves nothing, and can be run again", migrationFails},
	{"a database that is newer by one step is used as it is", newerByOne},
	{"a database that is newer by two steps is refused with what to do", newerByTwo},
}

// unmigrated returns a store on an empty database, and the names of all
// migrations.
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
	if err := s.Migrated(t.Context()); err == nil {
		t.Error("an empty database counts as migrated")
	}
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
		if err := s.Migrated(t.Context()); err != nil {
			t.Errorf("a migrated database: %v", err)
		}
	}
}

func migrationsConcurrent(t *testing.T, e *env) {
	s, open, all := e.unmigrated(t)
	stores := []*store.Store{s, store.New(open(), time.Now), store.New(open(), time.Now)}
	ran := make([]int, 2*len(stores))
	parallel(len(ran), func(i int) {
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

// failing is a DB whose transactions fail at a statement.
type failing struct {
	engine.DB
	at string // what the statement begins with
}

func (f failing) Migrate(ctx context.Context, do func(engine.Tx) error) error {
	return f.DB.Migrate(ctx, func(tx engine.Tx) error { return do(failingTx{tx, f.at}) })
}

type failingTx struct {
	engine.Tx
	at string
}

func (f failingTx) Exec(sql string, args ...any) (int64, error) {
	if strings.HasPrefix(sql, f.at) {
		return 0, errOnPurpose
	}
	return f.Tx.Exec(sql, args...)
}

func migrationFails(t *testing.T, e *env) {
	_, open, all := e.unmigrated(t)
	db := open()
	broken := store.New(failing{db, "INSERT INTO schema_migrations"}, time.Now)
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

// newer returns a store whose database a later binary has migrated by so many
// steps more.
func (e *env) newer(t *testing.T, steps int) *store.Store {
	t.Helper()
	s, open, all := e.unmigrated(t)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	if err := open().Write(t.Context(), func(tx engine.Tx) error {
		for i := range steps {
			if _, err := tx.Exec("INSERT INTO schema_migrations (number, name, applied_at) VALUES ($1, $2, $3)", int64(len(all)+i+1), "later", int64(0)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("write: %v", err)
	}
	return s
}

func newerByOne(t *testing.T, e *env) {
	s := e.newer(t, 1)
	if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != 0 {
		t.Errorf("ran %v, %v, want none", ran, err)
	}
	if err := s.Migrated(t.Context()); err != nil {
		t.Errorf("it cannot be used: %v", err)
	}
	if _, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant"); err != nil {
		t.Errorf("use the database: %v", err)
	}
}

func newerByTwo(t *testing.T, e *env) {
	s := e.newer(t, 2)
	_, err := s.Migrate(t.Context())
	for _, err := range []error{err, s.Migrated(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "newer binary") {
			t.Errorf("error %v, want one that says to use a newer binary", err)
		}
	}
}
