package store

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/internal/store/engine"
	"atrium/internal/store/engine/sqlite"
	"atrium/internal/store/kernel"
	"atrium/internal/store/migrations"
)

// migratedTo returns a database with the first n migrations.
func migratedTo(t *testing.T, n int) *Store {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "atrium.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := New(db, time.Now)
	t.Cleanup(func() { _ = s.Close() })
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all[:n] {
		if _, _, err := s.migrate(t.Context(), m, int64(len(all))); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestTheSchemaOfEveryVersionHasNoFaults(t *testing.T) {
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	s := migratedTo(t, 0)
	for _, m := range all {
		if _, did, err := s.migrate(t.Context(), m, int64(len(all))); err != nil || !did {
			t.Fatal(m.Name, did, err)
		}
		if faults, err := s.SchemaFaults(t.Context()); err != nil || len(faults) > 0 {
			t.Errorf("%d migrations: %q, %v", m.Number, faults, err)
		}
	}
}

func TestThePreviousReleaseIsBetweenTheFirstMarkAndTheNewestMigration(t *testing.T) {
	unmarked, err := kernel.FinishedAt(func(string, engine.Args, func(engine.Row) error) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sqlite", "postgres"} {
		all, err := migrations.For(name)
		if err != nil || migrations.Previous < unmarked || migrations.Previous >= int64(len(all)) {
			t.Errorf("%s: the newest migration of the previous release is %d, want at least %d and less than %d, %v", name, migrations.Previous, unmarked, len(all), err)
		}
	}
}

// See engine.Tx.Script.
func TestStatementsOfMigrationsEndTheirLines(t *testing.T) {
	comments, bodies := regexp.MustCompile(`--.*`), regexp.MustCompile(`(?s)\$\$.*?\$\$`)
	for _, name := range []string{"sqlite", "postgres"} {
		all, err := migrations.For(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			for line := range strings.Lines(bodies.ReplaceAllString(comments.ReplaceAllString(m.SQL, ""), "")) {
				if end := strings.IndexByte(line, ';'); end >= 0 && strings.TrimSpace(line[end+1:]) != "" {
					t.Errorf("%s: %s: a statement ends within the line %q", name, m.Name, line)
				}
			}
		}
	}
}

func TestSchemaFaultsNameEveryDifference(t *testing.T) {
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script string
		want   []string
	}{
		{"DROP INDEX entries_by_key", []string{"index entries_by_key is missing"}},
		{"DROP INDEX entries_by_key; CREATE INDEX entries_by_key ON entries (tenant_id, key_match) WHERE key_match IS NOT NULL",
			[]string{`index entries_by_key lacks "CREATE UNIQUE INDEX entries_by_key ON entries" and has "CREATE INDEX entries_by_key ON entries"`}},
		{"DROP INDEX entries_by_key; CREATE UNIQUE INDEX entries_by_key ON entries (tenant_id, key_match) WHERE key_match = x'00'",
			[]string{`index entries_by_key lacks "WHERE key_match IS NOT NULL" and has "WHERE key_match = x '00'"`}},
		{"DROP INDEX entries_by_key; CREATE UNIQUE INDEX entries_by_key ON entries (key_match, tenant_id) WHERE key_match IS NOT NULL",
			[]string{"index entries_by_key is defined in another order"}},
		{"ALTER TABLE brands DROP COLUMN name; ALTER TABLE brands ADD COLUMN name INTEGER",
			[]string{`table brands lacks "name TEXT NOT NULL" and has "name INTEGER"`}},
		{"DROP TABLE brands; CREATE VIEW brands AS SELECT * FROM pages",
			[]string{"brands is of type view, want table", "index brands_by_time is missing"}},
		{"CREATE TRIGGER pages AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
			[]string{`trigger "pages" on "entries" was added`}},
		{"CREATE UNIQUE INDEX \"more\x1b\" ON entries (source)", []string{`index "more\x1b" on "entries" was added`}},
		{`CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); CREATE INDEX x ON _litestream_seq (seq);
			CREATE VIEW report AS SELECT * FROM entries; ANALYZE`, nil},
		{`DROP INDEX entries_by_key; /* the same in another layout */ CREATE UNIQUE INDEX  entries_by_key
			ON entries (tenant_id,key_match) /* once */ WHERE key_match IS NOT NULL -- or none`, nil},
		{"INSERT INTO schema_migrations VALUES (99, 'newer', 0); DROP INDEX entries_by_key", nil},
	} {
		s := migratedTo(t, len(all))
		if err := s.db.Engine.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(c.script) }); err != nil {
			t.Fatal(c.script, err)
		}
		if faults, err := s.SchemaFaults(t.Context()); err != nil || !slices.Equal(faults, c.want) {
			t.Errorf("%s:\n%q, %v,\nwant %q", c.script, faults, err, c.want)
		}
	}
}

func TestSchemaFaultsAreBounded(t *testing.T) {
	s := migratedTo(t, 1)
	var script strings.Builder
	for i := range maxSchemaFaults + 5 {
		name := strings.Repeat("é", maxQuotedSchema+i)
		script.WriteString("CREATE INDEX " + name + " ON entries (source);")
	}
	if err := s.db.Engine.Write(t.Context(), func(tx engine.Tx) error { return tx.Script(script.String()) }); err != nil {
		t.Fatal(err)
	}
	faults, err := s.SchemaFaults(t.Context())
	if err != nil || len(faults) != maxSchemaFaults+1 || faults[maxSchemaFaults] != "5 more" {
		t.Errorf("%d faults, %v", len(faults), err)
	}
	for _, f := range faults {
		if len(f) > 3*maxQuotedSchema {
			t.Errorf("%d characters", len(f))
		}
	}
}
