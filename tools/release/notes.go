package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/module"
)

// notesFile has the section of the changelog about a release.
const notesFile = "RELEASE_NOTES.md"

// unreleased is the section of changes since the last tag.
const unreleased = "Unreleased"

// writeNotes writes the section about the version of the binaries in dist.
func writeNotes(changelog, dist string) error {
	binaries, err := readBinaries(dist)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	version := binaries[0].Main.Version
	section, err := readSection(string(text), version)
	if err != nil {
		return fmt.Errorf("%s: %w", changelog, err)
	}
	return os.WriteFile(filepath.Join(dist, notesFile), []byte("# Atrium "+version+"\n\n"+section), 0o644)
}

// title matches a heading of a section in the form of Keep a Changelog: "## [1.2.3] - 2026-01-31", with or
// without brackets and date.
var title = regexp.MustCompile(`^## \[?([^\]\s]+)\]?(?:\s.*)?$`)

// trivial matches lines without a change: headings, link definitions and empty lines.
var trivial = regexp.MustCompile(`^(?:#.*|\[[^\]]+\]:.*|\s*)$`)

// readSection returns the section of a changelog about a version of Go, or about unreleased changes if the
// version is not a tag. It must have a change.
func readSection(changelog, version string) (string, error) {
	name := strings.TrimPrefix(version, "v")
	if version == "" || version == "(devel)" || module.IsPseudoVersion(strings.TrimSuffix(version, "+dirty")) {
		name = unreleased
	}
	var section []string
	found, inside, fenced, changes := false, false, false, false
	for line := range strings.Lines(changelog) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if m := title.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil && !fenced {
			inside = m[1] == name
			if inside && found {
				return "", fmt.Errorf("there are two sections about %s", name)
			}
			found = found || inside
			continue
		}
		if inside {
			section = append(section, line)
			changes = changes || !trivial.MatchString(strings.TrimRight(line, "\r\n"))
		}
	}
	switch {
	case !found:
		return "", fmt.Errorf("there is no section about %s: add ## %s", name, name)
	case !changes:
		return "", fmt.Errorf("the section about %s is empty", name)
	}
	return strings.TrimSpace(strings.Join(section, "")) + "\n", nil
}
