package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

const revision = "cb1809971234567890abcdef1234567890abcdef"

// linux and darwin are build information as go version -m prints it, of two binaries of one commit.
const (
	linux = "go\tgo1.26.8\npath\tatrium/cmd/atrium\nmod\tatrium\tv1.2.0\t\n" +
		"dep\tb.example/module\tv1.0.0+incompatible\th1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n" +
		"dep\ta.example/module\tv1.0.0\th1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n" +
		"build\tGOARCH=amd64\nbuild\tGOOS=linux\nbuild\tvcs=git\nbuild\tvcs.revision=" + revision + "\nbuild\tvcs.modified=false\n"
	darwin = "go\tgo1.26.8\npath\tatrium/cmd/atrium\nmod\tatrium\tv1.2.0\t\n" +
		"dep\tc.example/module\tv1.0.0\th1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n" +
		"build\tGOARCH=arm64\nbuild\tGOOS=darwin\nbuild\tvcs=git\nbuild\tvcs.revision=" + revision + "\nbuild\tvcs.modified=false\n"
)

func parse(t *testing.T, texts ...string) (all []*debug.BuildInfo) {
	t.Helper()
	for _, text := range texts {
		info, err := debug.ParseBuildInfo(text)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(text, "\n")
		info.GoVersion = strings.TrimPrefix(first, "go\t") // which ParseBuildInfo leaves out
		all = append(all, info)
	}
	return all
}

var subjects = []descriptor{{Name: "atrium.tar.gz", Digest: map[string]string{"sha256": strings.Repeat("0a", 32)}}}

