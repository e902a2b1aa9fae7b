//go:build release

// Package release tests releases: anyone who builds the commit gets the identical binary, the published
// lists of its components, signatures and packages are correct, and a database of the previous release can
// be upgraded. It builds the last commit, not the work tree. make test-release runs it; make test does not.
package release

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// platform is that of this machine, so that no other toolchain is needed.
const platform = runtime.GOOS + "/" + runtime.GOARCH

// clone clones the last commit of this repository into a directory with the given name.
func clone(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	run(t, "../..", nil, "git", "clone", "--quiet", "--no-hardlinks", ".", dir)
	return dir
}

// run runs a command, which must succeed, and returns its output.
func run(t *testing.T, dir string, environment []string, command ...string) (output string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	// A git hook may run this test. Its environment must not apply to the clone.
	cmd.Env = slices.DeleteFunc(append(os.Environ(), environment...), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRelease(t *testing.T) {
	released := clone(t, "here")
	key, temporary := newKey(t), t.TempDir()
	// With xtrace, bash prints every command with its arguments.
	output := run(t, released, []string{"ATRIUM_SIGNING_KEY=" + key.private, "SHELLOPTS=xtrace", "TMPDIR=" + temporary}, "scripts/dist", platform)
	dist := filepath.Join(released, "dist")
	name := "atrium-" + strings.ReplaceAll(platform, "/", "-")
	binary := readFile(t, filepath.Join(dist, name))
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	version := info.Main.Version

	t.Run("can be built again byte by byte, elsewhere and from nothing", func(t *testing.T) {
		again := clone(t, "somewhere/else")
		run(t, again, []string{"GOCACHE=" + t.TempDir(), "TZ=Pacific/Chatham", "LC_ALL=C"}, "make", "build")
		if !bytes.Equal(binary, readFile(t, filepath.Join(again, "bin", "atrium"))) {
			t.Error("two builds of one commit differ")
		}
	})
	t.Run("has the same files when it is built again in another environment", func(t *testing.T) { testSameFiles(t, dist) })
	t.Run("has the checksums of its files", func(t *testing.T) {
		sums := string(readFile(t, filepath.Join(dist, "SHA256SUMS")))
		files, err := os.ReadDir(dist)
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, file := range files {
			if file.IsDir() || strings.HasPrefix(file.Name(), "SHA256SUMS") || file.Name() == "provenance.intoto.jsonl" {
				continue
			}
			listed = append(listed, file.Name())
			if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(readFile(t, filepath.Join(dist, file.Name()))), file.Name()); !strings.Contains(sums, line) {
				t.Errorf("SHA256SUMS has no line %q", line)
			}
		}
		chart := "atrium-chart-" + strings.TrimPrefix(version, "v") + ".tgz"
		for _, file := range []string{name, name + ".cdx.json", name + ".tar.gz", name + ".deb", name + ".rpm", "atrium-image-" + runtime.GOARCH + ".tar", "atrium-image.tar", chart, "RELEASE_NOTES.md", "provenance.json"} {
			if !slices.Contains(listed, file) {
				t.Errorf("it has no %s", file)
			}
		}
	})
	t.Run("is signed by a key that is nowhere else", func(t *testing.T) { testSignatures(t, dist, temporary, key, output) })
	t.Run("says how it was built, and the same each time", func(t *testing.T) { testProvenance(t, released, dist) })
	t.Run("has its section of the changelog", func(t *testing.T) {
		notes, changelog := readFile(t, filepath.Join(dist, "RELEASE_NOTES.md")), readFile(t, filepath.Join(released, "CHANGELOG.md"))
		title, section, _ := strings.Cut(string(notes), "\n\n")
		if !strings.HasPrefix(title, "# Atrium v") || len(section) < 100 || !strings.Contains(string(changelog), section) {
			t.Errorf("the notes begin with %.200q", notes)
		}
	})
	t.Run("names every module that is in the binary", func(t *testing.T) {
		testBillOfMaterials(t, filepath.Join(dist, name+".cdx.json"), version, info)
	})
	t.Run("has a Terraform provider", func(t *testing.T) { testProvider(t, dist, version) })
	t.Run("has a manual page of the command", func(t *testing.T) {
		if !bytes.Contains(readFile(t, filepath.Join(dist, "man", "atrium.1")), []byte(".SH SYNOPSIS")) {
			t.Error("man/atrium.1 has no synopsis")
		}
	})
	t.Run("has an archive with what an operator installs", func(t *testing.T) {
		dir := t.TempDir()
		run(t, dir, nil, "tar", "-xf", filepath.Join(dist, name+".tar.gz"))
		for file, mode := range map[string]fs.FileMode{
			"atrium": 0o755, "atrium-audit-export": 0o755, "systemd/atrium.service": 0o644, "systemd/atrium-audit.timer": 0o644,
			"prometheus/alerts.yaml": 0o644, "grafana/atrium.json": 0o644, "man/atrium.1": 0o644, "README.md": 0o644, "licenses": fs.ModeDir | 0o755,
		} {
			if info, err := os.Stat(filepath.Join(dir, name, file)); err != nil || info.Mode() != mode {
				t.Errorf("%s: %v, %v", file, info, err)
			}
		}
		for _, m := range regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllStringSubmatch(string(readFile(t, filepath.Join(dir, name, "README.md"))), -1) {
			for file := range strings.SplitSeq(m[1], ", ") {
				if _, err := os.Stat(filepath.Join(dir, name, strings.Trim(file, "`"))); err != nil {
					t.Errorf("its README names %s: %v", file, err)
				}
			}
		}
	})
	t.Run("has an image that serves as an unprivileged user", func(t *testing.T) { testImage(t, dist) })
	t.Run("has a deb package", func(t *testing.T) {
		testPackage(t, dist, "deb", `
install_version() { dpkg -i "$packages/$1.deb"; }
remove() { dpkg -r atrium; }
purge() {
  dpkg -P atrium
  [ ! -e /etc/atrium/atrium.yaml ]
}
`)
	})
	t.Run("has an rpm package", func(t *testing.T) {
		testPackage(t, dist, "rpm", `
install_version() { rpm -U --nodeps "$packages/$1.rpm"; } # rpm does not know the packages of this machine
remove() { rpm -e atrium; }
purge() { true; } # rpm has no other removal
`)
		times := run(t, dist, nil, "rpm", "--query", "--package", "--queryformat", `[%{FILEMTIMES}\n]`, name+".rpm")
		if all := strings.Fields(times); len(slices.Compact(all)) != 1 {
			t.Errorf("its files have different times, so that another build has others: %s", times)
		}
	})
	t.Run("has the license of every module in the binary", func(t *testing.T) {
		for _, path := range paths(info) {
			if !hasLicense(filepath.Join(dist, "licenses", path)) {
				t.Errorf("no license of %s", path)
			}
		}
	})
}

// testSameFiles builds the release again: in another directory, later, and with another name of the machine,
// umask, time zone and locale. The builds share the cache of the compiler, because another test builds the
// binary without it.
func testSameFiles(t *testing.T, dist string) {
	again := filepath.Join(t.TempDir(), "again")
	run(t, "../..", []string{"TZ=Pacific/Chatham", "LC_ALL=C.UTF-8", "TMPDIR=" + t.TempDir()}, "unshare", "--uts", "sh", "-eu", "-c", `
umask 027
hostname another
git clone --quiet --no-hardlinks . "$1"
"$1/scripts/dist" "$2"`, "sh", again, platform)
	want := strings.Split(string(readFile(t, filepath.Join(dist, "SHA256SUMS"))), "\n")
	got := strings.Split(string(readFile(t, filepath.Join(again, "dist", "SHA256SUMS"))), "\n")
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the second build has no line %q", line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("SHA256SUMS has %d lines, and then %d", len(want), len(got))
	}
}

