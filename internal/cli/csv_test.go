package cli

import (
	"net/http"
	"slices"
	"testing"

	"atrium/internal/csvrows"
)

// The console and the command line give a list the same columns.
func TestListsHaveTheColumnsOfTheConsoleAsCSV(t *testing.T) {
	found := map[string]bool{}
	for _, g := range groups() {
		for i := range g.operations {
			o := &g.operations[i]
			want, ok := csvrows.Lists[o.path]
			if !ok || o.method != http.MethodGet || o.layout != layoutList && o.layout != layoutMember {
				continue
			}
			found[o.path] = true
			if got := membersOf(slices.Concat(o.columns, o.csvColumns)); !slices.Equal(got, want) {
				t.Errorf("%s has %v, want %v", o.path, got, want)
			}
		}
	}
	if len(found) != len(csvrows.Lists) {
		t.Errorf("%d of %d lists were compared", len(found), len(csvrows.Lists))
	}
}
