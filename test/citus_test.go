//go:build citus

package test

import (
	"os"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/engine/recording"
)

// A Citus cluster is one more engine. It is a separate schema on the coordinator that
// CITUS_URL names, with distributed tables.
func init() {
	engines = append(engines, struct {
		name string
		form string
		open func(t *testing.T) engine.DB
	}{"citus", recording.Shard, func(t *testing.T) engine.DB {
		t.Helper()
		address := os.Getenv("CITUS_URL")
		if address == "" {
			t.Fatal("CITUS_URL must be the address of a database on a Citus coordinator: make test-citus CITUS_URL=postgres://…")
		}
		url := postgrestest.NewSchema(t, address, "citus.shard_count=4")
		db, err := postgres.Open(t.Context(), url, postgres.Options{Connections: 8})
		if err != nil {
			t.Fatal(err)
		}
		s := store.New(db, time.Now)
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Distribute(t.Context()); err != nil {
			t.Fatal(err)
		}
		return db
	}})
}
