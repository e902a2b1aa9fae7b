package main

import (
	"atrium"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium/internal/store"
)

// The seeder's own inserts must store what the service would store.
func TestBulkStoresWhatAnImportStores(t *testing.T) {
	ctx, s := t.Context(), shape{tenants: 2, entries: 3000}
	dir := t.TempDir()
	bulk, imported := filepath.Join(dir, "bulk.db"), filepath.Join(dir, "imported.db")
	if _, err := seed(ctx, "sqlite:"+bulk, s); err != nil {
		t.Fatal(err)
	}
	if err := importAll(ctx, "sqlite:"+imported, s); err != nil {
		t.Fatal(err)
	}
	for _, table := range []struct{ query string }{
		{`SELECT entry_id, account_id, created_at, source, type, claimed_account_id, claimed_domain, claimed_name, idempotency_key,
			key_match, fingerprint, acknowledged_account_id, occurred_at, move_id, payload FROM entries`},
		{`SELECT account_id, domain, domain_hash, name, name_hash, created_at, updated_at, latest_activity_at, active_minute FROM accounts`},
	} {
		got, want := rows(t, bulk, table.query), rows(t, imported, table.query)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %d rows differ from the %d of an import", table.query, len(got), len(want))
		}
	}
}

func importAll(ctx context.Context, url string, s shape) error {
	return with(ctx, url, func(db *store.Store) error {
		if _, err := db.Migrate(ctx); err != nil {
			return err
		}
		for n := range s.tenants {
			made, err := newTenant(ctx, db, n)
			if err != nil {
				return err
			}
			for round := range s.rounds() {
				if err := put(ctx, db, made.ID, s.records(round)); err != nil {
					return err
				}
				if err := put(ctx, db, made.ID, s.entryRecords(n, round)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func rows(t *testing.T, path, query string) (all []string) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	err = sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		var row strings.Builder
		for i := range s.ColumnCount() {
			fmt.Fprintf(&row, "%v %q|", s.ColumnType(i), s.ColumnText(i))
		}
		all = append(all, row.String())
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// At every size, a tenant gets each record of its shape exactly once.
func TestRoundsAddUpToTheShape(t *testing.T) {
	for _, s := range []shape{{tenants: 1, entries: 10}, {tenants: 1, entries: 1000}, {tenants: 3, entries: 25_000}, {tenants: 1, entries: 1000, each: 5}} {
		counts, seen := map[string]int{}, map[string]bool{}
		for round := range s.rounds() {
			for r := range s.records(round) {
				counts[fmt.Sprintf("%T", r)]++
				if p, ok := r.(*atrium.LinkedProspect); ok {
					if seen[string(p.ID)] {
						t.Fatalf("%v: duplicate prospect %s", s, p.ID)
					}
					seen[string(p.ID)] = true
				}
			}
			for range s.entryRecords(0, round) {
				counts["entry"]++
			}
		}
		want := map[string]int{
			"*atrium.Account": s.accounts(), "*atrium.LinkedProspect": prospectsEach * s.accounts(), "*atrium.Page": s.pages(),
			"*atrium.Audience": 1, "*atrium.AudienceVersion": s.versions(), "entry": s.entries,
		}
		if fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("%v: %v, want %v", s, counts, want)
		}
	}
}
