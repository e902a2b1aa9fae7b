package store_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/register"
)

// These tests ask the database for the plan of every statement that the suite has run. No
// statement may read more rows than it must, or rows of several tenants.

// sharedTables are the tables that do not belong to a tenant or are searched across tenants.
var sharedTables = append(register.Distribution().Reference, "schema_migrations")

// oneRowTables have at most one row for each tenant.
var oneRowTables = func() (names []string) {
	for _, table := range register.Tables() {
		if len(table.Key) == 0 {
			names = append(names, table.Name)
		}
	}
	return names
}()

// allowedScans are the statements that may read a whole table.
var allowedScans = []string{
	// A restore continues the feeds of all tenants, once.
	"SELECT MAX(next_position) FROM event_feeds",
	"UPDATE event_feeds SET next_position = $1",
	// The index has only the tenants that are being deleted.
	"SELECT tenant_id, deleting_at FROM tenants WHERE deleting_at IS NOT NULL ORDER BY tenant_id LIMIT $1",
}

// A recorder keeps the text of every statement. It is safe for concurrent use.
type recorder struct {
	mu         sync.Mutex
	statements map[string]bool // guarded by mu
}

func (r *recorder) note(sql string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.statements == nil {
		r.statements = map[string]bool{}
	}
	r.statements[sql] = true
}

var (
	mentioned = regexp.MustCompile(`\b(?i:FROM|JOIN|INTO|UPDATE)\s+([a-z_]+)\b(?:\s+([a-z]\w*)\b)?`)
	parameter = regexp.MustCompile(`\$\d+`)
	planned   = regexp.MustCompile(`^(SCAN|SEARCH) (\S+)(?: USING ([^(]*)\((.*)\))?`)
	selective = regexp.MustCompile(`tenant_id = \S+ AND `)
)

func (r *recorder) checkPlans(t *testing.T) {
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "plans.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := store.New(db, time.Now).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.each(t, func(sql string) { checkPlan(t, db, sql) })
}

// each calls check with every statement that was recorded and uses a table.
func (r *recorder) each(t *testing.T, check func(sql string)) {
	t.Helper()
	checked := 0
	for sql := range r.statements {
		tables := tablesOf(sql)
		if len(tables) == 0 || strings.Contains(sql, "no_such_column") { // PRAGMA, SELECT 1, or wrong on purpose
			continue
		}
		checked++
		if slices.Contains(allowedScans, sql) {
			continue
		}
		if ofTenant(tables) && !strings.Contains(sql, "tenant_id") {
			t.Errorf("names no tenant: %s", sql)
		}
		check(sql)
	}
	if checked < 50 {
		t.Errorf("%d statements were recorded: run the whole suite, and see that it is recorded", checked)
	}
}

// ofTenant reports whether one of the tables has what belongs to a tenant.
func ofTenant(tables []string) bool {
	return slices.ContainsFunc(tables, func(table string) bool { return !slices.Contains(sharedTables, table) })
}

// tablesOf returns the tables that a statement names.
func tablesOf(sql string) (tables []string) {
	for _, m := range mentioned.FindAllStringSubmatch(sql, -1) {
		if m[1] != "batch" && m[1] != "unnest" && m[1] != "SET" && !slices.Contains(tables, m[1]) {
			tables = append(tables, m[1])
		}
	}
	return tables
}

// aliasesOf returns the tables by the names that a plan has for them.
func aliasesOf(sql string) map[string]string {
	tables := map[string]string{}
	for _, m := range mentioned.FindAllStringSubmatch(sql, -1) {
		tables[m[1]] = m[1]
		if m[2] != "" {
			tables[m[2]] = m[1]
		}
	}
	return tables
}

func checkPlan(t *testing.T, db engine.DB, sql string) {
	t.Helper()
	distinct := map[string]bool{}
	for _, p := range parameter.FindAllString(sql, -1) {
		distinct[p] = true
	}
	aliases := aliasesOf(sql)
	err := db.Read(t.Context(), func(tx engine.Tx) error {
		return tx.Query("EXPLAIN QUERY PLAN "+sql, make(engine.Args, len(distinct)), func(row engine.Row) error {
			step := row.Text(3)
			if strings.HasPrefix(step, "USE TEMP B-TREE FOR ORDER BY") && !strings.HasPrefix(sql, "WITH batch") { // a batch sorts what one row finds
				t.Errorf("sorts its rows:\n%s", sql)
			}
			m := planned.FindStringSubmatch(step)
			if m == nil || aliases[m[2]] == "" || aliases[m[2]] == "batch" {
				return nil // no table is read
			}
			switch table := aliases[m[2]]; {
			case m[1] == "SCAN":
				t.Errorf("%s\nin\n%s", step, sql)
			case m[1] == "SEARCH" && !slices.Contains(sharedTables, table) && !strings.HasPrefix(m[4], "tenant_id=?"):
				t.Errorf("%s\nof every tenant in\n%s", step, sql)
			case m[4] == "tenant_id=?" && !slices.Contains(oneRowTables, table) && selective.MatchString(sql) && !strings.Contains(sql, "LIMIT"):
				t.Errorf("%s\nreads all that the tenant has there in\n%s", step, sql)
			case strings.Contains(m[3], "AUTOMATIC"):
				t.Errorf("%s\nmakes an index for each run of\n%s", step, sql)
			}
			return nil
		})
	})
	if err != nil {
		t.Errorf("plan of %s: %v", sql, err)
	}
}
