package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// The client of an export may read slowly for hours. A read transaction that stayed open all that
// time would let the write-ahead log grow.
func TestTheWALIsResetDuringASlowExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	write := func() {
		t.Helper()
		n++
		d, err := canonical.Draft(tenant.ID, atrium.Submission{
			Source: "crm", Type: "webhook", Payload: []byte("{}"), Claim: atrium.Claim{Domain: fmt.Sprintf("d%d.example", n)},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		if outcomes, err := s.Append(t.Context(), []*atrium.Draft{d}); err != nil || outcomes[0].Err != nil {
			t.Fatal(err, outcomes)
		}
	}
	for range 5 {
		write()
	}
	other, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	other.SetBusyTimeout(time.Minute)

	emitted := 0
	if err := s.Export(t.Context(), tenant.ID, func(store.Record) error {
		emitted++
		write()
		return sqlitex.ExecuteTransient(other, "PRAGMA wal_checkpoint(TRUNCATE)", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
			if busy, left := row.ColumnInt(0), row.ColumnInt(1); busy != 0 || left != 0 {
				t.Errorf("at record %d the WAL is not reset: busy %d, %d pages are left", emitted, busy, left)
			}
			return nil
		}})
	}); err != nil {
		t.Fatal(err)
	}
	if emitted != 10 {
		t.Errorf("%d records, want the 10 from before the export", emitted)
	}
}
