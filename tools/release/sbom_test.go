package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSBOMsHaveTheTimeOfTheCommitAndNothingOfTheMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "atrium.cdx.json")
	for _, built := range []string{
		`{"version": 1, "metadata": {"timestamp": "2026-02-01T10:00:00Z", "tools": [{"name": "gomod", "hashes": [{"alg": "MD5", "content": "1"}]}]}, "components": [{"name": "m", "hashes": [1]}]}`,
		`{"version": 1, "metadata": {"timestamp": "2026-02-02T10:00:00Z", "tools": [{"name": "gomod", "hashes": [{"alg": "MD5", "content": "2"}]}]}, "components": [{"name": "m", "hashes": [1]}]}`,
	} {
		if err := os.WriteFile(path, []byte(built), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := normalizeSBOM(path, "2026-01-31T12:00:00Z"); err != nil {
			t.Fatal(err)
		}
		const want = `{
  "components": [
    {
      "hashes": [
        1
      ],
      "name": "m"
    }
  ],
  "metadata": {
    "timestamp": "2026-01-31T12:00:00Z",
    "tools": [
      {
        "name": "gomod"
      }
    ]
  },
  "version": 1
}
`
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s becomes %s (%v)", built, got, err)
		}
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if normalizeSBOM(path, "2026-01-31T12:00:00Z") == nil {
		t.Error("a file without tools is accepted: it may have another format, with other times")
	}
}
