package main

import (
	"strings"
	"testing"
)

const changelog = "# Changelog\n\nA preamble.\n\n## Unreleased\n\n### Added\n\n- New.\n\n```text\n## 9.9.9\n```\n\n" +
	"## [1.2.0] - 2026-01-31\n\n### Fixed\n\n- Second.\n\n## 1.1.0\n\n### Fixed\n\n## [1.0.0]\n\n[1.0.0]: https://git.example.com/1.0.0\n"

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.0":                               "### Fixed\n\n- Second.\n",
		"v0.0.0-20261127145100-cb1809971234":   "### Added\n\n- New.\n\n```text\n## 9.9.9\n```\n",
		"v1.2.1-0.20261127145100-cb1809971234": "### Added\n\n- New.\n\n```text\n## 9.9.9\n```\n",
		"v1.2.1-rc.1":                          "there is no section about 1.2.1-rc.1: add",
		"v1.3.0":                               "there is no section about 1.3.0: add",
		"v9.9.9":                               "there is no section about 9.9.9: add",
		"v1.1.0":                               "the section about 1.1.0 is empty",
		"v1.0.0":                               "the section about 1.0.0 is empty",
	} {
		got, err := readSection(changelog, version)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
	if got, err := readSection(changelog+"\n## 1.2.0\n\n- Again.\n", "v1.2.0"); err == nil {
		t.Errorf("of two sections about a version, got %q", got)
	}
}
