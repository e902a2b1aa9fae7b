//go:build release

package release

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/migrations"
	"atrium/test/nodes"
)

// previousRelease is the commit or tag of the previous release. Change it together with
// migrations.Previous. The changelog requires that its nodes are stopped before those of this release start.
const previousRelease = "d207245b37e7af0387659793ad4037fdfdba9663"

func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }

// root is the root of the repository.
const root = "../.."

// buildPrevious builds the previous release.
func buildPrevious(t *testing.T) nodes.Binary {
	t.Helper()
	if err := exec.Command("git", "-C", root, "cat-file", "-e", previousRelease+"^{commit}").Run(); err != nil {
		t.Fatalf("the commit %s of the previous release is not in this clone: git fetch --unshallow --tags", previousRelease)
	}
	source := t.TempDir()
	archive := filepath.Join(source, "source.tar")
	run(t, root, nil, "git", "archive", "--output", archive, previousRelease)
	run(t, source, nil, "tar", "-xf", archive)
	return build(t, source, "previous")
}

// build builds the command in a directory.
func build(t *testing.T, source, name string) nodes.Binary {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name, "atrium")
	run(t, source, []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"}, "go", "build", "-trimpath", "-o", binary, "./cmd/atrium")
	return nodes.Binary(binary)
}

// buildNext builds a release after this one: with one more migration, and with this release as the
// previous one.
func buildNext(t *testing.T) nodes.Binary {
	t.Helper()
	all, err := migrations.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	newest := all[len(all)-1].Number
	source := clone(t, "next")
	dir := filepath.Join(source, "internal", "store", "migrations")
	code := string(readFile(t, filepath.Join(dir, "migrations.go")))
	changed := regexp.MustCompile(`(?m)^const Previous = \d+$`).ReplaceAllString(code, fmt.Sprint("const Previous = ", newest))
	if changed == code {
		t.Fatal("migrations.Previous is not found")
	}
	files := map[string]string{"migrations.go": changed}
	for _, engine := range []string{"sqlite", "postgres"} {
		files[fmt.Sprintf("%s/%04d_next.sql", engine, newest+1)] = "CREATE TABLE next_release (n BIGINT NOT NULL PRIMARY KEY);"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return build(t, source, "next")
}

// commands returns the sh blocks in a section of a page of the documentation, in their order.
func commands(t *testing.T, page, section string) []string {
	t.Helper()
	return blocks(t, page, section, "sh")
}

// blocks returns the blocks in a language in a section of a page of the documentation, in their order.
func blocks(t *testing.T, page, section, language string) (blocks []string) {
	t.Helper()
	inside := false
	var open []string
	fence := ""
	for line := range strings.Lines(string(readFile(t, filepath.Join(root, "docs", page)))) {
		switch {
		case fence == "" && strings.HasPrefix(line, "#"):
			inside = strings.TrimSpace(strings.TrimLeft(line, "#")) == section
		case fence == "" && strings.HasPrefix(line, "```"):
			fence, open = strings.TrimSpace(line), nil
		case strings.HasPrefix(line, "```"):
			if inside && fence == "```"+language {
				blocks = append(blocks, strings.Join(open, ""))
			}
			fence = ""
		default:
			open = append(open, line)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no blocks under %q", page, section)
	}
	return blocks
}

// An operator follows the documentation: the commands run in a directory, with the settings of the server.
type operator struct {
	dir, database string
	binary        nodes.Binary           // that is installed
	postgres      *postgrestest.Operator // nil with SQLite
}

// newOperator returns the operator of a PostgreSQL database, whose role is that of the documentation.
func newOperator(t *testing.T, installed nodes.Binary) *operator {
	t.Helper()
	postgres := postgrestest.Start(t).NewOperator(t)
	database := postgres.NewDatabase(t, blocks(t, "scaling.md", "PostgreSQL", "sql")[0])
	return &operator{dir: t.TempDir(), database: database, binary: installed, postgres: postgres}
}

// follow runs the commands and returns their output. The error has the output, too.
func (o *operator) follow(t *testing.T, script string) (string, error) {
	t.Helper()
	script = "PATH=" + filepath.Dir(string(o.binary)) + ":$PATH\n" + script
	cmd := exec.Command("sh", "-eu", "-c", script)
	if o.postgres != nil {
		cmd = o.postgres.Command(script)
	}
	cmd.Dir = o.dir
	cmd.Env = append(cmd.Environ(), "ATRIUM_DATABASE="+o.database)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return string(out), err
}

func (o *operator) must(t *testing.T, script string) string {
	t.Helper()
	out, err := o.follow(t, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refuses checks that a binary does not serve a database that a newer one has used.
func refuses(t *testing.T, binary nodes.Binary, database string, codes ...int) {
	t.Helper()
	_, stderr, code := binary.Command(t, "serve", "--addr", "127.0.0.1:0", "--database", database)
	if !slices.Contains(codes, code) || !strings.Contains(stderr, "use a newer binary") {
		t.Errorf("the binary of the release before ends with exit code %d: %s", code, stderr)
	}
}

func (o *operator) verifyAudit(t *testing.T, f *site) {
	t.Helper()
	o.must(t, "atrium audit verify --tenant "+f.tenant+"\natrium audit verify --operator")
}

// wantUpgraded checks that the new release serves what the previous one has stored, and lets it be changed.
func (o *operator) wantUpgraded(t *testing.T, f *site, s server, before []string) {
	t.Helper()
	f.wantSame(s, before, false)
	f.wantReplays(s)
	if status, _, _ := s.call("GET", "/v0/pages", f.revoked, ""); status != http.StatusUnauthorized {
		t.Errorf("a revoked key gets %d", status)
	}
	o.verifyAudit(t, f)
}

// change changes what the previous release has stored.
func (f *site) change(s server) (entry string) {
	s.t.Helper()
	s.must("POST", f.move, f.manage, "")
	made := s.must("POST", "/v0/account_logs", f.external, `{"source":"crm","domain":"acme.example","payload":{"new":true},"idempotencyKey":"new"}`)
	id, _ := made["accountLogId"].(string)
	s.must("GET", "/manage/v0/account_logs/"+id, f.manage, "")
	return id
}

// wantWithout checks that the previous release serves exactly what it has stored itself.
func (f *site) wantWithout(s server, before []string, entry string) {
	s.t.Helper()
	f.wantSame(s, before, true)
	f.wantReplays(s)
	if status, _, response := s.call("GET", "/manage/v0/account_logs/"+entry, f.manage, ""); status != http.StatusNotFound {
		s.t.Errorf("an entry of the new release: %d %s", status, response)
	}
}

// The commands in docs/upgrade.md upgrade a database of the previous release, and lead back. For the next
// release, they do the same without stopping all nodes at once.
func TestUpgrade(t *testing.T) {
	previous, this, next := buildPrevious(t), build(t, clone(t, "here"), "this"), buildNext(t)
	t.Run("from the previous release on SQLite", func(t *testing.T) { testUpgradeOnSQLite(t, previous, this) })
	t.Run("from the previous release on PostgreSQL", func(t *testing.T) { testUpgradeOnPostgreSQL(t, previous, this) })
	t.Run("to the next release, one node after the other", func(t *testing.T) { testRollingUpgrade(t, this, next) })
	t.Run("to the next release only when the last upgrade is finished", func(t *testing.T) { testUnfinishedUpgrade(t, this, next) })
}

func testUpgradeOnSQLite(t *testing.T, previous, this nodes.Binary) {
	before, upgrade, back := commands(t, "upgrade.md", "Before"), commands(t, "upgrade.md", "SQLite"), commands(t, "upgrade.md", "Back to the previous release on SQLite")
	dir := t.TempDir()
	o := &operator{dir: dir, database: "sqlite:" + filepath.Join(dir, "atrium.db"), binary: previous}
	old := server{t, previous.Start(t, o.database)}
	f := newSite(t, old, previous, o.database)
	responses := f.snapshot(old)
	o.must(t, before[0])
	old.node.Stop(t)
	exported := command(t, previous, "export", "--database", o.database, "--tenant", f.tenant)
	o.must(t, upgrade[0]) // back up

	o.binary = this
	node := server{t, this.Start(t, o.database)}
	if out := o.must(t, upgrade[1]); strings.Contains(out, "is not finished") {
		t.Errorf("the start did not finish the upgrade: %s", out)
	}
	o.wantUpgraded(t, f, node, responses)
	wantExported(t, exported, command(t, this, "export", "--database", o.database, "--tenant", f.tenant))
	entry := f.change(node)
	o.verifyAudit(t, f)
	node.node.Stop(t)

	refuses(t, previous, o.database, 1, 2)
	o.binary = previous
	o.must(t, back[0])
	o.database = "sqlite:" + filepath.Join(dir, "restored.db")
	old = server{t, previous.Start(t, o.database)}
	f.wantWithout(old, responses, entry)
	o.verifyAudit(t, f)
}

func testUpgradeOnPostgreSQL(t *testing.T, previous, this nodes.Binary) {
	before, upgrade, back := commands(t, "upgrade.md", "Before"), commands(t, "upgrade.md", "PostgreSQL"), commands(t, "upgrade.md", "Back to the previous release on PostgreSQL")
	o := newOperator(t, previous)
	old := server{t, previous.Start(t, o.database)}
	f := newSite(t, old, previous, o.database)
	responses := f.snapshot(old)
	o.must(t, before[0])
	old.node.Stop(t) // as the changelog requires
	exported := command(t, previous, "export", "--database", o.database, "--tenant", f.tenant)
	o.must(t, upgrade[0]) // dump

	o.binary = this
	o.must(t, upgrade[1]) // migrate
	node := server{t, this.Start(t, o.database)}
	other := server{t, this.Start(t, o.database)}
	if !strings.Contains(node.node.Log(), "run atrium migrate --finish") {
		t.Errorf("a node does not remind of the end of the upgrade: %s", node.node.Log())
	}
	const reminder = "the upgrade is not finished"
	if out := o.must(t, upgrade[3]); !strings.Contains(out, reminder) {
		t.Errorf("atrium doctor does not remind of the end of the upgrade: %s", out)
	}
	o.wantUpgraded(t, f, node, responses)
	f.wantSame(other, responses, false)
	for range 2 { // finish, which may be repeated
		o.must(t, upgrade[2])
	}
	if out := o.must(t, upgrade[3]); strings.Contains(out, reminder) {
		t.Errorf("the upgrade is finished, and atrium doctor says %s", out)
	}
	wantExported(t, exported, command(t, this, "export", "--database", o.database, "--tenant", f.tenant))
	entry := f.change(node)
	f.wantReplays(other)
	o.verifyAudit(t, f)
	node.node.Stop(t)
	other.node.Stop(t)

	refuses(t, previous, o.database, 1, 2)
	o.binary = previous
	o.must(t, back[0])
	o.database = o.postgres.URL("restored")
	old = server{t, previous.Start(t, o.database)}
	f.wantWithout(old, responses, entry)
	o.verifyAudit(t, f)
}

// Nodes of this release can be replaced by those of the next one, and back, until the upgrade is finished.
func testRollingUpgrade(t *testing.T, this, next nodes.Binary) {
	upgrade := commands(t, "upgrade.md", "PostgreSQL")
	o := newOperator(t, this)
	first := server{t, this.Start(t, o.database)}
	second := server{t, this.Start(t, o.database)}
	f := newSite(t, first, this, o.database)
	// Lists of accounts change with the entries below.
	f.reads = slices.DeleteFunc(f.reads, func(r read) bool { return regexp.MustCompile(`/accounts(\?.*)?$`).MatchString(r.path) })
	responses := f.snapshot(first)
	entries := 0
	work := func() { // on both nodes
		for _, s := range []server{first, second} {
			f.wantSame(s, responses, false)
			f.wantReplays(s)
			entries++
			s.must("POST", "/v0/account_logs", f.external, fmt.Sprintf(`{"source":"rolling","domain":"rolling.example","payload":{},"idempotencyKey":"rolling-%d"}`, entries))
		}
	}
	first.node.Replace(t, next) // which migrates
	work()
	second.node.Replace(t, this) // a restart
	work()
	first.node.Replace(t, this) // back
	work()
	second.node.Replace(t, next)
	work()
	first.node.Replace(t, next)
	forgotten := this.Start(t, o.database)

	o.binary = next
	o.must(t, upgrade[2]) // finish
	nodes.Until(t, "the forgotten node to end", time.Minute, forgotten.Ended)
	if code := forgotten.Status().ExitStatus(); code != 2 || !strings.Contains(forgotten.Log(), "use a newer binary") {
		t.Errorf("the forgotten node ends with exit code %d: %s", code, forgotten.Log())
	}
	refuses(t, this, o.database, 2)
	work()
	o.verifyAudit(t, f)
}

// A release cannot be skipped by not finishing an upgrade.
func testUnfinishedUpgrade(t *testing.T, this, next nodes.Binary) {
	o := newOperator(t, this)
	o.must(t, "atrium migrate")
	// As after an upgrade from the previous release, which has not set the mark.
	o.must(t, `psql --quiet "$ATRIUM_DATABASE" --command "DELETE FROM settings WHERE name = 'finished'"`)
	_, stderr, code := next.Command(t, "migrate", "--database", o.database)
	if code != 1 || !strings.Contains(stderr, "is not finished: first run atrium migrate --finish") {
		t.Fatalf("the next release migrates: exit code %d, %s", code, stderr)
	}
	o.must(t, commands(t, "upgrade.md", "PostgreSQL")[2])
	command(t, next, "migrate", "--database", o.database)
}

// wantExported checks that each line of an export of the previous release is in one of this release. Lines
// can have more fields, and another order.
func wantExported(t *testing.T, before, now string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(now), "\n")
	for line := range strings.Lines(before) {
		if !slices.ContainsFunc(lines, func(now string) bool { return missingText(t, line, now) == "" }) {
			t.Errorf("the export does not have %s", line)
		}
	}
}
