package postgres

import (
	"slices"
	"strings"
	"testing"
)

func TestAScriptIsSplitIntoStatements(t *testing.T) {
	want := []string{
		"-- A comment; with semicolons;\nCREATE TABLE a (\n    b BIGINT\n); -- the end\n",
		"DO $$ BEGIN\n    PERFORM 1;\n    PERFORM 2;\nEND $$;\n",
		"SELECT 1; SELECT 2;\n",
		"SELECT 3",
	}
	if got := statementsOf(strings.Join(want, "")); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := statementsOf("SELECT 1;\n\n"); !slices.Equal(got, []string{"SELECT 1;\n"}) {
		t.Errorf("%q", got)
	}
}
