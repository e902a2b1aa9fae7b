package nodes_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

// A newer release that migrates a database and finishes the upgrade, in the tables.
const (
	migrateNewer = "INSERT INTO schema_migrations (number, name, applied_at) VALUES (1000, 'newer', 0)"
	finishNewer  = `UPDATE settings SET value = '\x00000000000003e8' WHERE name = 'finished'`
)

func execute(t *testing.T, database, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestNodesRunAndStartUntilAnUpgradeIsFinished(t *testing.T) {
	s := newService(t)
	const reminder = "run atrium migrate --finish"
	restart := func() (log string) {
		s.nodes[0].Stop(t)
		s.nodes[0].Restart(t)
		return s.nodes[0].Log()
	}
	execute(t, s.database, "DELETE FROM settings WHERE name = 'finished'") // as the last release without it leaves it
	if log := restart(); !strings.Contains(log, reminder) {
		t.Errorf("the first node of a release does not remind of the end of the upgrade: %s", log)
	}
	if _, stderr, code := nodes.Command(t, "migrate", "--database", s.database, "--finish"); code != 2 || !strings.Contains(stderr, "pass --yes to confirm") {
		t.Errorf("the end of the upgrade without confirmation: exit code %d, %q", code, stderr)
	}
	if log := restart(); !strings.Contains(log, reminder) {
		t.Errorf("the upgrade was finished without confirmation: %s", log)
	}
	for _, want := range []string{"The upgrade is finished: nodes of the previous release stop.", "Nothing to finish."} {
		if out := nodes.Must(t, "migrate", "--database", s.database, "--finish", "--yes"); !strings.Contains(out, want) {
			t.Errorf("got %q, want %q", out, want)
		}
	}
	if log := restart(); strings.Contains(log, reminder) {
		t.Errorf("a node still reminds after the upgrade was finished: %s", log)
	}

	execute(t, s.database, migrateNewer)
	for _, n := range s.nodes {
		n.Stop(t)
		n.Restart(t)
		if a := send(nodes.Client(t), "POST", "http://"+n.Addr+"/v0/account_logs", s.key, `{"source":"a","payload":{},"domain":"a.example"}`); a.status != 201 {
			t.Errorf("an entry got %s", a)
		}
	}
	execute(t, s.database, finishNewer)
	finished := time.Now()
	for _, n := range s.nodes {
		for send(nodes.Client(t), "GET", "http://"+n.Addr+"/readyz", "", "").status == 200 {
			if time.Since(finished) > 10*time.Second {
				t.Fatalf("a node is ready ten seconds after the upgrade was finished: %s", n.Log())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	refused := regexp.MustCompile(`the upgrade of the database to migration 1000 is finished and this binary knows \d+: use a newer binary`)
	_, stderr, code := nodes.Command(t, "serve", "--addr", "127.0.0.1:0", "--database", s.database)
	if code != 2 || !refused.MatchString(stderr) {
		t.Errorf("a start ends with exit code %d, %q", code, stderr)
	}
	for _, n := range s.nodes {
		for deadline := time.Now().Add(time.Minute); !n.Ended(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("a node still runs: %s", n.Log())
			}
		}
		if code := n.Status().ExitStatus(); code != 2 || !refused.MatchString(n.Log()) {
			t.Errorf("a node that runs ends with exit code %d: %s", code, n.Log())
		}
	}
}
