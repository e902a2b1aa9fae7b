package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/canonical"
	"atrium/internal/rest"
	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/transfer"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// root is the root of the repository.
const root = "../.."

// Runs every block of commands that calls the service, page by page and in order, on a
// server with the demo data, on each engine. subset_test.go defines which commands are
// supported, and response_test.go how responses are compared.
func TestExamplesOfEveryPageWork(t *testing.T) {
	files := append(glob(t, root+"/docs/*.md"), root+"/README.md", root+"/deploy/archive/README.md")
	makefile, demo := read(t, root+"/Makefile"), read(t, root+"/internal/cli/demo.ndjson")
	exchanges := 0
	for _, file := range files {
		blocks, err := readBlocks(read(t, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, engine := range []string{"sqlite", "postgres"} {
			t.Run(strings.TrimPrefix(strings.TrimPrefix(file, root+"/"), "docs/")+"/"+engine, func(t *testing.T) {
				if !slices.ContainsFunc(blocks, block.runs) {
					return
				}
				database := "sqlite:atrium.db"
				if engine == "postgres" {
					database = postgrestest.Shared(t).NewDatabase(t)
				}
				p := newPage(t, database, demo, strings.Contains(read(t, file), "\natrium webhooks create ") || strings.Contains(read(t, file), "\natrium receivers create "))
				p.makefile = makefile
				for i := range blocks {
					p.run(t, &blocks[i])
				}
				exchanges += p.exchanges
			})
		}
	}
	if exchanges < 30 {
		t.Errorf("found only %d requests", exchanges)
	}
}

// newPage starts a server, which stores secrets if it has a key for them, in a new directory, which becomes the working directory: a
// command without --database uses the same database.
func newPage(t *testing.T, database, demo string, withSecrets bool) *page {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "ATRIUM_") {
			t.Setenv(name, "") // the same as unset
		}
	}
	t.Chdir(t.TempDir())
	t.Setenv("ATRIUM_DATABASE", database)
	s, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	keys := ""
	if withSecrets {
		keys = filepath.Join(t.TempDir(), "secrets-keys")
		if _, _, err := secrets.AddKey(keys, false); err != nil {
			t.Fatal(err)
		}
		t.Setenv("ATRIUM_SECRETS_KEY_FILE", keys)
	}
	addr := apptest.Start(t, s, func(c *app.Config) { c.Settings.SecretsKeyFile = keys })
	tenant := importTenant(t, s, demo)
	key, id := apptest.Key(t, s, tenant)
	operator, _ := apptest.Key(t, s, tenant, atrium.ManageScopes()...)
	platform, _ := apptest.Key(t, s, atrium.OperatorChain, atrium.ScopeManage)
	t.Setenv("ATRIUM_KEY", key) // a page may export it again
	t.Setenv("ATRIUM_TENANT", "")
	// The default transport asks for compression, which curl does not.
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	other := "" // the database that a page copies to
	p := &page{
		base: "http://" + addr,
		database: func() string {
			if other == "" { // no sync.OnceValue: it panics when -short skips the test inside it
				other = postgrestest.Shared(t).NewDatabase(t)
			}
			return other
		},
		client:    &http.Client{Transport: transport, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		variables: map[string]string{"ATRIUM_KEY": key, "ATRIUM_MANAGE_KEY": operator, "ATRIUM_OPERATOR_KEY": platform},
		last:      map[string]string{"tenant_": string(tenant), "key_": string(id), "atr_": key},
		values:    newValues(demo),
	}
	return p
}

// importTenant creates a tenant and imports lines.
func importTenant(t *testing.T, s *store.Store, lines string) atrium.TenantID {
	t.Helper()
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Demo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Import(t.Context(), s, tenant.ID, strings.NewReader(lines), transfer.Options{}); err != nil {
		t.Fatal(err)
	}
	return tenant.ID
}

func TestEveryErrorCodeIsDocumented(t *testing.T) {
	text := read(t, root+"/docs/errors.md")
	codes := map[string]bool{}
	for _, info := range rest.Codes {
		codes[string(info.Code)] = true
		if row := fmt.Sprintf("\n| %d | [%s](#%[2]s) | ", info.Status, info.Code); !strings.Contains(text, row) {
			t.Errorf("no row of the table begins with %q", row)
		}
		if section := fmt.Sprintf("\n## %s\n\n%d. ", info.Code, info.Status); !strings.Contains(text, section) {
			t.Errorf("no section begins with %q", section)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## ([a-z_]+)$`).FindAllStringSubmatch(text, -1) {
		if !codes[m[1]] {
			t.Errorf("section on unknown code %s", m[1])
		}
	}
}

func TestEveryActorIsDocumented(t *testing.T) {
	for _, file := range []string{"/docs/audit.md", "/api/manage.yaml"} {
		text := read(t, root+file)
		for _, actor := range atrium.OtherActors() {
			if !regexp.MustCompile("(?m)^.*actor.*`" + actor + "`").MatchString(text) {
				t.Errorf("no line on actors in %s names %q", file, actor)
			}
		}
	}
}

func TestCanonicalDomainsMatchTheirPage(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `(.+)` \\| `(.+)` \\|$").FindAllStringSubmatch(read(t, root+"/docs/activity.md"), -1)
	if len(rows) < 10 {
		t.Fatalf("found %d domains", len(rows))
	}
	for _, row := range rows {
		if got := canonical.Domain(row[1]); got != row[2] {
			t.Errorf("%s is stored as %s, the page says %s", row[1], got, row[2])
		}
	}
}

// fullLines has one line of each kind with all its members.
var fullLines = []string{
	`{"kind":"account","accountId":"account_00000000000000000000000001","domain":"example.com","name":"n","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`,
	`{"kind":"prospect","prospectId":"prospect_00000000000000000000000001","name":"n","email":"e","domain":"d","slug":"s","phoneNumber":"p","linkedinProfileUrl":"u","accountIds":["account_00000000000000000000000001"],"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`,
	`{"kind":"brand","brandId":"brand_00000000000000000000000001","name":"n","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`,
	`{"kind":"account","accountId":"account_00000000000000000000000002","domain":"d2","name":"n","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`,
	`{"kind":"merge","accountId":"account_00000000000000000000000002","into":"account_00000000000000000000000001"}`,
	`{"kind":"page","pageId":"page_00000000000000000000000001","brandId":"b","name":"n","pageContext":"c","title":"t","status":"draft","actions":[],"scripts":[],"footerLinks":[],"headerActionId":"h","metadata":1,"public":true,"maxAgeSeconds":1,"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z","deletedAt":"2026-01-01T00:00:00Z","publishAt":"2999-01-01T00:00:00Z","unpublishAt":"2999-01-02T00:00:00Z"}`,
	`{"kind":"audience","audienceId":"audience_00000000000000000000000001","pageId":"page_00000000000000000000000001","name":"n","archived":true,"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`,
	`{"kind":"audienceVersion","id":"version_00000000000000000000000001","pageId":"page_00000000000000000000000001","audienceId":"audience_00000000000000000000000001","versionNumber":1,"archived":false,"published":true,"note":"n","content":1,"createdAt":"2026-01-01T00:00:00Z"}`,
	`{"kind":"tombstone","accountLogId":"prospectlog_00000000000000000000000002","accountId":"account_00000000000000000000000001","source":"s","type":"t","secret":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","keyHmac":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","requestHmac":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","expiresAt":"2026-01-01T00:00:00Z","createdAt":"2026-01-01T00:00:00Z"}`,
	`{"kind":"accountLog","accountLogId":"prospectlog_00000000000000000000000001","accountId":"account_00000000000000000000000001","source":"s","type":"t","payload":{},"idempotencyKey":"k","identifiedByKey":true,"claimed":{"domain":"d"},"occurredAt":"2026-01-01T00:00:00Z","acknowledgedAccountId":"account_00000000000000000000000002","createdAt":"2026-01-01T00:00:00Z"}`,
}

func TestImportTablesAreComplete(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant := importTenant(t, s, strings.Join(fullLines, "\n"))
	var exported strings.Builder
	if _, err := transfer.Export(t.Context(), s, tenant, &exported); err != nil {
		t.Fatal(err)
	}
	tables, checked := importTables(t), map[string]bool{}
	for line := range strings.Lines(exported.String()) {
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatal(err)
		}
		kind := members["kind"].(string)
		if checked[kind] {
			continue
		}
		checked[kind] = true
		table := tables[kind]
		delete(tables, kind)
		delete(members, "kind")
		if kind == "prospect" { // an export has the accounts themselves, and the identifier
			delete(table, "accountDomain")
			delete(table, "matchBy")
		}
		if want, got := slices.Sorted(maps.Keys(members)), slices.Sorted(maps.Keys(table)); !slices.Equal(want, got) {
			t.Errorf("the table of %s has %v, an export %v", kind, got, want)
		}
		for name, without := range table {
			members := maps.Clone(members)
			members["kind"] = kind
			delete(members, name)
			shorter, _ := json.Marshal(members)
			_, err := transfer.Import(t.Context(), s, tenant, strings.NewReader(string(shorter)), transfer.Options{})
			required := err != nil && strings.Contains(err.Error(), name+": is required")
			if said := without == "required"; said != required {
				t.Errorf("%s of %s: the table has %q, an import without it: %v", name, kind, without, err)
			}
		}
	}
	for kind := range tables {
		t.Errorf("the page has a kind %s, an export does not", kind)
	}
}

// importTables returns the members of each kind, with the default that the page states.
func importTables(t *testing.T) map[string]map[string]string {
	t.Helper()
	tables := map[string]map[string]string{}
	title := regexp.MustCompile("^`(\\w+)`$")
	row := regexp.MustCompile("^\\| (`[\\w`, ]+`) \\|.*\\| ([^|]+) \\|$")
	kind := ""
	for line := range strings.Lines(read(t, root+"/docs/import-export.md")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			kind = ""
		} else if m := title.FindStringSubmatch(line); m != nil {
			kind = m[1]
			tables[kind] = map[string]string{}
		} else if m := row.FindStringSubmatch(line); m != nil && kind != "" {
			for name := range strings.SplitSeq(m[1], ",") {
				tables[kind][strings.Trim(name, " `")] = m[2]
			}
		}
	}
	if len(tables) == 0 {
		t.Fatal("found no tables of kinds")
	}
	return tables
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: found %d files: %v", pattern, len(files), err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
