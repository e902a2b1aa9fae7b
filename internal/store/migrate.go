package store

import (
	"context"
	"fmt"
	"slices"

	"atrium"
	"atrium/internal/store/accounts"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/migrations"
	"atrium/internal/store/register"
)

// steps maps a migration number to Go code that runs after its SQL, in the same transaction.
var steps = map[int64]func(engine.Tx) error{
	3: accounts.IndexAll,
}

const createMigrationsTable = `CREATE TABLE IF NOT EXISTS schema_migrations (
	number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)`

// Distribute distributes the tables of tenants over the servers of a Citus cluster, by tenant,
// and returns the tables that were not distributed before. Nodes that are running treat the
// database as a single server until they are restarted.
func (s *Store) Distribute(ctx context.Context) (done []string, err error) {
	done, err = s.db.Engine.Distribute(ctx, register.Distribution())
	return done, kernel.Public(err)
}

// Migrate brings the schema up to date and returns the names of the migrations that it ran. Each
// migration runs once, in its own transaction; concurrent callers wait. New tables of a
// distributed database are distributed. Migrate refuses a database that is not for this release: see
// upgrade.go.
func (s *Store) Migrate(ctx context.Context) ([]string, error) {
	all, err := migrations.For(s.db.Engine.Name())
	if err != nil {
		return nil, err
	}
	var ran []string
	var at int64
	for _, m := range all {
		if m.Number <= at {
			continue
		}
		var did bool
		if at, did, err = s.migrate(ctx, m, int64(len(all))); err != nil {
			return ran, err
		}
		if did {
			ran = append(ran, fmt.Sprintf("%04d_%s", m.Number, m.Name))
		}
	}
	if s.db.Engine.Traits().Sharded { // also what an interrupted migration has left
		_, err = s.Distribute(ctx)
	}
	return ran, err
}

// migrate runs m unless the database has it. It returns the newest migration that the database then
// has, and whether m ran.
func (s *Store) migrate(ctx context.Context, m migrations.Migration, newest int64) (at int64, did bool, err error) {
	err = kernel.Public(s.db.Engine.Migrate(ctx, func(tx engine.Tx) error {
		at, did = 0, false
		if err := tx.Script(createMigrationsTable); err != nil {
			return err
		}
		if err := engine.Find(tx.Query, "SELECT COALESCE(MAX(number), 0) FROM schema_migrations", nil, func(r engine.Row) { at = r.Int(0) }); err != nil {
			return err
		}
		if at > 0 { // the first migration creates the table of the mark
			finished, err := kernel.FinishedAt(tx.Query)
			if err == nil {
				err = checkNewer(finished, newest)
			}
			if err != nil || at >= m.Number {
				return err
			}
			if err := checkMigrate(at, finished); err != nil {
				return err
			}
		}
		if err := tx.Script(m.SQL); err != nil {
			return fmt.Errorf("migration %d (%s): %w", m.Number, m.Name, err)
		}
		if step := steps[m.Number]; step != nil {
			if err := step(tx); err != nil {
				return fmt.Errorf("migration %d (%s): %w", m.Number, m.Name, err)
			}
		}
		if m.Number == 1 { // a new database, which no other release uses
			if err := setFinished(tx, newest); err != nil {
				return err
			}
		}
		at, did = m.Number, true
		_, err := tx.Exec("INSERT INTO schema_migrations (number, name, applied_at) VALUES ($1, $2, $3)",
			m.Number, m.Name, int64(atrium.At(s.db.Now())))
		return err
	}))
	return at, did, err
}

// Schema returns the newest migration that the database has, 0 for none, and the newest
// that this binary has for it.
func (s *Store) Schema(ctx context.Context) (at, newest int64, err error) {
	newest, err = migrations.Newest(s.db.Engine.Name())
	if err != nil {
		return 0, 0, err
	}
	names, err := s.db.Engine.Tables(ctx)
	if err == nil && slices.Contains(names, "schema_migrations") { // which the first migration makes
		err = s.db.Find(ctx, "SELECT COALESCE(MAX(number), 0) FROM schema_migrations", nil, func(r engine.Row) { at = r.Int(0) })
	}
	return at, newest, kernel.Public(err)
}
