package packages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// newSource creates a directory with the files of the repository and those that scripts/dist builds
// before the packages.
func newSource(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(filepath.Join(root, "deploy"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"atrium-linux-amd64", "completions/atrium.bash", "completions/atrium.fish", "completions/_atrium", "man/atrium.1", "licenses/LICENSE", "licenses/example.com/module/LICENSE"} {
		path := filepath.Join(dir, "dist", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil { //nolint:gosec // like scripts/dist
			t.Fatal(err)
		}
	}
	return dir
}

// build builds a package in a directory of newSource.
func build(t *testing.T, nfpm, source, format string) (path string) {
	t.Helper()
	path = filepath.Join(source, "atrium."+format)
	cmd := exec.Command(nfpm, "package", "--config", "deploy/packages/nfpm.yaml", "--packager", format, "--target", path)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "ARCH=amd64", "VERSION=1.0.0", "SOURCE_DATE_EPOCH=1700000000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// contents has the mode, the owner and the group of the files and directories of the packages.
var contents = map[string]string{
	"/usr/bin/atrium":                               "-rwxr-xr-x root root",
	"/usr/bin/atrium-audit-export":                  "-rwxr-xr-x root root",
	"/usr/lib/systemd/system/atrium.service":        "-rw-r--r-- root root",
	"/usr/lib/systemd/system/atrium-backup.service": "-rw-r--r-- root root",
	"/usr/lib/systemd/system/atrium-backup.timer":   "-rw-r--r-- root root",
	"/usr/lib/systemd/system/atrium-audit.service":  "-rw-r--r-- root root",
	"/usr/lib/systemd/system/atrium-audit.timer":    "-rw-r--r-- root root",
	"/etc/atrium":                                               "drwx------ atrium atrium",
	"/etc/atrium/atrium.yaml":                                   "-rw------- atrium atrium",
	"/var/lib/atrium":                                           "drwx------ atrium atrium",
	"/var/backups/atrium":                                       "drwx------ atrium atrium",
	"/var/backups/atrium-audit":                                 "drwx------ atrium atrium",
	"/usr/share/atrium/prometheus/alerts.yaml":                  "-rw-r--r-- root root",
	"/usr/share/atrium/prometheus/prometheus.yml":               "-rw-r--r-- root root",
	"/usr/share/atrium/grafana/atrium.json":                     "-rw-r--r-- root root",
	"/usr/share/atrium/grafana/provider.yaml":                   "-rw-r--r-- root root",
	"/usr/share/bash-completion/completions/atrium":             "-rw-r--r-- root root",
	"/usr/share/fish/vendor_completions.d/atrium.fish":          "-rw-r--r-- root root",
	"/usr/share/man/man1/atrium.1":                              "-rw-r--r-- root root",
	"/usr/share/doc/atrium/copyright":                           "-rw-r--r-- root root",
	"/usr/share/doc/atrium/CHANGELOG.md":                        "-rw-r--r-- root root",
	"/usr/share/doc/atrium/licenses":                            "drwxr-xr-x root root",
	"/usr/share/doc/atrium/licenses/LICENSE":                    "-rw-r--r-- root root",
	"/usr/share/doc/atrium/licenses/example.com":                "drwxr-xr-x root root",
	"/usr/share/doc/atrium/licenses/example.com/module":         "drwxr-xr-x root root",
	"/usr/share/doc/atrium/licenses/example.com/module/LICENSE": "-rw-r--r-- root root",
}

// zsh has the file that only one format has.
var zsh = map[string]string{
	"deb": "/usr/share/zsh/vendor-completions/_atrium",
	"rpm": "/usr/share/zsh/site-functions/_atrium",
}

// listing matches a line of dpkg-deb --contents, and one of rpm with the format below.
var listing = regexp.MustCompile(`(?m)^([-d][-rwxst]{9}) +(\w+)/(\w+) .*?\.?(/[^\n]*?)/?$`)

func list(t *testing.T, format, path string) map[string]string {
	t.Helper()
	cmd := exec.Command("dpkg-deb", "--contents", path)
	if format == "rpm" {
		cmd = exec.Command("rpm", "--query", "--package", "--queryformat", `[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]`, path)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	files := map[string]string{}
	for _, m := range listing.FindAllStringSubmatch(string(out), -1) {
		files[m[4]] = m[1] + " " + m[2] + " " + m[3]
	}
	return files
}

func TestPackagesHaveTheirFilesWithTheirModes(t *testing.T) {
	nfpm := filepath.Join(t.TempDir(), "nfpm")
	if out, err := exec.Command("go", "build", "-o", nfpm, "github.com/goreleaser/nfpm/v2/cmd/nfpm").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for format, completion := range zsh {
		t.Run(format, func(t *testing.T) {
			path := build(t, nfpm, newSource(t), format)
			files := list(t, format, path)
			if got := files[completion]; got != "-rw-r--r-- root root" {
				t.Errorf("%s is %q", completion, got)
			}
			delete(files, completion)
			for name, want := range contents {
				if files[name] != want {
					t.Errorf("%s is %q, want %q", name, files[name], want)
				}
				delete(files, name)
			}
			for name, mode := range files { // the parents of others
				if !strings.HasPrefix(mode, "drwxr-xr-x root root") {
					t.Errorf("%s is %q, which the test does not expect", name, mode)
				}
			}
		})
	}
}

// The name of the build machine would make two builds of a commit differ.
func TestRPMDoesNotNameTheBuildMachine(t *testing.T) {
	nfpm := filepath.Join(t.TempDir(), "nfpm")
	if out, err := exec.Command("go", "build", "-o", nfpm, "github.com/goreleaser/nfpm/v2/cmd/nfpm").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("rpm", "--query", "--package", "--queryformat", "%{BUILDHOST}", build(t, nfpm, newSource(t), "rpm")).Output()
	if err != nil || string(out) != "reproducible" {
		t.Errorf("the build host is %q, %v", out, err)
	}
}
