// Package systemd tests the units that deploy has for operators. It checks them with systemd-analyze,
// which needs no running systemd.
package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxExposure is the highest rating of systemd-analyze security that a unit may have, of 10.
const maxExposure = 2.0

// pages has the page of the documentation that shows each unit.
var pages = map[string]string{
	"atrium.service":        "operations.md",
	"atrium-backup.service": "backup.md",
	"atrium-backup.timer":   "backup.md",
	"atrium-audit.service":  "audit.md",
	"atrium-audit.timer":    "audit.md",
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// analyze runs systemd-analyze and returns its output.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is needed: scripts/prepare installs it")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestUnitsAreHardened(t *testing.T) {
	rating := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+) `)
	for name := range pages {
		if !strings.HasSuffix(name, ".service") {
			continue
		}
		out := analyze(t, "security", "--offline=true", filepath.Join("..", "..", "deploy", "systemd", name))
		m := rating.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("%s has no rating:\n%s", name, out)
		}
		if exposure, err := strconv.ParseFloat(m[1], 64); err != nil || exposure > maxExposure {
			t.Errorf("%s has the exposure %s, at most %v is allowed:\n%s", name, m[1], maxExposure, out)
		}
	}
}

// The programs of the units do not exist on the machine of the test: true stands for them.
func TestUnitsAreValid(t *testing.T) {
	dir := t.TempDir()
	for name := range pages {
		unit := regexp.MustCompile(`(?m)^(ExecStart=)\S+`).ReplaceAllString(read(t, "deploy", "systemd", name), "${1}/bin/true")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(unit), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name := range pages {
		if out := analyze(t, "verify", "--man=no", filepath.Join(dir, name)); strings.Contains(out, name) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestDocumentationShowsTheUnits(t *testing.T) {
	units, err := os.ReadDir(filepath.Join("..", "..", "deploy", "systemd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		page, known := pages[unit.Name()]
		if !known {
			t.Errorf("no page shows %s", unit.Name())
			continue
		}
		if !strings.Contains(read(t, "docs", page), "```ini\n"+read(t, "deploy", "systemd", unit.Name())+"```\n") {
			t.Errorf("docs/%s does not show %s as it is", page, unit.Name())
		}
	}
	if len(units) != len(pages) {
		t.Errorf("there are %d units, want %d", len(units), len(pages))
	}
}

// What runs next to the server uses its settings, so that it cannot work on another database.
func TestUnitsUseTheSameSettings(t *testing.T) {
	settings := regexp.MustCompile(`(?m)^(User|Environment=ATRIUM_\w+|StateDirectory|StateDirectoryMode)=.*$`)
	want := strings.Join(settings.FindAllString(read(t, "deploy", "systemd", "atrium.service"), -1), "\n")
	for _, unit := range []string{"atrium-backup.service", "atrium-audit.service"} {
		if got := strings.Join(settings.FindAllString(read(t, "deploy", "systemd", unit), -1), "\n"); got != want {
			t.Errorf("%s uses\n%s\nthe server\n%s", unit, got, want)
		}
	}
}

// The unit of a user differs from that of the system only where a user can do less.
func TestTheUnitOfAUserIsValid(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs", "install.md"), "\n## Without root\n")
	_, unit, _ := strings.Cut(section, "```ini\n")
	unit, _, _ = strings.Cut(unit, "```\n")
	path := filepath.Join(t.TempDir(), "atrium.service")
	valid := regexp.MustCompile(`(?m)^(ExecStart=)\S+`).ReplaceAllString(unit, "${1}/bin/true")
	if err := os.WriteFile(path, []byte(valid), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if out := analyze(t, "verify", "--user", "--man=no", path); strings.Contains(out, "atrium.service") {
		t.Error(out)
	}
	system := read(t, "deploy", "systemd", "atrium.service")
	own := regexp.MustCompile(`^(Environment=ATRIUM_DATABASE=sqlite:%h/|ExecStart=%h/\.local/bin/atrium serve$|WantedBy=default\.target$)`)
	lines := 0
	for line := range strings.Lines(unit) {
		lines++
		if !own.MatchString(strings.TrimSpace(line)) && !strings.Contains("\n"+system, "\n"+line) {
			t.Errorf("the unit of the system has no %q", line)
		}
	}
	if lines < 10 {
		t.Errorf("the unit has %d lines: %s", lines, unit)
	}
}
