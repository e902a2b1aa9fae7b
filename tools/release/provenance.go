package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// provenanceFile is the in-toto statement about how the files of a release were built.
const provenanceFile = "provenance.json"

// Identifiers in the provenance. docs/adr/0043-packages.md describes them.
const (
	statementV1  = "https://in-toto.io/Statement/v1"
	provenanceV1 = "https://slsa.dev/provenance/v1"
	buildType    = "urn:x-atrium:dist:v1"
	anyBuilder   = "urn:x-atrium:builder:unspecified"
)

// A statement is an in-toto statement with a SLSA provenance, without the members that differ between two
// builds of a commit: https://slsa.dev/spec/v1.1/provenance. The types of in-toto's Go module are not used
// here, because protojson deliberately varies its output; a test reads the result with them.
type statement struct {
	Type          string       `json:"_type"`
	Subject       []descriptor `json:"subject"`
	PredicateType string       `json:"predicateType"`
	Predicate     provenance   `json:"predicate"`
}

// A descriptor names a file, commit or module by its digests.
type descriptor struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type provenance struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string       `json:"buildType"`
	ExternalParameters   external     `json:"externalParameters"`
	InternalParameters   internal     `json:"internalParameters"`
	ResolvedDependencies []descriptor `json:"resolvedDependencies"`
}

// external is what the caller of scripts/dist chooses.
type external struct {
	Source    descriptor `json:"source"`
	Platforms []string   `json:"platforms"`
}

// internal is what the commit chooses.
type internal struct {
	Version   string `json:"version"`
	Toolchain string `json:"toolchain"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// writeProvenance writes the provenance of the files in dist. The binaries say what it contains.
func writeProvenance(dist, builderID string) error {
	binaries, err := readBinaries(dist)
	if err != nil {
		return err
	}
	subjects, err := readSubjects(dist)
	if err != nil {
		return err
	}
	s, err := newStatement(subjects, binaries, builderID)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, provenanceFile), append(text, '\n'), 0o644)
}

// binaryName matches the file names of binaries, and providerArchive those of archives of the Terraform
// provider.
var (
	binaryName      = regexp.MustCompile(`^atrium-[a-z0-9]+-[a-z0-9]+$`)
	providerArchive = regexp.MustCompile(`^terraform-provider-atrium_.*\.zip$`)
)

// readBinaries returns the build information of each binary in dist, in the order of their names, and then
// that of each Terraform provider.
func readBinaries(dist string) (all []*buildinfo.BuildInfo, err error) {
	files, err := os.ReadDir(dist)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		var info *buildinfo.BuildInfo
		switch path := filepath.Join(dist, f.Name()); {
		case f.IsDir():
			continue
		case binaryName.MatchString(f.Name()):
			info, err = buildinfo.ReadFile(path)
		case providerArchive.MatchString(f.Name()):
			info, err = readProvider(path)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		all = append(all, info)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no binaries", dist)
	}
	return all, nil
}

// readSubjects returns the files in dist, by name, except those that describe the others. What is in its
// directories is in the archives, too.
func readSubjects(dist string) (all []descriptor, err error) {
	files, err := os.ReadDir(dist)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.IsDir() || slices.Contains([]string{sumsFile, signatureFile, provenanceFile, envelopeFile}, f.Name()) {
			continue
		}
		sum, err := hashFile(filepath.Join(dist, f.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, descriptor{Name: f.Name(), Digest: map[string]string{"sha256": sum}})
	}
	return all, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// setting returns a build setting of a binary, such as vcs.revision, or "".
func setting(b *buildinfo.BuildInfo, key string) string {
	for _, s := range b.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// newStatement returns the provenance of files that were built with binaries of one commit. The builder is
// identified by a URI, or unspecified.
func newStatement(subjects []descriptor, binaries []*buildinfo.BuildInfo, builderID string) (*statement, error) {
	if builderID == "" {
		builderID = anyBuilder
	}
	if u, err := url.Parse(builderID); err != nil || u.Scheme == "" {
		return nil, errors.New(builderVariable + " must be a URI, such as https://ci.example.com/atrium")
	}
	first, versions := binaries[0], map[string]string{} // by module
	revision := setting(first, "vcs.revision")
	source := descriptor{Digest: map[string]string{"gitCommit": revision}}
	d := buildDefinition{
		BuildType:            buildType,
		ExternalParameters:   external{Source: source},
		InternalParameters:   internal{first.Main.Version, first.GoVersion},
		ResolvedDependencies: []descriptor{{Name: "source", Digest: source.Digest}},
	}
	modules := map[string]descriptor{}
	for _, b := range binaries {
		platform := setting(b, "GOOS") + "/" + setting(b, "GOARCH")
		if versions[b.Main.Path] == "" {
			versions[b.Main.Path] = b.Main.Version
		}
		switch {
		case revision == "":
			return nil, fmt.Errorf("the binary for %s names no commit: build it in a git repository, with -buildvcs", platform)
		case setting(b, "vcs.modified") != "false":
			return nil, fmt.Errorf("the binary for %s is not that of commit %s: it was built from a modified work tree", platform, revision)
		case setting(b, "vcs.revision") != revision || b.GoVersion != first.GoVersion || b.Main.Version != versions[b.Main.Path]:
			return nil, fmt.Errorf("the binary for %s is of another commit or toolchain than that for %s/%s", platform, setting(first, "GOOS"), setting(first, "GOARCH"))
		}
		if !slices.Contains(d.ExternalParameters.Platforms, platform) {
			d.ExternalParameters.Platforms = append(d.ExternalParameters.Platforms, platform)
		}
		for _, m := range b.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("module %s is replaced: a release must be built from published modules", m.Path)
			}
			sum, err := moduleDigest(m.Sum)
			if err != nil {
				return nil, fmt.Errorf("module %s: %w", m.Path, err)
			}
			uri := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
			modules[uri] = descriptor{URI: uri, Digest: map[string]string{"dirHash": sum}}
		}
	}
	sorted := make([]descriptor, 0, len(modules))
	for _, m := range modules {
		sorted = append(sorted, m)
	}
	slices.SortFunc(sorted, func(a, b descriptor) int { return strings.Compare(a.URI, b.URI) })
	d.ResolvedDependencies = append(d.ResolvedDependencies, sorted...)
	return &statement{statementV1, subjects, provenanceV1, provenance{d, runDetails{builder{builderID}}}}, nil
}

// moduleDigest returns the checksum of a module, h1: and base64, in hexadecimal, as in-toto's dirHash.
func moduleDigest(sum string) (string, error) {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("the checksum %q is not of the form h1:…", sum)
	}
	return hex.EncodeToString(raw), nil
}
