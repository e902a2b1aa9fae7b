package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"atrium/internal/cli"
)

func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if err := write("2026-01-31", dir); err != nil {
		t.Fatal(err)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(page), ".SH SYNOPSIS") || !strings.Contains(string(page), "Jan 2026") {
			t.Errorf("%s: the page has no synopsis or no date", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				check(sub)
			}
		}
	}
	check(cli.NewCommand())
	page, err := os.ReadFile(filepath.Join(dir, "atrium-target.1"))
	for _, text := range []string{"ATRIUM_TENANT", "works directly on the database", `\fB--server\fP`, "Jan 2026"} {
		if err != nil || !strings.Contains(string(page), text) {
			t.Errorf("the page of the topic target has no %s: %v", text, err)
		}
	}
	if err := write("January", dir); err == nil {
		t.Error("an invalid date is accepted")
	}
}
