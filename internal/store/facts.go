package store

import (
	"context"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// A Server is how a database server is set up.
type Server = engine.Server

// Server returns how the database server is set up, nil for an embedded database.
func (s *Store) Server(ctx context.Context) (*Server, error) {
	server, err := s.db.Engine.Server(ctx)
	return server, kernel.Public(err)
}

// newestOf is how many tenants NewestInstant looks at, the newest ones. Each is asked for
// by itself, as every statement keeps to one tenant: that is a round trip to a server.
const newestOf = 100

// NewestInstant returns the latest of the instants that clocks of this service have given:
// to uses of keys, and to the newest change of each tenant. An entry may have been imported
// with any. 0 if there is nothing. The schema is up to date.
func (s *Store) NewestInstant(ctx context.Context) (newest atrium.Time, err error) {
	latest := func(sql string, args ...any) error {
		return s.db.Query(ctx, sql, args, func(r engine.Row) error {
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
		if err := latest("SELECT at FROM audit WHERE tenant_id = $1 ORDER BY number DESC LIMIT 1", kernel.IDArg(t.ID)); err != nil {
			return 0, err
		}
	}
	return newest, nil
}
