package atrium_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the packages of the service from bottom to top: each package imports only
// packages of lower layers. ARCHITECTURE.md draws them.
var layers = [][]string{
	{"."},
	{"api", "internal/auditlog", "internal/canonical", "internal/strictjson", "internal/jsonpatch", "internal/store/engine", "internal/store/migrations", "internal/config", "internal/telemetry", "internal/limit"},
	{"internal/store/engine/sqlite", "internal/store/engine/postgres"},
	{"internal/store/kernel"},
	{"internal/store/accounts", "internal/store/pages", "internal/store/access", "internal/store/audit"},
	{"internal/store/entries", "internal/store/erasures"},
	{"internal/store/records"},
	{"internal/store", "internal/ingest", "internal/config/reference"},
	{"internal/auth", "internal/transfer", "internal/backup", "internal/config/reference/write"},
	{"internal/rest", "internal/resource"},
	{"internal/external", "internal/manage", "internal/docsui"},
	{"internal/app"},
	{"internal/cli"},
	{"cmd/atrium", "internal/cli/manpages"},
}

// testOnly packages are imported by tests alone.
var testOnly = []string{"internal/app/apptest", "internal/auditlog/auditlogtest", "internal/jsonshape", "internal/rest/resttest", "internal/store/engine/postgrestest", "internal/store/engine/powercut", "internal/store/engine/recording", "internal/store/storetest", "test", "test/crash", "test/cutproxy", "test/nodes"}

// A rule is an import that only some packages may have.
type rule struct {
	imports string // a package path or its beginning
	only    []string
	because string
}

var rules = []rule{
	{"zombiezen.com/go/sqlite", []string{"internal/store/engine/sqlite"}, "everything above the engines is the same on all of them"},
	{"modernc.org/", []string{"internal/store/engine/powercut"}, "everything above the engines is the same on all of them"},
	{"github.com/jackc/pgx", []string{"internal/store/engine/postgres", "internal/store/engine/postgrestest"}, "everything above the engines is the same on all of them"},
	{"database/sql", nil, "the engines' own interfaces cost half as much"},
	{"atrium/internal/store/engine", []string{"internal/store"}, "SQL is written in the store alone"},
	{"atrium/internal/store/access", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store/accounts", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store/audit", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store/entries", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store/erasures", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store/kernel", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store/pages", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store/records", []string{"internal/store"}, "callers know the store, not its parts"},
	{"atrium/internal/store", []string{"internal/store", "internal/external", "internal/manage", "internal/transfer", "internal/backup", "internal/app", "internal/cli"}, "ingest, auth and rest know the interfaces that they declare, not the store"},
	{"atrium/internal/app", []string{"internal/cli"}, "there is one place where the service is put together, and one that starts it"},
	{"atrium/internal/cli", []string{"cmd/atrium", "internal/cli/manpages"}, "the command line stands on everything, and nothing on it"},
	{"github.com/spf13/cobra", []string{"internal/cli"}, "flags are the command line's"},
	{"net/http", []string{"internal/rest", "internal/external", "internal/manage", "internal/docsui", "internal/telemetry", "internal/app", "internal/cli"}, "what is below rest knows nothing of HTTP; the command line is a client of the management API"},
	{"atrium/internal/config", []string{"internal/config/reference", "internal/app", "internal/cli"}, "settings reach the other packages as arguments"},
	{"github.com/prometheus/", []string{"internal/telemetry"}, "the other packages report to interfaces that they declare"},
	{"go.opentelemetry.io/", []string{"internal/telemetry"}, "the other packages report to interfaces that they declare"},
}

// imports returns the imports of the non-test files of each package.
func imports(t *testing.T) (all map[string][]string, comments map[string]int) {
	t.Helper()
	all, comments = map[string][]string{}, map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != "." && (name[0] == '.' || name == "bench" || name == "tools" || name == "testdata" || name == "bin") {
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

func TestNoImportRunsUpwards(t *testing.T) {
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
				t.Errorf("%s imports %s, which stands no lower", dir, ours)
			}
		}
	}
}

func TestImportsKeepToTheirRooms(t *testing.T) {
	all, _ := imports(t)
	for dir, list := range all {
		if slices.Contains(testOnly, dir) {
			continue
		}
		for _, path := range list {
			if first, _, _ := strings.Cut(path, "/"); dir == "." && strings.Contains(first, ".") {
				t.Errorf("the root package imports %s: the vocabulary needs the standard library alone", path)
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

// moreSpecific reports whether another rule speaks of the path more exactly.
func moreSpecific(than rule, path string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool {
		return len(r.imports) > len(than.imports) && strings.HasPrefix(path, r.imports)
	})
}

func TestEveryPackageHasOneComment(t *testing.T) {
	all, comments := imports(t)
	for dir := range all {
		if comments[dir] != 1 {
			t.Errorf("%s has %d package comments; a package says once what it is", dir, comments[dir])
		}
	}
}
