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
func clusterEngine(address string, distributed bool, wrap func(engine.DB) engine.DB) storetest.Engine {
	return storetest.Engine{Name: "postgres", Distributed: distributed, New: func(t *testing.T) func() engine.DB {
		var options postgres.Options
		var settings []string
		if distributed { // creating shards takes most of the time, and servers connect to each other
			options.Connections, settings = 2, []string{"citus.shard_count=4"}
		}
		url := postgrestest.NewSchema(t, address, settings...)
		return func() engine.DB { return wrap(openPostgres(t, url, options)) }
	}}
}
