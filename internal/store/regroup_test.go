package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/storetest"
)

// Copying the links of an account with many prospects in one transaction would block all other
// writers, so the number of links is limited.
func TestMergesAndSplitsCopyABoundedNumberOfLinks(t *testing.T) {
	plain := func(db engine.DB) engine.DB { return db }
	for name, e := range map[string]storetest.Engine{
		"sqlite": sqliteEngine(plain), "postgres": postgresEngine(postgres.Options{}, plain),
	} {
		t.Run(name, func(t *testing.T) {
			s := store.New(e.New(t)(), time.Now)
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
			if err != nil {
				t.Fatal(err)
			}
			c := atrium.CommandLine(tenant.ID)
			put := func(chunk ...store.Import) error {
				_, err := s.Import(t.Context(), c, chunk)
				return err
			}
			account := func(n, prospects int) atrium.AccountID {
				t.Helper()
				id := atrium.NewID[atrium.AccountID]()
				chunk := []store.Import{{Record: &atrium.Account{ID: id, Domain: fmt.Sprintf("a%d.example", n)}}}
				for range prospects {
					chunk = append(chunk, store.Import{Record: &atrium.LinkedProspect{AccountIDs: []atrium.AccountID{id}}})
				}
				for part := range slices.Chunk(chunk, 5_000) {
					if err := put(part...); err != nil {
						t.Fatal(err)
					}
				}
				return id
			}
			few, many, some, others := account(1, 1), account(2, 10_001), account(3, 6_000), account(4, 6_000)
			merge := func(id, into atrium.AccountID) store.Import {
				return store.Import{Record: &atrium.Merge{AccountID: id, Into: into}, Differs: func(store.Record) string { return "" }}
			}
			if _, err := s.MergeAccounts(t.Context(), c, many, few, nil); atrium.CodeOf(err) != atrium.CodeConflict {
				t.Errorf("a merge that copies 10,001 links: %v", err)
			}
			if _, ok := errors.AsType[*store.ImportError](put(merge(many, few))); !ok {
				t.Error("a line that copies 10,001 links was imported")
			}
			if err := put(merge(some, few), merge(others, few)); !errors.Is(err, store.ErrChunkTooLarge) {
				t.Errorf("lines that copy 12,000 links in one transaction: %v", err)
			}
			if err := put(merge(some, few)); err != nil {
				t.Errorf("a line that copies 6,000 links: %v", err)
			}
			if _, err := s.SplitAccount(t.Context(), c, few, some, nil); atrium.CodeOf(err) != atrium.CodeConflict {
				t.Errorf("a split of a group with 12,001 links: %v", err)
			}
			if _, err := s.MergeAccounts(t.Context(), c, account(5, 1), many, nil); err != nil {
				t.Errorf("a merge of one link into an account with many: %v", err)
			}
			for n, prospects := range []int{1, 300} {
				large := false
				c := c
				c.Admit = func(_ context.Context, is bool) (func(), error) {
					large = is
					return func() {}, nil
				}
				id, into := account(10+2*n, prospects), account(11+2*n, 0)
				if _, err := s.MergeAccounts(t.Context(), c, id, into, nil); err != nil || large != (prospects > 1) {
					t.Errorf("a merge of %d links: %v; is it admitted as large? %v", prospects, err, large)
				}
				if _, err := s.SplitAccount(t.Context(), c, into, id, nil); err != nil || large != (prospects > 1) {
					t.Errorf("a split of %d links: %v; is it admitted as large? %v", prospects, err, large)
				}
			}
		})
	}
}
