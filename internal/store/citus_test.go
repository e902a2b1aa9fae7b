//go:build citus

package store_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/recording"
	"atrium/internal/store/migrations"
	"atrium/internal/store/storetest"
)

func citusAddress(t *testing.T) string {
	t.Helper()
	address := os.Getenv("CITUS_URL")
	if address == "" {
		t.Fatal("CITUS_URL must be the address of a database on a Citus coordinator: make test-citus CITUS_URL=postgres://…")
	}
	return address
}

func TestCitusKeepsEveryGuarantee(t *testing.T) {
	r := &recorder{}
	e := clusterEngine(citusAddress(t), true, func(db engine.DB) engine.DB { return recording.New(db, recording.Shard, r.note) })
	storetest.Run(t, e)
	t.Run("tasks", r.checkTasks)
}

func TestCopiesToAndFromCitus(t *testing.T) {
	pass := func(db engine.DB) engine.DB { return db }
	embedded, cluster := sqliteEngine(pass), clusterEngine(citusAddress(t), true, pass)
	t.Run("SQLite to Citus", func(t *testing.T) { storetest.RunCopies(t, embedded, cluster) })
	t.Run("Citus to SQLite", func(t *testing.T) { storetest.RunCopies(t, cluster, embedded) })
}

var (
	taskCount   = regexp.MustCompile(`Task Count: (\d+)`)
	inSeveral   = regexp.MustCompile(`Distributed Subplan|Citus INSERT \.\.\. SELECT|Citus MERGE`)
	placeholder = map[string]string{
		"bytea": `'\x01'::bytea`, "bytea[]": `ARRAY['\x01'::bytea]`, "text": "'x'::text", "text[]": "ARRAY['x'::text]", "bigint": "1::bigint", "bigint[]": "ARRAY[1::bigint]",
	}
)

