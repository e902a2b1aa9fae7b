package store_test

import (
	"errors"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
)

func TestTryAppendReturnsInsteadOfWaitingForAnotherTransaction(t *testing.T) {
	t.Parallel()
	db := postgresEngine(postgres.Options{}, func(db engine.DB) engine.DB { return db }).New(t)()
	s := store.New(db, time.Now)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	draft := func(domain string) []*atrium.Draft {
		return []*atrium.Draft{{
			ID: atrium.NewID[atrium.EntryID](), TenantID: tenant.ID, Domain: domain, Fingerprint: []byte{1},
			Submission: atrium.Submission{Source: "s", Type: "t", Claim: atrium.Claim{Domain: domain}, Payload: []byte("{}")},
		}}
	}
	first, err := s.Append(t.Context(), draft("a.example"))
	if err != nil {
		t.Fatal(err)
	}
	entry := draft("a.example")
	locked := make(chan error, 1)
	waited := make(chan error, 1)
	if _, err := s.RenameAccount(t.Context(), atrium.CommandLine(tenant.ID), first[0].AccountID, "A", func(atrium.AccountDetail) error {
		_, err := s.TryAppend(t.Context(), entry) // while the account is locked
		locked <- err
		if _, err := s.TryAppend(t.Context(), draft("b.example")); err != nil {
			t.Errorf("an entry of another account: %v", err)
		}
		go func() {
			_, err := s.Append(t.Context(), entry)
			waited <- err
		}()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; !errors.Is(err, atrium.ErrLocked) {
		t.Errorf("TryAppend returned %v, want ErrLocked", err)
	}
	if err := <-waited; err != nil {
		t.Errorf("Append of the same entry: %v", err)
	}
	if again, err := s.TryAppend(t.Context(), entry); err != nil || again[0].Err != nil || again[0].EntryID != entry[0].ID {
		t.Errorf("TryAppend of an entry that is stored: %+v, %v", again, err)
	}
}
