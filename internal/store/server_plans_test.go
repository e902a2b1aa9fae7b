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
)

// checkServerPlans asks a server for the plan of each statement: an index whose
// condition is bound to the tenant, by the same words for every table that has
// what tenants have.
func (r *recorder) checkServerPlans(t *testing.T, bound *regexp.Regexp) {
	db := postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return db }).New(t)()
	if _, err := store.New(db, time.Now).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	r.each(t, func(sql string) {
		n++
		var tenant string // the condition of the first
		for _, line := range serverPlan(t, db, n, sql) {
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
	})
}

// A planLine is a node of a plan with the condition of its index.
type planLine struct{ node, condition string }

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
