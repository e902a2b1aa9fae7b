package reference_test

import (
	"bytes"
	"os"
	"testing"

	"atrium/internal/config/reference"
)

func TestReferenceIsUpToDate(t *testing.T) {
	for path, made := range map[string]func(string) ([]byte, error){
		"../usage.go":                    reference.Usage,
		"../../../docs/configuration.md": reference.Page,
	} {
		want, err := made("../config.go")
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is out of date: run go generate ./internal/config", path)
		}
	}
}

// An operator finds the range of a value on the page, not by trying.
func TestPageHasTheRangeOfEachSetting(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := bytes.Cut(page, []byte("\n## shutdown-delay\n"))
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	for _, want := range []string{"- must be from 0s to 5s\n", "- must be at least a second less than drain-timeout, which includes it\n"} {
		if !bytes.Contains(section, []byte(want)) {
			t.Errorf("shutdown-delay has no line %q:\n%s", want, section)
		}
	}
}
