package docs_test

import (
	"slices"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
)

// blockWith returns the only block of a page that has a text.
func blockWith(t *testing.T, file, text string) string {
	t.Helper()
	blocks, err := readBlocks(read(t, root+"/docs/"+file))
	if err != nil {
		t.Fatal(err)
	}
	blocks = slices.DeleteFunc(blocks, func(b block) bool { return !strings.Contains(b.text, text) })
	if len(blocks) != 1 {
		t.Fatalf("%s has %d blocks with %q", file, len(blocks), text)
	}
	return blocks[0].text
}

// The commands that restore a dump work with the role that scaling.md creates, which may not create databases.
func TestDumpsAreRestoredWithTheRoleOfTheDocumentation(t *testing.T) {
	for _, page := range []string{"backup.md", "upgrade.md"} {
		t.Run(page, func(t *testing.T) {
			operator := postgrestest.Start(t).NewOperator(t)
			database := operator.NewDatabase(t, blockWith(t, "scaling.md", "CREATE ROLE"))
			s, err := store.Open(t.Context(), database, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Dumped"); err != nil {
				t.Fatal(err)
			}
			dump, restore := blockWith(t, page, "pg_dump --"), blockWith(t, page, "createdb")
			if dump == restore {
				dump = ""
			}
			cmd := operator.Command(dump + restore)
			cmd.Dir = t.TempDir()
			cmd.Env = append(cmd.Env, "ATRIUM_DATABASE="+database)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			restored, err := store.Open(t.Context(), operator.URL("restored"), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = restored.Close() }()
			if migrated, err := restored.Migrate(t.Context()); err != nil || len(migrated) > 0 {
				t.Errorf("the restored database is migrated: %v, %v", migrated, err)
			}
			if tenants, _, err := restored.Tenants(t.Context(), nil, 2); err != nil || len(tenants) != 1 || tenants[0].Name != "Dumped" {
				t.Errorf("the restored database has the tenants %v, %v", tenants, err)
			}
		})
	}
}
