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

// The checks of plans_test.go for a database server.

var (
	scanned   = regexp.MustCompile(`(Seq|Index|Index Only|Bitmap Index|Bitmap Heap) Scan (?:Backward )?(?:using \w+ )?on (\w+)(?: (\w+))?`)
	condition = regexp.MustCompile(`^\s*Index Cond: (.*)`)
	filter    = regexp.MustCompile(`^\s*(?:Join )?Filter: (.*)`)
	keys      = regexp.MustCompile(`\w+_(?:id|hash|match)\)? = `)
)

// fewMembers is in the statements that compare the accounts merged into one with each other.
// These are at most atrium.MaxMerged.
const fewMembers = "survivor_id = $2 AND account_id IN"

// fewRows is in the statements that filter the refused requests of a tenant. These are at most
// atrium.MaxRefusedRequests.
const fewRows = "FROM refused_requests WHERE tenant_id = $1"

// checkServerPlans asks a server for the plan of each statement. Every table of tenants must be
// read by an index whose condition matches bound, with the same text in all nodes of the plan, so
// that it reads rows of one tenant. It checks the plans in an empty database, in one with many
// small tenants, and in one where one account has all rows. In the last two, keys must be in the
// condition of an index and not in a filter, and no plan may be parallel.
func (r *recorder) checkServerPlans(t *testing.T, bound *regexp.Regexp) {
	db := postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return db }).New(t)()
	if _, err := store.New(db, time.Now).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, filled, small := 0, false, regexp.MustCompile("^$")
	check := func(sql string) {
		if small.MatchString(sql) {
			return
		}
		n++
		var tenant string // the condition of the first scan
		for _, line := range serverPlan(t, db, n, sql) {
			if strings.Contains(line.node, "Gather") {
				t.Errorf("%s in\n%s", line.node, sql)
			}
			m := scanned.FindStringSubmatch(line.node)
			if filled && keys.MatchString(strings.ReplaceAll(line.filter, "tenant_id = ", "")) && !strings.Contains(sql, fewMembers) && !strings.Contains(sql, fewRows) {
				t.Errorf("%s with %q\nfilters by %s in\n%s", line.node, line.condition, line.filter, sql)
			}
			if m == nil || isShared(m[1], m[2]) || m[1] == "Bitmap Heap" {
				continue
			}
			if m[1] == "Seq" {
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
	filled, small = true, fillOneAccount(t, db)
	r.each(t, check)
	small = regexp.MustCompile("^$")
	fillTables(t, db)
	r.each(t, check)
}

// isShared reports whether a scan is of a shared table. A bitmap scan names the index.
func isShared(scan, name string) bool {
	return slices.ContainsFunc(sharedTables, func(table string) bool {
		return name == table || scan == "Bitmap Index" && strings.HasPrefix(name, table+"_")
	})
}

// fillTables stores a row of each of 1,000 tenants in every table, so that the planner estimates
// that an index condition on the tenant alone costs as little as one on a whole key.
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

// fillOneAccount stores 20,000 accounts of a tenant, one of which has 100,000 links, entries and
// rows of the audit log. It returns an expression that matches statements about other tables.
func fillOneAccount(t *testing.T, db engine.DB) (small *regexp.Regexp) {
	t.Helper()
	if err := db.Migrate(t.Context(), func(tx engine.Tx) error {
		return tx.Script(`
			CREATE TEMP TABLE one AS SELECT decode(md5('one'), 'hex') AS id;
			INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, created_at, updated_at, active_minute, stored_at)
				SELECT id, CASE n WHEN 1 THEN id ELSE decode(md5('a' || n), 'hex') END, '', decode(md5('d' || n), 'hex'), 1, 1, 1, 1
				FROM one, generate_series(1, 20000) n;
			INSERT INTO prospects (tenant_id, prospect_id, created_at, updated_at)
				SELECT id, decode(md5('p' || n), 'hex'), 1, 1 FROM one, generate_series(1, 100000) n;
			INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id)
				SELECT id, id, 1, decode(md5('p' || n), 'hex') FROM one, generate_series(1, 100000) n;
			INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type, payload)
				SELECT id, decode(md5('e' || n), 'hex'), id, 1, '', '', '' FROM one, generate_series(1, 100000) n;
			INSERT INTO audit (tenant_id, number, at, actor, action, subject, request_id, detail_hash, hash)
				SELECT id, 1 + n, 1, '', '', 'one', '', '', '' FROM one, generate_series(1, 100000) n;
			DROP TABLE one;
			ANALYZE`)
	}); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\b(tenants|api_keys|schedules|erasures|long_domains|search_terms|moves|moved_entries|brands|pages|audiences|versions|audit_heads|requests|settings|tombstones|tombstone_secrets|prospect_secrets|retention|summary_templates|users|group_mappings|sessions|login_links|erasure_jobs|pending_erasures|tenant_deletions|refused_requests|reads|event_feeds|event_outbox|event_log|webhooks|webhook_due|webhook_secrets|webhook_hours|webhook_replays|deliveries|delivery_attempts|receivers|receiver_tenants|receiver_secrets|quarantine|quarantine_totals)\b`)
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
