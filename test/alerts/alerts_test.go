// Package alerts tests the alerts and the dashboard that deploy has for operators. It
// checks the alerts with Prometheus's promtool.
package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// foreign are the metrics of Prometheus and its node exporter, and that of the unit of backups.
var foreign = []string{"atrium_backup_last_success_timestamp_seconds", "up", "node_filesystem_avail_bytes", "node_filesystem_size_bytes", "node_filesystem_readonly"}

// part matches the suffix of a histogram's series.
var part = regexp.MustCompile(`_(bucket|count|sum)$`)

// promtool runs promtool.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is needed: scripts/prepare installs it")
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func deployed(name string) string { return filepath.Join("..", "..", "deploy", name) }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, deployed("prometheus/alerts.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestPromtoolAcceptsRulesAndConfiguration(t *testing.T) {
	promtool(t, "check", "rules", deployed("prometheus/alerts.yaml"))
	promtool(t, "check", "config", deployed("prometheus/prometheus.yml"))
}

func TestAlertsFireOnlyWhenTheyShould(t *testing.T) {
	files := []string{deployed("prometheus/alerts_test.yaml"), deployed("prometheus/alerts_hours_test.yaml")}
	promtool(t, append([]string{"test", "rules"}, files...)...)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, name := range files {
		var file struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string `yaml:"alertname"`
					ExpAlerts []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, name)), &file); err != nil {
			t.Fatal(err)
		}
		for _, test := range file.Tests {
			for _, a := range test.AlertRuleTest {
				if len(a.ExpAlerts) > 0 {
					fires[a.Alertname] = true
				} else {
					quiet[a.Alertname] = true
				}
			}
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s is tested when it fires: %v, when it does not: %v", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}

// An operator who is paged needs an explanation and instructions.
func TestAlertsAndRunbooksMatch(t *testing.T) {
	page := read(t, "../../docs/observability.md")
	var named []string
	for _, r := range rules(t) {
		named = append(named, r.Alert)
		if want := "https://atrium.example/docs/observability.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want || r.Annotations["summary"] == "" {
			t.Errorf("%s has the annotations %v, want the runbook %s", r.Alert, r.Annotations, want)
		}
		if s := r.Labels["severity"]; s != "page" && s != "warn" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^### ([A-Z]\w+)$`).FindAllStringSubmatch(page, -1) {
		if i := slices.Index(named, m[1]); i >= 0 {
			named = slices.Delete(named, i, i+1)
		} else {
			t.Errorf("runbook %s has no alert", m[1])
		}
	}
	if len(named) > 0 {
		t.Errorf("the page has no runbook of %q", named)
	}
}

// metrics returns the names of the metrics in an expression.
func metrics(expr string) []string {
	expr = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
	expr = regexp.MustCompile(`\b(by|on|without|ignoring) ?\([^)]*\)`).ReplaceAllString(expr, "")
	return regexp.MustCompile(`\b(?:(?:atrium|go|process|node)_[a-z_]+|up)\b`).FindAllString(expr, -1)
}

func wantDocumented(t *testing.T, where, expr string) {
	t.Helper()
	page := read(t, "../../docs/metrics.md")
	names := metrics(expr)
	if len(names) == 0 {
		t.Errorf("%s: %s has no metric", where, expr)
	}
	for _, name := range names {
		documented := func(n string) bool { return strings.Contains(page, "`"+n+"`") }
		if !slices.Contains(foreign, name) && !documented(name) && !documented(part.ReplaceAllString(name, "")) {
			t.Errorf("%s: docs/metrics.md has no %s", where, name)
		}
	}
}

