package store_test

import (
	"testing"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/storetest"
)

func TestCopiesBetweenEngines(t *testing.T) {
	t.Parallel()
	pass := func(db engine.DB) engine.DB { return db }
	embedded, server := sqliteEngine(pass), postgresEngine(postgres.Options{}, pass)
	t.Run("SQLite to PostgreSQL", func(t *testing.T) { storetest.RunCopies(t, embedded, server) })
	t.Run("PostgreSQL to SQLite", func(t *testing.T) { storetest.RunCopies(t, server, embedded) })
}
