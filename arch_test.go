package atrium_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the packages of the service from bottom to top: each package imports only
// packages of lower layers. ARCHITECTURE.md draws them.
var layers = [][]string{
	{"."},
	{"api", "internal/auditlog", "internal/canonical", "internal/csvrows", "internal/strictjson", "internal/jsonpatch", "internal/store/engine", "internal/store/migrations", "internal/config", "internal/telemetry", "internal/limit", "internal/secrets", "internal/webhook", "internal/expression", "internal/provider"},
	{"internal/store/engine/sqlite", "internal/store/engine/postgres", "internal/store/register", "internal/summary", "internal/filter", "internal/mapping"},
	{"internal/store/kernel"},
	{"internal/store/accounts", "internal/store/pages", "internal/store/access", "internal/store/audit", "internal/store/receivers", "internal/store/tombstones", "internal/store/requestlog", "internal/store/copies", "internal/store/counts"},
	{"internal/store/entries"},
	{"internal/store/events", "internal/store/webhooks"},
	{"internal/store/erasures"},
	{"internal/store/records"},
	{"internal/store", "internal/ingest", "internal/requestlog", "internal/config/reference"},
	{"internal/auth", "internal/transfer", "internal/backup", "internal/delivery", "internal/doctor", "internal/sso", "internal/config/reference/write"},
	{"internal/rest", "internal/resource"},
	{"internal/receive"},
	{"internal/external", "internal/manage", "internal/content", "internal/docsui"},
	{"internal/console"},
	{"internal/app"},
	{"internal/cli"},
	{"cmd/atrium", "internal/cli/manpages"},
}

// testOnly packages are imported by tests alone.
var testOnly = []string{"api/apitest", "internal/app/apptest", "internal/auditlog/auditlogtest", "internal/jsonshape", "internal/rest/resttest", "internal/sso/ssotest", "internal/store/engine/postgrestest", "internal/store/engine/powercut", "internal/store/engine/recording", "internal/store/storetest", "internal/tlstest", "test", "test/crash", "test/cutproxy", "test/nodes", "test/receiver"}

// A rule restricts an import to some packages.
type rule struct {
	imports string   // a package path, which includes its subpackages
	only    []string // the packages that may import it, which include their subpackages
	because string
}

