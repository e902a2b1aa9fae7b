package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
)

// The test server does not have Citus. Functions with the names of those of Citus record the
// calls and enforce its rules: a table is distributed once, and after the tables that it refers
// to. A table that refers to a copied one is added to the catalog. `make test-citus` runs against a real cluster.
const fakeCitus = `
	CREATE TABLE pg_dist_partition (logicalrelid regclass, partmethod text, partkey text, colocated text, repmodel text, n serial);
	CREATE FUNCTION keep_rules(t regclass) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		DELETE FROM pg_dist_partition WHERE logicalrelid = t AND partmethod = 'n' AND repmodel = 's';
		IF EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = t) THEN RAISE 'distributed twice: %', t; END IF;
		IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = t AND contype = 'f' AND confrelid NOT IN (SELECT logicalrelid FROM pg_dist_partition)) THEN
			RAISE 'refers to a table that is not distributed: %', t;
		END IF;
	END $$;
	CREATE FUNCTION create_reference_table(t regclass) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM keep_rules(t);
		INSERT INTO pg_dist_partition VALUES (t, 'n', '', '', 't');
		INSERT INTO pg_dist_partition SELECT conrelid, 'n', '', '', 's' FROM pg_constraint WHERE confrelid = t;
	END $$;
	CREATE FUNCTION truncate_local_data_after_distributing_table(t regclass) RETURNS void LANGUAGE sql AS '';
	CREATE FUNCTION create_distributed_table(t regclass, key text, colocate_with text DEFAULT 'default') RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM keep_rules(t);
		IF t = 'entries'::regclass AND current_setting('test.fails', true) = 'yes' THEN RAISE 'on purpose'; END IF;
		INSERT INTO pg_dist_partition VALUES (t, 'h', key, colocate_with, 's');
	END $$`

func TestEveryTableIsDistributedOnce(t *testing.T) {
	open := postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return db }).New(t)
	db := open()
	s := store.New(db, time.Now)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Distribute(t.Context()); err == nil || !strings.Contains(err.Error(), "no extension citus") || len(done) > 0 {
		t.Fatalf("without the extension %v, %v", done, err)
	}
	script := func(sql string) {
		t.Helper()
		if err := db.Migrate(t.Context(), func(tx engine.Tx) error { return tx.Script(sql) }); err != nil {
			t.Fatal(err)
		}
	}
	script(fakeCitus)
	script("DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET test.fails = yes'; END $$")
	interrupted := open()
	before, err := store.New(interrupted, time.Now).Distribute(t.Context())
	if err == nil || len(before) == 0 || slices.Contains(before, "entries") || interrupted.Traits().Sharded {
		t.Fatalf("the interrupted run distributed %v, %v", before, err)
	}
	after, err := s.Distribute(t.Context())
	if err != nil || !slices.Contains(after, "entries") || !db.Traits().Sharded {
		t.Fatalf("the next run distributed %v, %v", after, err)
	}
	if again, err := s.Distribute(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("a third run distributed %v, %v", again, err)
	}
	if !open().Traits().Sharded {
		t.Error("a node that starts now does not report a sharded database")
	}

	var got, tables []string
	if err := db.Query(t.Context(), "SELECT logicalrelid::text, partmethod, partkey, colocated FROM pg_dist_partition ORDER BY n", nil, func(r engine.Row) error {
		got = append(got, strings.TrimSpace(fmt.Sprint(r.Text(0), " ", r.Text(1), " ", r.Text(2), " ", r.Text(3))))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Query(t.Context(), "SELECT c.relname::text FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace", nil, func(r engine.Row) error {
		if name := r.Text(0); name != "schema_migrations" && name != "pg_dist_partition" {
			tables = append(tables, name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(tables) {
		t.Errorf("the distributed tables are %q, want %q", got, tables)
	}
	for _, line := range got {
		name, how, _ := strings.Cut(line, " ")
		switch {
		case slices.Contains(sharedTables, name):
			if how != "n" {
				t.Errorf("%s is %q, want a copy on each server", name, how)
			}
		case name == "accounts":
			if how != "h tenant_id default" {
				t.Errorf("%s is %q, want it distributed by tenant", name, how)
			}
		default:
			if how != "h tenant_id accounts" {
				t.Errorf("%s is %q, want it distributed by tenant together with the accounts", name, how)
			}
		}
	}
}

func TestSQLiteCannotBeDistributed(t *testing.T) {
	db := sqliteEngine(func(db engine.DB) engine.DB { return db }).New(t)()
	s := store.New(db, time.Now)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Distribute(t.Context()); err == nil || !strings.Contains(err.Error(), "use PostgreSQL") || len(done) > 0 {
		t.Errorf("%v, %v", done, err)
	}
}
