package store

import (
	"context"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
)

// A Server is how a database server is set up.
type Server = engine.Server

// A Cluster is the state of the servers and tables of a cluster.
type Cluster = engine.Cluster

// Server returns how the database server is set up, nil for an embedded database.
func (s *Store) Server(ctx context.Context) (*Server, error) {
	server, err := s.db.Server(ctx)
	if err == nil && server != nil && server.Cluster != nil {
		server.Cluster.NotDistributed = slices.DeleteFunc(server.Cluster.NotDistributed, func(table string) bool {
			return !slices.Contains(tables.Copied, table) && !slices.Contains(tables.Sharded, table)
		})
	}
	return server, public(err)
}

// newestOf is how many tenants NewestInstant looks at, the newest ones. Each is asked for
// by itself, as every statement keeps to one tenant: that is a round trip to a server.
const newestOf = 100

// NewestInstant returns the latest of the instants that clocks of this service have given:
// to uses of keys, and to the newest change of each tenant. An entry may have been imported
// with any. 0 if there is nothing. The schema is up to date.
func (s *Store) NewestInstant(ctx context.Context) (newest atrium.Time, err error) {
	latest := func(sql string, args ...any) error {
		return s.query(ctx, sql, args, func(r engine.Row) error {
			newest = max(newest, atrium.Time(r.Int(0)))
			return nil
		})
	}
	if err := latest("SELECT COALESCE(MAX(last_used_at), 0) FROM api_keys"); err != nil {
		return 0, err
	}
	tenants, _, err := s.Tenants(ctx, nil, newestOf)
	if err != nil {
		return 0, err
	}
	for _, t := range append(tenants, atrium.Tenant{ID: atrium.OperatorChain}) {
		if err := latest("SELECT at FROM audit WHERE tenant_id = $1 ORDER BY number DESC LIMIT 1", idArg(t.ID)); err != nil {
			return 0, err
		}
	}
	return newest, nil
}
