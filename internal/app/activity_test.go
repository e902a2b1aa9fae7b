package app_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// A server brings the list by activity up to date for its own entries, and at its start for those
// that another process has left behind.
func TestListByActivityFollowsEntries(t *testing.T) {
	for name, own := range map[string]bool{"own entries": true, "entries of another process": false} {
		t.Run(name, func(t *testing.T) {
			url := "sqlite:" + filepath.Join(t.TempDir(), "atrium.db")
			open := func() *store.Store {
				s, err := store.Open(t.Context(), url, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			other := open()
			if _, err := other.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			tenant, _, err := other.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
			if err != nil {
				t.Fatal(err)
			}
			var accounts []store.Import
			for i := range 2 {
				accounts = append(accounts, store.Import{Record: &atrium.Account{
					ID: atrium.AccountID(fmt.Sprintf("account_%026d", i)), Domain: fmt.Sprintf("a%d.example", i),
				}})
			}
			if _, err := other.Import(t.Context(), atrium.CommandLine(tenant.ID), accounts); err != nil {
				t.Fatal(err)
			}
			record := func(s *store.Store) {
				t.Helper()
				d, err := canonical.Draft(tenant.ID, atrium.Submission{
					Source: "crm", Type: "webhook", Payload: []byte("{}"), Claim: atrium.Claim{Domain: "a0.example"},
				})
				if err != nil {
					t.Fatal(err)
				}
				d.ID = atrium.NewID[atrium.EntryID]()
				if outcomes, err := s.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
					t.Fatal(err, outcomes)
				}
			}
			if !own {
				record(other)
			}
			s := open()
			apptest.Start(t, s)
			if own {
				record(s)
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				found, _, err := s.Accounts(t.Context(), tenant.ID, atrium.AccountFilter{}, atrium.AccountsActivity, nil, 9)
				if err != nil || len(found) != 2 {
					t.Fatalf("%d accounts, %v", len(found), err)
				}
				if found[0].Domain == "a0.example" {
					return
				}
				if time.Now().After(deadline) {
					t.Fatal("the account with an entry is not first")
				}
			}
		})
	}
}
