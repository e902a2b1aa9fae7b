package store_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/register"
	"atrium/internal/store/storetest"
)

// The queries return the table, column, type and place in the primary key of each column of a
// database.
const (
	embeddedColumns = `SELECT m.name, c.name, CASE c.type WHEN 'BLOB' THEN 'bytea' WHEN 'INTEGER' THEN 'bigint' WHEN 'TEXT' THEN 'text' ELSE c.type END, c.pk
		FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`
	serverColumns = `SELECT c.table_name::text, c.column_name::text, CASE c.udt_name WHEN 'int8' THEN 'bigint' ELSE c.udt_name::text END,
			COALESCE((SELECT k.ordinal_position FROM information_schema.table_constraints p JOIN information_schema.key_column_usage k
				USING (constraint_schema, constraint_name, table_name)
				WHERE p.constraint_type = 'PRIMARY KEY' AND p.table_schema = c.table_schema AND p.table_name = c.table_name AND k.column_name = c.column_name), 0)::bigint
		FROM information_schema.columns c WHERE c.table_schema = current_schema()`
)

func TestTheRegisterHasEveryTableAndColumn(t *testing.T) {
	pass := func(db engine.DB) engine.DB { return db }
	for _, c := range []struct {
		engine storetest.Engine
		sql    string
	}{
		{sqliteEngine(pass), embeddedColumns},
		{postgresEngine(postgres.Options{}, pass), serverColumns},
	} {
		t.Run(c.engine.Name, func(t *testing.T) {
			db := c.engine.New(t)()
			if _, err := store.New(db, time.Now).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			stored := map[string]map[string]string{} // types of columns, by table
			keys := map[string]map[int64]string{}    // by place
			if err := db.Query(t.Context(), c.sql, nil, func(r engine.Row) error {
				table := r.Text(0)
				if table == "schema_migrations" || table == "settings" { // which belong to no tenant
					return nil
				}
				if stored[table] == nil {
					stored[table], keys[table] = map[string]string{}, map[int64]string{}
				}
				stored[table][r.Text(1)] = r.Text(2)
				if place := r.Int(3); place > 0 {
					keys[table][place] = r.Text(1)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, table := range register.Tables() {
				compareRegister(t, table, stored[table.Name], keys[table.Name])
				delete(stored, table.Name)
			}
			for table := range stored {
				t.Errorf("table %s is not in the register", table)
			}
		})
	}
}

// compareRegister compares a table of the register with the columns and the primary key that a
// database has.
func compareRegister(t *testing.T, table *register.Table, stored map[string]string, key map[int64]string) {
	t.Helper()
	for _, c := range table.Columns {
		if stored[c.Name] != string(c.Type) {
			t.Errorf("%s.%s is %q in the register and %q in the database", table.Name, c.Name, c.Type, stored[c.Name])
		}
		delete(stored, c.Name)
	}
	for c := range stored {
		t.Errorf("column %s.%s is not in the register", table.Name, c)
	}
	var columns []string
	for _, place := range slices.Sorted(maps.Keys(key)) {
		if key[place] != engine.TenantColumn {
			columns = append(columns, key[place])
		}
	}
	if !slices.Equal(columns, table.Key) {
		t.Errorf("the primary key of %s is %v in the register and %v in the database", table.Name, table.Key, columns)
	}
}

func TestTheRegisterDecidesEverything(t *testing.T) {
	byRules := []string{"entries", "moved_entries"} // retention rules delete them
	for _, table := range register.Tables() {
		r := table.Rows
		if slices.Contains([]register.Effect{r.Import, r.Merge, r.Split, r.Erasure, r.Retention}, 0) || table.Kind == 0 {
			t.Errorf("%s lacks a rule", table.Name)
		}
		if table.Columns[0].Name != engine.TenantColumn {
			t.Errorf("the first column of %s is %s, want the tenant", table.Name, table.Columns[0].Name)
		}
		if expires := slices.ContainsFunc(table.Columns, func(c register.Column) bool { return c.Name == table.Expiry.Column }); expires != (r.Retention == register.Deleted || r.Retention == register.Replaced) && !slices.Contains(byRules, table.Name) {
			t.Errorf("%s expires by the column %q, and retention has effect %d", table.Name, table.Expiry.Column, r.Retention)
		}
		for _, c := range table.Columns {
			if c.Transfer == 0 || c.Copying == 0 {
				t.Errorf("%s.%s lacks a rule", table.Name, c.Name)
			}
			if c.Copying == register.Excluded && table.Copied() && (c.Name == engine.TenantColumn || slices.Contains(table.Key, c.Name)) {
				t.Errorf("%s.%s is of a key, which must be copied", table.Name, c.Name)
			}
		}
	}
}
