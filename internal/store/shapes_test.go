//go:build exhaustive

package store_test

import (
	"regexp"
	"strings"
	"testing"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/engine/recording"
	"atrium/internal/store/storetest"
)

func TestOtherShapesOfPostgreSQLKeepEveryGuarantee(t *testing.T) {
	// If tenants are distributed over several servers, each statement must name one tenant. Such
	// statements must work on a single server too.
	t.Run("a statement for each tenant", func(t *testing.T) {
		r := &recorder{}
		storetest.Run(t, postgresEngine(postgres.Options{Sharded: true}, func(db engine.DB) engine.DB { return recording.New(db, recording.Shard, r.note) }))
		t.Run("plans", func(t *testing.T) { r.checkServerPlans(t, regexp.MustCompile(`tenant_id = \$\d+`)) })
		t.Run("tenants", r.checkOneTenant)
	})
	// The tests of a cluster (citus_test.go) use a schema for each database.
	t.Run("a schema", func(t *testing.T) {
		address := postgrestest.Shared(t).NewDatabase(t)
		storetest.Run(t, clusterEngine(address, false, func(db engine.DB) engine.DB { return db }), "idempotency", "nodes", "export", "migrations")
	})
	// The statements are the same, but pgx sends them in another way. These groups have all kinds
	// of statements, arguments and columns.
	t.Run("unprepared statements", func(t *testing.T) {
		storetest.Run(t, postgresEngine(postgres.Options{Unprepared: true}, func(db engine.DB) engine.DB { return db }),
			"attribution", "idempotency", "nodes", "audit", "moves", "values", "import", "export", "transactions", "migrations", "model")
	})
}

var insertion = regexp.MustCompile(`(?s)^INSERT INTO (\w+) \(([^)]*)\)\s+(?:SELECT|VALUES \()\s*([^,]*),`)

// checkOneTenant fails the test if a statement may insert rows of a tenant other than the one in
// its first parameter, or inserts rows from arrays alone: with a generic plan Citus cannot plan that,
// and with a custom one it reports a duplicate key as an internal error.
func (r *recorder) checkOneTenant(t *testing.T) {
	inserts := 0
	r.each(t, func(sql string) {
		m := insertion.FindStringSubmatch(sql)
		if !strings.HasPrefix(sql, "INSERT") || !ofTenant(tablesOf(sql)) {
			return
		}
		inserts++
		// copyLinks has the tenant of the rows that it copies.
		if m == nil || !strings.HasPrefix(m[2], "tenant_id") || strings.TrimSuffix(m[3], "::bytea") != "$1" && m[3] != "l.tenant_id" {
			t.Errorf("stores for several tenants:\n%s", sql)
		}
		if strings.Contains(sql, "unnest(") && !strings.Contains(sql, "JOIN") {
			t.Errorf("inserts from arrays:\n%s", sql)
		}
	})
	if inserts < 8 {
		t.Errorf("only %d statements insert", inserts)
	}
}
