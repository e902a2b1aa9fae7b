package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// The settings of the checklist can replace the file of the packages without another, empty database, and
// with the same keys.
func TestHardenedSettingsKeepTheDatabaseOfThePackages(t *testing.T) {
	hardened := blockWith(t, "install.md", "cat > hardened.yaml")
	settings := regexp.MustCompile(`(?m)^#?([a-z-]+: .*)$`).FindAllStringSubmatch(read(t, root+"/deploy/packages/atrium.yaml"), -1)
	for _, m := range settings {
		if !strings.Contains(hardened, "\n"+m[1]+"\n") {
			t.Errorf("hardened.yaml in install.md lacks %q", m[1])
		}
	}
	if len(settings) != 2 {
		t.Errorf("the file of the packages has %d settings", len(settings))
	}
}

// Prometheus itself listens on 9090, often on the same machine.
func TestExamplesServeMetricsOnThePortThatPrometheusScrapes(t *testing.T) {
	if !strings.Contains(read(t, root+"/deploy/prometheus/prometheus.yml"), `"127.0.0.1:9464"`) {
		t.Error("prometheus.yml does not scrape port 9464")
	}
	addr := regexp.MustCompile(`(?:metrics-addr:? |ATRIUM_METRICS_ADDR\n +value: ")[\w.]*:(\d+)`)
	found := 0
	for _, file := range append(glob(t, root+"/docs/*.md"), root+"/deploy/helm/atrium/templates/deployment.yaml") {
		for _, m := range addr.FindAllStringSubmatch(read(t, file), -1) {
			found++
			if m[1] != "9464" {
				t.Errorf("%s has %q", file, m[0])
			}
		}
	}
	if found < 6 {
		t.Errorf("found only %d addresses", found)
	}
}

// The archive has no other pages.
func TestTheReadmeOfTheArchiveHasNoRelativeLinks(t *testing.T) {
	for n, line := range prose(read(t, root+"/deploy/archive/README.md")) {
		if links := targets(line); len(links) > 0 {
			t.Errorf("line %d has the links %v", n+1, links)
		}
	}
}
