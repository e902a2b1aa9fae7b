//go:build exhaustive || citus

package store_test

import (
	"testing"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/storetest"
)

// clusterEngine is a database on a server or cluster at an address. Each test database is a
// schema in it.
func clusterEngine(address string, distributed bool) storetest.Engine {
	return storetest.Engine{Name: "postgres", Distributed: distributed, New: func(t *testing.T) func() engine.DB {
		url := postgrestest.NewSchema(t, address)
		return func() engine.DB { return openPostgres(t, url, postgres.Options{}) }
	}}
}