// checkTasks asks a cluster for the plan of each statement of one tenant: one task, on the server
// that has the tenant. Statements of the reference tables have none, because every server has them.
func (r *recorder) checkTasks(t *testing.T) {
	pass := func(db engine.DB) engine.DB { return db }
	db := clusterEngine(citusAddress(t), true, pass).New(t)()
	s := store.New(db, time.Now)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Distribute(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	r.each(t, func(sql string) {
		if !ofTenant(tablesOf(sql)) || strings.HasPrefix(sql, "CREATE") {
			return
		}
		n++
		plan, err := citusPlan(t, db, fmt.Sprint("planned", n), sql)
		switch m := taskCount.FindAllStringSubmatch(plan, -1); {
		case err != nil:
			t.Errorf("plan of %s: %v", sql, err)
		case len(m) != 1 || m[0][1] != "1" || inSeveral.MatchString(plan):
			t.Errorf("%s\nin\n%s", plan, sql)
		}
	})
	if n < 60 {
		t.Errorf("only %d statements are of one tenant", n)
	}
}

func citusPlan(t *testing.T, db engine.DB, name, sql string) (plan string, err error) {
	t.Helper()
	err = db.Write(t.Context(), func(tx engine.Tx) error {
		plan = ""
		if err := tx.Script("PREPARE " + name + " AS " + sql); err != nil {
			return err
		}
		// Some plans cannot be shown with parameters.
		n, text := 0, parameter.ReplaceAllString(sql, "<$0>")
		if err := tx.Query("SELECT unnest(parameter_types)::text FROM pg_prepared_statements WHERE name = $1", engine.Args{name}, func(r engine.Row) error {
			n++
			text = strings.ReplaceAll(text, fmt.Sprintf("<$%d>", n), placeholder[r.Text(0)])
			return nil
		}); err != nil {
			return err
		}
		execute := "EXPLAIN (COSTS OFF) " + text
		return tx.Query(execute, nil, func(row engine.Row) error {
			plan += row.Text(0) + "\n"
			return nil
		})
	})
	return plan, err
}

// A database with rows is distributed with all of them, and none stay on the coordinator. The later
// migrations run on a database that is distributed already.
func TestCitusDistributesTheRowsOfADatabase(t *testing.T) {
	all, err := migrations.For("postgres")
	if err != nil {
		t.Fatal(err)
	}
	for _, applied := range []int{4, len(all)} {
		t.Run(all[applied-1].Name, func(t *testing.T) {
			open := clusterEngine(citusAddress(t), true, func(db engine.DB) engine.DB { return db }).New(t)
			db := open()
			run := func(script string) {
				t.Helper()
				if err := db.Migrate(t.Context(), func(tx engine.Tx) error { return tx.Script(script) }); err != nil {
					t.Fatal(err)
				}
			}
			count := func(sql string) (n int64) {
				t.Helper()
				if err := engine.Find(func(sql string, args engine.Args, each func(engine.Row) error) error {
					return db.Query(t.Context(), sql, args, each)
				}, sql, nil, func(r engine.Row) { n = r.Int(0) }); err != nil {
					t.Fatal(err)
				}
				return n
			}
			run("CREATE TABLE schema_migrations (number BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at BIGINT NOT NULL)")
			for _, m := range all[:applied] {
				run(m.SQL)
				run(fmt.Sprintf("INSERT INTO schema_migrations VALUES (%d, '%s', 1)", m.Number, m.Name))
			}
			fillTables(t, db)
			run("UPDATE accounts SET domain = repeat('x', 2000) WHERE tenant_id < '\\x80'")
			long := count("SELECT count(*) FROM accounts WHERE length(domain) = 2000")

			s := store.New(db, time.Now)
			if applied < len(all) { // distributed by a binary of that time
				older := engine.Tables{Reference: []string{"settings", "tenants", "api_keys", "schedules", "erasures"}, Sharded: []string{
					"accounts", "prospects", "account_prospects", "search_terms", "entries", "moves", "moved_entries", "brands",
					"pages", "audiences", "versions", "audit", "audit_heads", "requests",
				}}
				if _, err := db.Distribute(t.Context(), older); err != nil {
					t.Fatal(err)
				}
				db = open()
				s = store.New(db, time.Now)
			}
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Distribute(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"tenants", "api_keys", "schedules", "accounts", "account_prospects", "entries", "versions", "audit", "requests"} {
				if n := count("SELECT count(*) FROM " + table); n != 1000 {
					t.Errorf("%s has %d rows, want %d", table, n, 1000)
				}
			}
			server, err := s.Server(t.Context())
			if err != nil || server.Cluster == nil || len(server.Cluster.NotDistributed) > 0 || server.Cluster.Colocations != 1 ||
				len(server.Cluster.Versions) < 3 || slices.Contains(server.Cluster.Versions, "") {
				t.Errorf("the cluster is %+v, %v, want 3 servers that respond, and all tables in one group", server.Cluster, err)
			}
			const own = "FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid WHERE c.relnamespace = current_schema()::regnamespace"
			if n := count("SELECT count(*) " + own + " AND pg_relation_size(c.oid) > 0"); n > 0 {
				t.Errorf("%d tables still have rows on the coordinator", n)
			}
			if n := count("SELECT count(DISTINCT colocationid) " + own); n != 2 {
				t.Errorf("%d groups of tables, want the reference tables and the sharded ones", n)
			}
			if n := count(`SELECT count(*) FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
				AND c.relname <> 'schema_migrations' AND NOT EXISTS (SELECT 1 FROM pg_dist_partition p WHERE p.logicalrelid = c.oid
					AND (p.partmethod = 'h' OR p.repmodel = 't'))`); n > 0 {
				t.Errorf("%d tables are not distributed", n)
			}
			if n := count("SELECT count(*) FROM long_domains"); applied < len(all) && n != long {
				t.Errorf("%d long domains were moved, want %d", n, long)
			}
		})
	}
}
