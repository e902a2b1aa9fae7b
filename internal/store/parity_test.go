package store_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/migrations"
)

// The schema is written separately for each engine. These tests compare the two, and check that
// the tables of tenants can be distributed by tenant.

// A schema has a description of each column and index of a database, the same for all engines, by
// the names of the table and of the column or index.
type schema map[string]string

func schemaOf(t *testing.T, db engine.DB, columns, indexes string) schema {
	t.Helper()
	if _, err := store.New(db, time.Now).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := schema{}
	if err := db.Query(t.Context(), columns, nil, func(r engine.Row) error {
		found["column "+r.Text(0)+"."+r.Text(1)] = r.Text(2)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Query(t.Context(), indexes, nil, func(r engine.Row) error {
		key := "index " + r.Text(0) + " of " + r.Text(1) // one row for each column, in order
		if found[key] != "" {
			found[key] += ", "
		}
		found[key] += r.Text(2)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestBothEnginesHaveTheSameSchema(t *testing.T) {
	sqlite := schemaOf(t, sqliteEngine(func(db engine.DB) engine.DB { return db }).New(t)(),
		`SELECT m.name, c.name, c.type || CASE WHEN c."notnull" THEN ' NOT NULL' ELSE '' END
			FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`,
		`SELECT CASE WHEN i.origin = 'pk' THEN 'primary key' ELSE i.name END || CASE WHEN i."unique" THEN ' (unique)' ELSE '' END
				|| CASE WHEN i.partial THEN ' (partial)' ELSE '' END, m.name, c.name
			FROM sqlite_master m JOIN pragma_index_list(m.name) i JOIN pragma_index_info(i.name) c
			WHERE m.type = 'table' ORDER BY m.name, i.name, c.seqno`)
	server := postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return db }).New(t)()
	postgres := schemaOf(t, server,
		`SELECT table_name::text, column_name::text, CASE udt_name WHEN 'bytea' THEN 'BLOB' WHEN 'int8' THEN 'INTEGER' WHEN 'text' THEN 'TEXT' ELSE udt_name END
				|| CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END
			FROM information_schema.columns WHERE table_schema = current_schema()`,
		`SELECT CASE WHEN i.indisprimary THEN 'primary key' ELSE x.relname::text END || CASE WHEN i.indisunique THEN ' (unique)' ELSE '' END
				|| CASE WHEN i.indpred IS NOT NULL THEN ' (partial)' ELSE '' END, c.relname::text, a.attname::text
			FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
			JOIN pg_attribute a ON a.attrelid = x.oid WHERE c.relnamespace = current_schema()::regnamespace
			ORDER BY c.relname, x.relname, a.attnum`)
	// The statement that creates the table of migrations is shared. Each engine maps its types in
	// its own way.
	for _, s := range []schema{sqlite, postgres} {
		maps.DeleteFunc(s, func(name, _ string) bool { return strings.Contains(name, "schema_migrations") })
	}
	if len(sqlite) < 50 {
		t.Fatalf("only %d columns and indexes", len(sqlite))
	}
	for _, name := range slices.Sorted(maps.Keys(sqlite)) {
		if postgres[name] != sqlite[name] {
			t.Errorf("%s is %q in SQLite and %q in PostgreSQL", name, sqlite[name], postgres[name])
		}
		delete(postgres, name)
	}
	for name, is := range postgres {
		t.Errorf("%s is %q in PostgreSQL and not in SQLite", name, is)
	}
	checkTenantInKeys(t, server)
	checkByteCollation(t, server)
}

// checkTenantInKeys fails the test unless the tables of tenants can be distributed by tenant:
// every primary and unique key begins with the tenant, and every reference includes it.
func checkTenantInKeys(t *testing.T, db engine.DB) {
	t.Helper()
	checked := 0
	if err := db.Query(t.Context(), `SELECT c.relname::text, k.conname::text, k.contype::text, pg_get_constraintdef(k.oid)
		FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE c.relnamespace = current_schema()::regnamespace AND k.contype IN ('p', 'u', 'f')
		UNION ALL SELECT c.relname::text, x.relname::text, 'u', 'UNIQUE ' || substring(pg_get_indexdef(i.indexrelid) FROM '\(.*')
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
		WHERE c.relnamespace = current_schema()::regnamespace AND i.indisunique`, nil, func(r engine.Row) error {
		table, definition := r.Text(0), r.Text(3)
		if slices.Contains(sharedTables, table) {
			return nil
		}
		checked++
		_, columns, _ := strings.Cut(definition, "(")
		if !strings.HasPrefix(columns, "tenant_id") {
			t.Errorf("%s of %s does not begin with the tenant: %s", r.Text(1), table, definition)
		}
		if _, references, ok := strings.Cut(definition, "REFERENCES "); ok && !strings.Contains(references, "(tenant_id, ") {
			t.Errorf("%s of %s may refer to another tenant's row: %s", r.Text(1), table, definition)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if checked < 15 {
		t.Errorf("only %d keys were checked", checked)
	}
}

// checkByteCollation fails the test if a column is compared in the order of a language, which is
// the default collation of this database.
func checkByteCollation(t *testing.T, db engine.DB) {
	t.Helper()
	if err := db.Query(t.Context(), `SELECT table_name::text, column_name::text FROM information_schema.columns
		WHERE table_schema = current_schema() AND udt_name = 'text' AND collation_name IS DISTINCT FROM 'C'`, nil, func(r engine.Row) error {
		if r.Text(0) != "schema_migrations" {
			t.Errorf("%s.%s is not compared by its bytes", r.Text(0), r.Text(1))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestBothEnginesHaveTheSameMigrations(t *testing.T) {
	sqlite, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := migrations.For("postgres")
	if err != nil {
		t.Fatal(err)
	}
	name := func(m migrations.Migration) string { return m.Name }
	if a, b := names(sqlite, name), names(postgres, name); !slices.Equal(a, b) {
		t.Errorf("SQLite has %v and PostgreSQL has %v", a, b)
	}
}

func names[T any](all []T, name func(T) string) (names []string) {
	for _, v := range all {
		names = append(names, name(v))
	}
	return names
}
