package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"
)

var update = flag.Bool("update", false, "write the manual pages instead of comparing them")

// manDate is when the manual was last looked over.
var manDate = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)

const manDir = "../../docs/man"

func TestTheManualIsWhatTheCommandsSay(t *testing.T) {
	dir := t.TempDir()
	if *update {
		dir = manDir
	}
	root := newRoot()
	root.DisableAutoGenTag = true // the date in the head is enough
	header := &doc.GenManHeader{Title: "ATRIUM", Section: "1", Manual: "Atrium", Source: "Atrium", Date: &manDate}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(made) == 0 {
		t.Fatalf("%d pages, %v", len(made), err)
	}
	kept, err := filepath.Glob(filepath.Join(manDir, "*.1"))
	if err != nil || len(kept) != len(made) {
		t.Errorf("%d pages are kept, %d were made, %v: run go test ./internal/cli -run Manual -update", len(kept), len(made), err)
	}
	for _, path := range made {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join(manDir, filepath.Base(path)))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is out of date (%v): run go test ./internal/cli -run Manual -update", filepath.Base(path), err)
		}
	}
}
