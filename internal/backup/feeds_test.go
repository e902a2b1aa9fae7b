package backup

import (
	"errors"
	"path/filepath"
	"testing"

	"atrium"
	"atrium/internal/store"
)

// created creates accounts of a tenant and gives positions to their events.
func created(t *testing.T, s *store.Store, tenant atrium.TenantID, domains ...string) {
	t.Helper()
	for _, domain := range domains {
		if _, _, err := s.CreateAccount(t.Context(), atrium.CommandLine(tenant), domain, ""); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		var err error
		if more, err = s.SequenceEvents(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARestoredFeedUsesNoPositionAgain(t *testing.T) {
	_, s := newDatabase(t, 0)
	tenants, _, err := s.Tenants(t.Context(), nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	tenant := tenants[0].ID
	if _, err := s.SetEventSettings(t.Context(), atrium.CommandLine(tenant), true, func(atrium.EventSettings) error { return nil }); err != nil {
		t.Fatal(err)
	}
	created(t, s, tenant, "a.example", "b.example")
	made := filepath.Join(t.TempDir(), "backup.db")
	if _, err := Make(t.Context(), s, made, Options{}); err != nil {
		t.Fatal(err)
	}
	created(t, s, tenant, "lost.example") // position 3, which a reader has seen

	dir := t.TempDir()
	path := filepath.Join(dir, "restored.db")
	if _, err := Restore(t.Context(), made, path, true, Options{}); err != nil {
		t.Fatal(err)
	}
	if found := names(t, dir); len(found) != 1 {
		t.Errorf("the restore leaves %q", found)
	}
	restored := open(t, path)
	created(t, restored, tenant, "c.example", "d.example")
	_, err = restored.Events(t.Context(), tenant, 3, 10)
	expired, ok := errors.AsType[*atrium.ExpiredEventsError](err)
	if !ok || !expired.Lost {
		t.Fatalf("a reader that has seen an event that was lost gets %v", err)
	}
	if got, err := restored.Events(t.Context(), tenant, expired.Oldest-1, 10); err != nil || len(got) != 2 {
		t.Errorf("it continues with %d events, %v, want the 2 new ones", len(got), err)
	}
	if got, err := restored.Events(t.Context(), tenant, 1, 10); err != nil || len(got) != 3 {
		t.Errorf("a reader that was behind gets %d events, %v, want 3", len(got), err)
	}
}
