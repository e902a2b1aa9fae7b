package nodes_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/migrations"
	"atrium/test/nodes"
)

var migrated = regexp.MustCompile(`msg="migrated the database" migrations="?\[(.*)\]`)

// wantMigratedOnce checks that exactly one node applied each migration.
func wantMigratedOnce(t *testing.T, started []*nodes.Node) {
	t.Helper()
	var want, got []string
	all, err := migrations.For("postgres")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		want = append(want, fmt.Sprintf("%04d_%s", m.Number, m.Name))
	}
	for _, n := range started {
		for _, m := range migrated.FindAllStringSubmatch(n.Log(), -1) {
			got = append(got, strings.Fields(m[1])...)
		}
		if a := send(nodes.Client(t), "GET", "http://"+n.Addr+"/readyz", "", ""); a.status != 200 {
			t.Errorf("a node is not ready: %s", a)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the nodes applied %v, want %v", got, want)
	}
}

func TestConcurrentStartsApplyEachMigrationOnce(t *testing.T) {
	for range rounds {
		wantMigratedOnce(t, nodes.Start(t, 3, postgrestest.Shared(t).NewDatabase(t)))
	}
}

// ahead marks a database as migrated by a newer binary, by some steps.
func ahead(t *testing.T, database string, steps int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for range steps {
		_, err := conn.Exec(t.Context(), "INSERT INTO schema_migrations (number, name, applied_at) SELECT MAX(number) + 1, 'newer', 0 FROM schema_migrations")
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNodeRunsOneMigrationBehind(t *testing.T) {
	s := newService(t)
	ahead(t, s.database, 1)
	for _, n := range s.nodes {
		n.Stop(t)
		n.Restart(t)
		if a := send(nodes.Client(t), "POST", "http://"+n.Addr+"/v0/account_logs", s.key, `{"source":"a","payload":{},"domain":"a.example"}`); a.status != 201 {
			t.Errorf("an entry got %s", a)
		}
	}
}

func TestNodeRefusesToRunTwoMigrationsBehind(t *testing.T) {
	database := postgrestest.Shared(t).NewDatabase(t)
	nodes.Must(t, "migrate", "--database", database)
	ahead(t, database, 2)
	_, stderr, code := nodes.Command(t, "serve", "--addr", "127.0.0.1:0", "--database", database)
	if want := regexp.MustCompile(`the database has migration \d+ and this binary knows \d+: use a newer binary`); code != 1 || !want.MatchString(stderr) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
