package store

import (
	"context"
	"slices"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
	"atrium/internal/store/register"
)

// A Server describes the settings of a database server.
type Server = engine.Server

// A Cluster is the state of the servers and tables of a cluster.
type Cluster = engine.Cluster

// Server returns the settings of the database server, or nil for an embedded database.
func (s *Store) Server(ctx context.Context) (*Server, error) {
	server, err := s.db.Engine.Server(ctx)
	if err == nil && server != nil && server.Cluster != nil {
		tables := register.Distribution()
		server.Cluster.NotDistributed = slices.DeleteFunc(server.Cluster.NotDistributed, func(table string) bool {
			return !slices.Contains(tables.Reference, table) && !slices.Contains(tables.Sharded, table)
		})
	}
	return server, kernel.Public(err)
}

// maxAuditTenants is the number of tenants whose audit records NewestInstant reads, newest tenants first. Each takes a query, and on a
// server a round trip, because every statement must name one tenant.
const maxAuditTenants = 100

// NewestInstant returns the newest timestamp of API key usage, and of the audit records of operators and of the maxAuditTenants newest
// tenants, or 0 if there is none. Package doctor uses it to detect a clock that was set back. The schema must be up to date.
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
	tenants, _, err := s.Tenants(ctx, nil, maxAuditTenants)
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