// The Go types of in-toto decide what a valid statement is.
func TestProvenanceIsValidByTheTypesOfInToto(t *testing.T) {
	s, err := newStatement(subjects, parse(t, darwin, linux), "https://ci.example.com/atrium")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got intoto.Statement
	if err := protojson.Unmarshal(text, &got); err != nil { // which refuses unknown members
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if got.GetType() != intoto.StatementTypeUri || got.GetPredicateType() != "https://slsa.dev/provenance/v1" {
		t.Errorf("it is a %s with a %s", got.GetType(), got.GetPredicateType())
	}
	predicate, err := protojson.Marshal(got.GetPredicate())
	if err != nil {
		t.Fatal(err)
	}
	var p slsa.Provenance
	if err := protojson.Unmarshal(predicate, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	var dependencies []string
	for _, d := range p.GetBuildDefinition().GetResolvedDependencies() {
		if err := d.Validate(); err != nil {
			t.Error(err)
		}
		dependencies = append(dependencies, d.GetName()+d.GetUri())
	}
	if want := []string{"source", "pkg:golang/a.example/module@v1.0.0", "pkg:golang/b.example/module@v1.0.0%2Bincompatible", "pkg:golang/c.example/module@v1.0.0"}; !slices.Equal(dependencies, want) {
		t.Errorf("the dependencies are %q, want %q", dependencies, want)
	}
	parameters := p.GetBuildDefinition().GetExternalParameters().AsMap()
	want := map[string]any{"source": map[string]any{"digest": map[string]any{"gitCommit": revision}}, "platforms": []any{"darwin/arm64", "linux/amd64"}}
	if fmt.Sprint(parameters) != fmt.Sprint(want) {
		t.Errorf("the parameters are %v, want %v", parameters, want)
	}
	if p.GetRunDetails().GetBuilder().GetId() != "https://ci.example.com/atrium" || p.GetRunDetails().GetMetadata() != nil {
		t.Errorf("the details of the run are %v", p.GetRunDetails())
	}
}

func TestProvenanceHasTheModulesOfTheTerraformProvider(t *testing.T) {
	provider := strings.NewReplacer("mod\tatrium\tv1.2.0", "mod\tatrium/terraform\tv0.0.0-20260102030405-cb1809971234", "c.example", "d.example").Replace(darwin)
	s, err := newStatement(subjects, parse(t, linux, darwin, provider), "")
	if err != nil {
		t.Fatal(err)
	}
	d := s.Predicate.BuildDefinition
	if last := d.ResolvedDependencies[len(d.ResolvedDependencies)-1].URI; last != "pkg:golang/d.example/module@v1.0.0" {
		t.Errorf("the last dependency is %s", last)
	}
	if want := []string{"linux/amd64", "darwin/arm64"}; !slices.Equal(d.ExternalParameters.Platforms, want) {
		t.Errorf("the platforms are %q, want %q", d.ExternalParameters.Platforms, want)
	}
	if d.InternalParameters.Version != "v1.2.0" {
		t.Errorf("the version is %s", d.InternalParameters.Version)
	}
}

// The validation above has to be one that can fail.
func TestTypesOfInTotoRefuseAProvenanceWithoutARequiredMember(t *testing.T) {
	for _, member := range []string{"buildType", "externalParameters", "builder"} {
		s, err := newStatement(subjects, parse(t, linux), "")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(s.Predicate)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(`"`+member+`":`), []byte(`"other":`), 1)
		var p slsa.Provenance
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		if p.Validate() == nil {
			t.Errorf("a provenance without %s is valid", member)
		}
	}
}

func TestProvenanceIsRefusedIfItWouldBeFalse(t *testing.T) {
	for _, test := range []struct{ name, binary, builder, want string }{
		{"a modified work tree", strings.Replace(linux, "vcs.modified=false", "vcs.modified=true", 1), "", "modified work tree"},
		{"no commit", strings.Replace(linux, "build\tvcs.revision="+revision+"\n", "", 1), "", "names no commit"},
		{"a replaced module", strings.Replace(linux, "dep\ta.example", "dep\ta.example/module\tv1.0.0\n=>\t../module\t(devel)\t\ndep\ta.example", 1), "", "is replaced"},
		{"a builder that is no URI", linux, "ci", "must be a URI"},
		{"a checksum of another form", strings.Replace(linux, "h1:", "h2:", 1), "", "is not of the form"},
	} {
		if _, err := newStatement(subjects, parse(t, test.binary), test.builder); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for name, other := range map[string]string{
		"another commit":    strings.Replace(darwin, revision, strings.Repeat("0", 40), 1),
		"another toolchain": strings.Replace(darwin, "go1.26.8", "go1.26.7", 1),
		"another version":   strings.Replace(darwin, "v1.2.0", "v1.2.1", 1),
	} {
		if _, err := newStatement(subjects, parse(t, linux, other), ""); err == nil || !strings.Contains(err.Error(), "another commit or toolchain") {
			t.Errorf("binaries of %s: %v", name, err)
		}
	}
}

// build builds a binary of a new repository as scripts/dist does, in a directory for a release.
func build(t *testing.T) (dist string) {
	t.Helper()
	source, dist := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": "module atrium\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{
		{"git", "init", "--quiet"},
		{"git", "add", "."},
		{"git", "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=first"},
		{"go", "build", "-trimpath", "-buildvcs=true", "-o", filepath.Join(dist, "atrium-linux-amd64"), "."},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = source
		cmd.Env = slices.DeleteFunc(append(os.Environ(), "GOFLAGS=", "GOOS=linux", "GOARCH=amd64"), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return dist
}

func TestProvenanceNamesTheFilesOfARelease(t *testing.T) {
	dist := build(t)
	if err := os.Mkdir(filepath.Join(dist, "man"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"atrium-linux-amd64.tar.gz", "RELEASE_NOTES.md", sumsFile, signatureFile, envelopeFile} {
		if err := os.WriteFile(filepath.Join(dist, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var texts [][]byte
	for range 2 { // the second time, the file exists
		if err := writeProvenance(dist, ""); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dist, provenanceFile))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("two runs give %s and %s", texts[0], texts[1])
	}
	var s statement
	if err := json.Unmarshal(texts[0], &s); err != nil {
		t.Fatal(err)
	}
	want := []string{"RELEASE_NOTES.md", "atrium-linux-amd64", "atrium-linux-amd64.tar.gz"}
	for i, name := range want {
		content, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(s.Subject) || s.Subject[i].Name != name || s.Subject[i].Digest["sha256"] != fmt.Sprintf("%x", sha256.Sum256(content)) {
			t.Fatalf("the subjects are %v, want %q", s.Subject, want)
		}
	}
	if len(s.Subject) != len(want) {
		t.Errorf("the subjects are %v, want %q", s.Subject, want)
	}
	if d := s.Predicate.BuildDefinition; len(d.ExternalParameters.Source.Digest["gitCommit"]) != 40 || !strings.HasPrefix(d.InternalParameters.Version, "v0.0.0-") {
		t.Errorf("the definition of the build is %+v", d)
	}
}
