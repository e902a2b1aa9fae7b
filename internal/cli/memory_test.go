package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"atrium/internal/config"
)

func TestDocumentedMemoryIsTheSumOfTheLimits(t *testing.T) {
	text, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	const garbage = 192 << 20
	few, all := memoryLimit(c, 0)+garbage, memoryLimit(c, c.MaxConnections)+garbage
	if row := fmt.Sprintf("| together | %d MiB; %d MiB with few connections |", all>>20, few>>20); !strings.Contains(string(text), row) {
		t.Errorf("docs/limits.md does not have %q", row)
	}
	for row, bytes := range map[string]int64{
		"| `body-memory`, and half as much again: the reserve, and HTTP/2 bodies that no handler has read yet | %d MiB |": int64(c.BodyMemory) / 2 * 3,
		"| 80 KiB for each open connection: up to `max-connections` | %d MiB |":                                           int64(c.MaxConnections) * connectionMemory,
	} {
		if row = fmt.Sprintf(row, bytes>>20); !strings.Contains(string(text), row) {
			t.Errorf("docs/limits.md does not have %q", row)
		}
	}
}