// testBillOfMaterials checks that a file names the version and all modules of a binary.
func testBillOfMaterials(t *testing.T, path, version string, binary *buildinfo.BuildInfo) {
	t.Helper()
	var bom struct {
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(readFile(t, path), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != version {
		t.Errorf("it is of version %q, and the binary of %q", bom.Metadata.Component.Version, version)
	}
	named := map[string]string{}
	for _, c := range bom.Components {
		named[c.Name] = c.Version
	}
	for _, m := range binary.Deps {
		if named[m.Path] != m.Version {
			t.Errorf("%s is %q, want %s", m.Path, named[m.Path], m.Version)
		}
	}
	if named["std"] == "" {
		t.Error("the standard library is missing")
	}
}

// testProvider checks that Terraform and OpenTofu would find the provider of a version in a mirror with its
// archive. The tests of the provider install it like this.
func testProvider(t *testing.T, dist, version string) {
	name := fmt.Sprintf("terraform-provider-atrium_%s_%s_%s", strings.TrimPrefix(version, "v"), runtime.GOOS, runtime.GOARCH)
	archive, err := zip.OpenReader(filepath.Join(dist, name+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	root := t.TempDir()
	var binary string
	for _, f := range archive.File {
		content, err := fs.ReadFile(archive, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(f.Name, "terraform-provider-atrium_v") {
			binary = path
			if f.Mode() != 0o755 {
				t.Errorf("%s has the mode %v, want 0755", f.Name, f.Mode())
			}
		}
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.modified" && s.Value != "false" {
			t.Error("it was built from a modified work tree")
		}
	}
	testBillOfMaterials(t, filepath.Join(dist, name+".cdx.json"), version, info)
	for _, path := range paths(info) {
		if !hasLicense(filepath.Join(root, "licenses", path)) {
			t.Errorf("no license of %s", path)
		}
	}
}

// hasLicense reports whether a directory or one below it has a license. A module of which
// only some packages are used has it next to those.
func hasLicense(dir string) (found bool) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error {
		found = found || d != nil && strings.HasPrefix(d.Name(), "LICENSE")
		return nil
	})
	return found
}

// paths returns the modules of a binary.
func paths(info *buildinfo.BuildInfo) (all []string) {
	for _, m := range info.Deps {
		all = append(all, m.Path)
	}
	return all
}
