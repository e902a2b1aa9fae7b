package browser_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// axe returns the source of axe-core, an accessibility checker, which npm installs by testdata/axe. npm
// also needs a network, unless it has the package in its cache.
var axe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "axe-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.CopyFS(dir, os.DirFS("testdata/axe")); err != nil {
		return "", err
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir, install.Stderr = dir, os.Stderr
	if err := install.Run(); err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(source), err
})

// checkAccess fails the test if the page has serious or critical faults.
func (b *tab) checkAccess(where string) {
	b.t.Helper()
	for _, fault := range b.faultsOfAccess() {
		b.t.Errorf("%s: %s", where, fault)
	}
}

// faultsOfAccess returns the serious and critical faults that axe-core finds on the page.
func (b *tab) faultsOfAccess() (faults []string) {
	b.t.Helper()
	source, err := axe()
	if err != nil {
		b.t.Fatalf("install axe-core: %v", err)
	}
	get[int](b, source+`; axe.run(document, {resultTypes: ["violations"]}).then(r => { window.found = JSON.stringify(r.violations) }); 0`)
	b.until(`window.found !== undefined`)
	var violations []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	if err := json.Unmarshal([]byte(get[string](b, `window.found`)), &violations); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range violations {
		if v.Impact != "serious" && v.Impact != "critical" {
			continue
		}
		for _, n := range v.Nodes {
			faults = append(faults, fmt.Sprintf("%s (%s): %s in %s", v.ID, v.Impact, v.Help, n.HTML))
		}
	}
	return faults
}