var rules = []rule{
	{"zombiezen.com/go/sqlite", []string{"internal/store/engine/sqlite"}, "all layers above the engines are independent of the engine"},
	{"modernc.org/", []string{"internal/store/engine/powercut"}, "all layers above the engines are independent of the engine"},
	{"github.com/jackc/pgx", []string{"internal/store/engine/postgres", "internal/store/engine/postgrestest"}, "all layers above the engines are independent of the engine"},
	{"database/sql", nil, "the native interface of each engine costs half as much"},
	{"atrium/internal/store/copies", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/counts", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/engine", []string{"internal/store"}, "only the store contains SQL"},
	{"atrium/internal/store/access", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/accounts", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/audit", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/entries", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/erasures", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/events", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/kernel", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/pages", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/receivers", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/records", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/register", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/requestlog", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/tombstones", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store/webhooks", []string{"internal/store"}, "callers use the store package, not its subpackages"},
	{"atrium/internal/store", []string{"internal/store", "internal/delivery", "internal/external", "internal/manage", "internal/content", "internal/transfer", "internal/backup", "internal/doctor", "internal/app", "internal/cli"}, "ingest, auth and rest use interfaces that they declare"},
	{"atrium/internal/app", []string{"internal/cli"}, "only the command line starts the service"},
	{"atrium/internal/cli", []string{"cmd/atrium", "internal/cli/manpages"}, "the command line is the highest layer"},
	{"github.com/spf13/cobra", []string{"internal/cli"}, "only the command line has flags"},
	{"net/http", []string{"internal/rest", "internal/external", "internal/manage", "internal/content", "internal/receive", "internal/docsui", "internal/console", "internal/telemetry", "internal/app", "internal/cli", "internal/sso", "internal/webhook"}, "layers below rest do not depend on HTTP; the command line is a client of the management API, sso of the identity provider, and webhook of endpoints"},
	{"cel.dev/", []string{"internal/expression"}, "only expression runs expressions, within its limits"},
	{"github.com/coreos/go-oidc", []string{"internal/sso"}, "only sso sends requests to the identity provider, within its limits"},
	{"golang.org/x/oauth2", []string{"internal/sso"}, "only sso sends requests to the identity provider, within its limits"},
	{"atrium/internal/config", []string{"internal/config/reference", "internal/doctor", "internal/app", "internal/cli"}, "settings reach the other packages as arguments"},
	{"github.com/prometheus/", []string{"internal/telemetry"}, "other packages report to interfaces that they declare"},
	{"go.opentelemetry.io/", []string{"internal/telemetry"}, "other packages report to interfaces that they declare"},
}

// imports returns the imports of the non-test files of each package.
func imports(t *testing.T) (all map[string][]string, comments map[string]int) {
	t.Helper()
	all, comments = map[string][]string{}, map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != "." && (name[0] == '.' || name == "bench" || name == "examples" || name == "terraform" || name == "tools" || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if all[dir] == nil {
			all[dir] = []string{}
		}
		for _, i := range f.Imports {
			all[dir] = append(all[dir], strings.Trim(i.Path.Value, `"`))
		}
		if f.Doc != nil {
			comments[dir]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, comments
}

func TestArchitectureDrawsTheLayers(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```\n")
	text, _, _ = strings.Cut(text, "```\n")
	drawn := strings.Split(strings.TrimSpace(strings.Replace(text, "atrium (the root)", ".", 1)), "\n")
	if len(drawn) != len(layers) {
		t.Fatalf("ARCHITECTURE.md draws %d layers, want %d", len(drawn), len(layers))
	}
	for n, packages := range layers {
		got := slices.Sorted(slices.Values(strings.Fields(drawn[len(drawn)-1-n])))
		if want := slices.Sorted(slices.Values(packages)); !slices.Equal(got, want) {
			t.Errorf("ARCHITECTURE.md draws layer %d with %q, want %q", n, got, want)
		}
	}
}

func TestPackagesImportLowerLayersOnly(t *testing.T) {
	layer := map[string]int{}
	for n, packages := range layers {
		for _, p := range packages {
			layer[p] = n
		}
	}
	all, _ := imports(t)
	for dir, list := range all {
		if slices.Contains(testOnly, dir) {
			continue
		}
		if _, ok := layer[dir]; !ok {
			t.Errorf("%s is in no layer: add it here and in ARCHITECTURE.md", dir)
		}
		for _, path := range list {
			ours, ok := strings.CutPrefix(path, "atrium/")
			if path == "atrium" {
				ours, ok = ".", true
			}
			if !ok {
				continue
			}
			if slices.Contains(testOnly, ours) {
				t.Errorf("%s imports %s, which is for tests", dir, ours)
			} else if layer[ours] >= layer[dir] {
				t.Errorf("%s imports %s, which is not in a lower layer", dir, ours)
			}
		}
	}
}

func TestImportsFollowTheLayers(t *testing.T) {
	all, _ := imports(t)
	for dir, list := range all {
		if slices.Contains(testOnly, dir) {
			continue
		}
		for _, path := range list {
			if first, _, _ := strings.Cut(path, "/"); dir == "." && strings.Contains(first, ".") {
				t.Errorf("the root package imports %s: it may import only the standard library", path)
			}
			for _, r := range rules {
				if (path == r.imports || strings.HasPrefix(path, strings.TrimSuffix(r.imports, "/")+"/")) &&
					!allowed(r, dir) && !moreSpecific(r, path) {
					t.Errorf("%s imports %s: %s", dir, path, r.because)
				}
			}
		}
	}
}

func allowed(r rule, dir string) bool {
	return slices.ContainsFunc(r.only, func(p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") })
}

// moreSpecific reports whether a more specific rule matches the path.
func moreSpecific(than rule, path string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool {
		return len(r.imports) > len(than.imports) && strings.HasPrefix(path, r.imports)
	})
}

func TestEveryPackageHasOneComment(t *testing.T) {
	all, comments := imports(t)
	for dir := range all {
		if comments[dir] != 1 {
			t.Errorf("%s has %d package comments, want 1", dir, comments[dir])
		}
	}
}
