package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium/bench/server"
)

func TestMain(m *testing.M) {
	server.BeBare()
	os.Exit(m.Run())
}

// A change of a path or of a form of the console breaks the requests.
func TestEveryPageOfTheConsoleCanBeMeasured(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "atrium")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/atrium") // as in make verify, whose build cache it shares
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := options{binary: bin, dir: t.TempDir(), sizes: []int{200, 1000}, console: true, connections: 1, rounds: 1, roundLength: 20 * time.Millisecond}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func TestAPageThatTakesMuchLongerIsMarked(t *testing.T) {
	var b strings.Builder
	shapes := []shape{{tenants: 1, entries: 50_000, each: 5}, {tenants: 1, entries: 5_000_000, each: 5}}
	printPages(&b, "SQLite", shapes, []row{
		{Name: "overview", Sizes: [][]sample{{{P50: 400}}, {{P50: 500}}}}, {Name: "activity", Sizes: [][]sample{{{P50: 1000}}, {{P50: 1600}}}},
	})
	want := `| page, SQLite | 10,000 accounts, 50,000 entries | 1,000,000 accounts, 5,000,000 entries | ratio |
| --- | ---: | ---: | ---: |
| overview | 0.40 ms | 0.50 ms | 1.25 |
| activity | 1.00 ms | 1.60 ms | 1.60, missed |
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}
