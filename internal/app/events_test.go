package app_test

import (
	"path/filepath"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// A server gives positions to the events of its own entries, and to those that another process has left.
func TestEventsGetPositions(t *testing.T) {
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
	if _, err := other.SetEventSettings(t.Context(), atrium.CommandLine(tenant.ID), true, func(atrium.EventSettings) error { return nil }); err != nil {
		t.Fatal(err)
	}
	served := open()
	record := func(s *store.Store) atrium.EntryID {
		t.Helper()
		d, err := canonical.Draft(tenant.ID, atrium.Submission{
			Source: "crm", Type: "webhook", Payload: []byte("{}"), Claim: atrium.Claim{Domain: "acme.example"},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		if outcomes, err := s.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
			t.Fatal(err, outcomes)
		}
		return d.ID
	}
	position := int64(1) // of the creation of the account
	wantNext := func(id atrium.EntryID) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			events, err := served.Events(t.Context(), tenant.ID, 0, 10)
			events = events[min(position, int64(len(events))):]
			if err != nil || len(events) > 1 || len(events) == 1 && events[0].EntryID != id {
				t.Fatalf("events %+v, %v, want one of %s", events, err, id)
			}
			if len(events) == 1 {
				position++
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the event of %s has no position", id)
			}
		}
	}
	left := record(other)
	apptest.Start(t, served)
	wantNext(left)
	wantNext(record(served))
	wantNext(record(other))
}
