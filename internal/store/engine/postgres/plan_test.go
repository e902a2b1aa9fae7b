package postgres_test

import (
	"strings"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
)

// Until a server has analyzed a table that has grown, it reuses the plan that it made while the
// table was empty.
func TestPlansAdaptToGrowingTables(t *testing.T) {
	s := open(t, postgres.Options{Connections: 1})
	if err := s.Migrate(t.Context(), func(tx engine.Tx) error {
		return tx.Script(`CREATE TABLE growing (tenant_id BYTEA, id BYTEA, hash BYTEA,
				wide NAME, wider NAME, widest NAME, PRIMARY KEY (tenant_id, id)) WITH (autovacuum_enabled = off);
			CREATE UNIQUE INDEX growing_by_hash ON growing (tenant_id, hash)`)
	}); err != nil {
		t.Fatal(err)
	}
	byID := engine.NewBatch(`SELECT a.hash FROM batch JOIN growing a
		ON a.tenant_id = batch.tenant_id AND a.id = batch.id`, "tenant_id bytea", "id bytea")
	plan := func() (text string) {
		if err := s.Read(t.Context(), func(tx engine.Tx) error {
			rows := []engine.Args{{[]byte{1}, []byte{2}}}
			if _, err := tx.Batch(byID, rows, func(engine.Row) error { return nil }); err != nil {
				return err
			}
			name := ""
			const sql = "SELECT name FROM pg_prepared_statements WHERE statement LIKE 'SELECT a.hash FROM %'"
			if err := engine.Find(tx.Query, sql, nil, func(r engine.Row) { name = r.Text(0) }); err != nil {
				return err
			}
			return tx.Query("EXPLAIN EXECUTE "+name+"('{}', '{}')", nil, func(r engine.Row) error {
				text += r.Text(0) + "\n"
				return nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := plan()
	if err := s.Migrate(t.Context(), func(tx engine.Tx) error {
		return tx.Script(`INSERT INTO growing SELECT decode('01', 'hex'), decode(lpad(to_hex(n), 32, '0'), 'hex'),
			decode(lpad(to_hex(n), 32, '0'), 'hex') FROM generate_series(1, 10000) n`)
	}); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(20 * time.Second)
	for ; !strings.Contains(plan(), "(id = batch.id)"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the plan for 10,000 rows is\n%sthe plan for none was\n%s", plan(), before)
		}
	}
}
