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