func TestAlertsUseExistingMetrics(t *testing.T) {
	for _, r := range rules(t) {
		wantDocumented(t, r.Alert, r.Expr)
	}
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Links       []struct{ Title, URL string }
	GridPos     struct{ X, Y, W, H int }
	Datasource  struct{ UID string }
	Targets     []struct {
		RefID        string `json:"refId"`
		Expr         string
		LegendFormat string
		Datasource   struct{ UID string }
	}
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// An operator reads on a panel what it shows, and reaches the runbooks of the alerts about it.
func TestPanelsAreDescribedAndLinkTheirAlerts(t *testing.T) {
	runbooks, linked := map[string]string{}, map[string]bool{}
	for _, r := range rules(t) {
		runbooks[r.Alert] = r.Annotations["runbook_url"]
	}
	for _, p := range readDashboard(t).Panels {
		if p.Type != "row" && p.Description == "" {
			t.Errorf("%s has no description", p.Title)
		}
		for _, l := range p.Links {
			if runbooks[l.Title] == "" || l.URL != runbooks[l.Title] {
				t.Errorf("%s links %s to %q, want %q", p.Title, l.Title, l.URL, runbooks[l.Title])
			}
			linked[l.Title] = true
		}
	}
	// These are about metrics that no panel shows: of Prometheus, the node exporter and starts.
	for _, elsewhere := range []string{"AtriumDown", "AtriumRestarts", "AtriumBackupLate", "DiskFills", "DiskReadOnly"} {
		linked[elsewhere] = true
	}
	for name := range runbooks {
		if !linked[name] {
			t.Errorf("no panel links the runbook of %s", name)
		}
	}
}

// Rows group panels. Entries that rules delete belong to tenants, not to the process.
func TestTheDashboardShowsRetentionUnderTenants(t *testing.T) {
	row := ""
	for _, p := range readDashboard(t).Panels {
		if p.Type == "row" {
			row = p.Title
		}
		if p.Title == "Entries deleted by retention rules" && row != "Tenants" {
			t.Errorf("%s is in the row %s", p.Title, row)
		}
	}
}

type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, deployed("grafana/atrium.json"))), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDashboardIsComplete(t *testing.T) {
	d := readDashboard(t)
	if d.UID != "atrium" || d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("it has the uid %q, the title %q, and version %d of the form", d.UID, d.Title, d.SchemaVersion)
	}
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, twice := ids[p.ID]; twice || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d, %q, has the id of %q", p.ID, p.Title, other)
		}
		ids[p.ID] = p.Title
		if p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W < 1 || p.GridPos.H < 1 {
			t.Errorf("%s is at %v, of 24 columns", p.Title, p.GridPos)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s covers %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s has %d queries, the unit %q, and asks %q", p.Title, len(p.Targets), p.FieldConfig.Defaults.Unit, p.Datasource.UID)
		}
		for _, q := range p.Targets {
			if q.RefID == "" || q.LegendFormat == "" || q.Datasource.UID != "${datasource}" {
				t.Errorf("%s: a query without a name, a legend or a source", p.Title)
			}
			for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				if !variables[m[1]] {
					t.Errorf("%s: unknown variable %s", p.Title, m[1])
				}
			}
		}
	}
}

// Each query becomes a rule, so that promtool parses it.
func TestPanelsHaveValidQueriesOfExistingMetrics(t *testing.T) {
	var file strings.Builder
	file.WriteString("groups:\n- name: panels\n  rules:\n")
	var asked strings.Builder
	for _, p := range readDashboard(t).Panels {
		for i, q := range p.Targets {
			wantDocumented(t, p.Title, q.Expr)
			expr := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(q.Expr)
			fmt.Fprintf(&file, "  - record: panel:%d_%d\n    expr: %q\n", p.ID, i, expr)
			asked.WriteString(q.Expr)
		}
	}
	path := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
	// Every metric of the service has a panel.
	for _, m := range regexp.MustCompile("(?m)^### `(atrium_[a-z_]+)`$").FindAllStringSubmatch(read(t, "../../docs/metrics.md"), -1) {
		if !strings.Contains(asked.String(), m[1]) {
			t.Errorf("no panel shows %s", m[1])
		}
	}
}
