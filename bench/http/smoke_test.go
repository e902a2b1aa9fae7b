package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium/bench/workload"
)

// The statements for SQLite alone and for pgbench are copies, which a change of the schema
// breaks. This runs everything except PocketBase, as briefly as possible.
func TestEveryRowCanBeMeasured(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "atrium")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/atrium") // as in make verify, whose build cache it shares
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := report{options: options{atrium: bin, connections: 4, rounds: 1, round: 50 * time.Millisecond, accounts: 100, payload: 100}}
	if err := r.sqlite(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.postgres(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.describe(); err != nil {
		t.Fatal(err)
	}
	kinds := len((&workload.Workload{Accounts: 1}).Kinds())
	if want := kinds + 2 + kinds + 4; len(r.pairs) != want {
		t.Errorf("%d rows, want %d: each request on each engine, two of them next to SQLite alone, pgbench, and on two nodes", len(r.pairs), want)
	}
	for _, p := range r.pairs {
		if median(p.ratios()) <= 0 {
			t.Errorf("%s on %s next to %s: ratios %v", p.name, p.engine, p.reference, p.ratios())
		}
	}
	if r.atRest == 0 || r.loaded < r.atRest || len(r.started) != 1 {
		t.Errorf("%d bytes at rest, %d under load, started in %v", r.atRest, r.loaded, r.started)
	}
	if len(r.opened) != 9 {
		t.Errorf("%d loads of mixes, want three of each", len(r.opened))
	}
	if page := r.markdown(); !strings.Contains(page, "PostgreSQL 1") || !strings.Contains(page, "SQLite 3") {
		t.Errorf("the page does not name the versions:\n%s", page)
	}
}
