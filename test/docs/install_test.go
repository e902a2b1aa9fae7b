package docs_test

import (
	"strings"
	"testing"
)

// The settings of the checklist can replace the file of the packages without another, empty database.
func TestHardenedSettingsKeepTheDatabaseOfThePackages(t *testing.T) {
	hardened := blockWith(t, "install.md", "cat > hardened.yaml")
	for line := range strings.Lines(read(t, root+"/deploy/packages/atrium.yaml")) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(hardened, "\n"+line) {
			t.Errorf("hardened.yaml in install.md lacks %q", line)
		}
	}
}
