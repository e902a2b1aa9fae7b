package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLockedFileCanBeWrittenAndRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "held")
	if err := os.WriteFile(path, make([]byte, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := hold(path)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := os.Truncate(path, 20_000); err != nil {
		t.Error(err)
	}
	if err := remove(path); err != nil {
		t.Error(err)
	}
	if _, err := hold(path); err == nil {
		t.Error("hold succeeded for a missing file")
	}
}
