package store_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
)

// This file holds of a server what plans_test.go holds of the embedded database.

var (
	scanned   = regexp.MustCompile(`(Seq|Index|Index Only|Bitmap Index|Bitmap Heap) Scan (?:Backward )?(?:using \w+ )?on (\w+)(?: (\w+))?`)
	condition = regexp.MustCompile(`^\s*Index Cond: (.*)`)
	filter    = regexp.MustCompile(`^\s*(?:Join )?Filter: (.*)`)
	keys      = regexp.MustCompile(`\w+_(?:id|hash|match)\)? = `)
)

// fewMembers is what statements have that compare the accounts merged into one with themselves:
// these are atrium.MaxMerged at most.
const fewMembers = "survivor_id = $2 AND account_id IN"

// checkServerPlans asks a server for the plan of each statement: an index whose
// condition is bound to the tenant, by the same words for every table that has
// what tenants have. It does so in an empty database and in one with many small tenants, where
// no key may be compared outside of the condition of an index.
func (r *recorder) checkServerPlans(t *testing.T, bound *regexp.Regexp) {
	db := postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return db }).New(t)()
	if _, err := store.New(db, time.Now).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, filled := 0, false
	check := func(sql string) {
		n++
		var tenant string // the condition of the first
		for _, line := range serverPlan(t, db, n, sql) {
			if filled && keys.MatchString(line.filter) && !strings.Contains(sql, fewMembers) {
				t.Errorf("%s with %q\nfilters by %s in\n%s", line.node, line.condition, line.filter, sql)
			}
			m := scanned.FindStringSubmatch(line.node)
			if m == nil || slices.Contains(shared, m[2]) || m[1] == "Bitmap Heap" {
				continue
			}
			if m[1] == "Seq" && !slices.Contains(scans, sql) {
				t.Errorf("%s\nin\n%s", line.node, sql)
				continue
			}
			is := bound.FindString(line.condition)
			if tenant == "" {
				tenant = is
			}
			if is == "" || is != tenant {
				t.Errorf("%s with %q\nis not of the one tenant in\n%s", line.node, line.condition, sql)
			}
		}
	}
	r.each(t, check)
	fillTables(t, db)
	filled = true
	r.each(t, check)
}

// fillTables stores a row of each of 1,000 tenants in every table, so that the planner takes the
// index by tenant alone for as good as a whole key.
func fillTables(t *testing.T, db engine.DB) {
	t.Helper()
	if err := db.Migrate(t.Context(), func(tx engine.Tx) error {
		return tx.Script(`DO $$ DECLARE t record; BEGIN
			SET CONSTRAINTS ALL DEFERRED;
			FOR t IN SELECT c.table_name AS name, string_agg(quote_ident(c.column_name), ', ') AS columns, string_agg(CASE
					WHEN c.column_name = 'action' THEN quote_literal('publish')
					WHEN c.is_nullable = 'YES' THEN 'NULL'
					WHEN c.udt_name = 'bytea' THEN $q$decode(md5(n::text), 'hex')$q$
					WHEN c.udt_name = 'text' THEN quote_literal('published')
					ELSE '1' END, ', ') AS cells
				FROM information_schema.columns c WHERE table_schema = current_schema() AND table_name NOT IN ('settings', 'schema_migrations')
				GROUP BY c.table_name ORDER BY array_position(ARRAY['versions', 'audiences', 'account_prospects', 'api_keys'], c.table_name::text) DESC NULLS FIRST
			LOOP
				EXECUTE format('INSERT INTO %I (%s) SELECT %s FROM generate_series(1, 1000) n', t.name, t.columns, t.cells);
			END LOOP;
		END $$; ANALYZE`)
	}); err != nil {
		t.Fatal(err)
	}
}

// A planLine is a node of a plan with the condition of its index.
type planLine struct{ node, condition, filter string }

func serverPlan(t *testing.T, db engine.DB, n int, sql string) (plan []planLine) {
	t.Helper()
	name := fmt.Sprint("planned", n)
	params := map[string]bool{}
	for _, p := range parameter.FindAllString(sql, -1) {
		params[p] = true
	}
	execute := "EXPLAIN (COSTS OFF) EXECUTE " + name
	if len(params) > 0 {
		execute += "(" + strings.TrimSuffix(strings.Repeat("NULL, ", len(params)), ", ") + ")"
	}
	err := db.Write(t.Context(), func(tx engine.Tx) error {
		plan = nil
		if err := tx.Script("PREPARE " + name + " AS " + sql); err != nil {
			return err
		}
		return tx.Query(execute, nil, func(row engine.Row) error {
			if m := condition.FindStringSubmatch(row.Text(0)); m != nil {
				plan[len(plan)-1].condition = m[1]
			} else if m := filter.FindStringSubmatch(row.Text(0)); m != nil {
				plan[len(plan)-1].filter = m[1]
			} else {
				plan = append(plan, planLine{node: row.Text(0)})
			}
			return nil
		})
	})
	if err != nil {
		t.Errorf("plan of %s: %v", sql, err)
	}
	return plan
}
