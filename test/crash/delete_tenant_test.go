package crash

import (
	"bytes"
	"testing"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store"
)

// A server that is killed again and again continues the deletion of a tenant each time. Once the tenant
// does not exist, its data is gone from the database files, and nothing else is.
func TestKilledDeletionOfATenantEndsTheSame(t *testing.T) {
	const mark = "deleted-tenant.example"
	db := newFile(t)
	kept := db.tenants[0].id
	var id atrium.TenantID
	withStore(t, db.url, func(s *store.Store) {
		operators := atrium.CommandLine(atrium.OperatorChain)
		tenant, _, err := s.CreateTenant(t.Context(), operators, "Leaving")
		if err != nil {
			t.Fatal(err)
		}
		id = tenant.ID
		importEntries(t, s, id, mark, 12_000, func(int) string { return mark })
		importEntries(t, s, kept, "kept.example", 1000, func(int) string { return "kept.example" })
		if _, err := s.DeleteTenant(t.Context(), operators, id, func(atrium.Tenant) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
	if countMarks(t, db.url, mark) == 0 {
		t.Fatal("the files do not have the mark")
	}
	killUntilComplete(t, db.url, func(s *store.Store) (deleted int64, complete bool) {
		found, err := s.TenantOrDeletion(t.Context(), id)
		if atrium.CodeOf(err) == atrium.CodeNotFound {
			return 0, true
		}
		if err != nil || found.Deletion == nil {
			t.Fatalf("the tenant is %+v, %v", found, err)
		}
		return found.Deletion.Entries, false
	})
	if n := countMarks(t, db.url, mark); n > 0 {
		t.Errorf("the tenant does not exist, and its data is %d times in the files", n)
	}
	withStore(t, db.url, func(s *store.Store) {
		left := 0
		if err := s.Export(t.Context(), kept, func(r store.Record) error {
			if e, ok := r.(*atrium.Entry); ok && bytes.Contains(e.Payload, []byte("kept.example")) {
				left++
			}
			return nil
		}); err != nil || left != 1000 {
			t.Errorf("%d entries of another tenant are left, %v", left, err)
		}
		if err := s.VerifyAudits(t.Context(), func(chain atrium.TenantID, f auditlog.Fault) { t.Errorf("%s: %v", chain, f) }); err != nil {
			t.Error(err)
		}
		rows, _, err := s.AuditRows(t.Context(), atrium.OperatorChain, atrium.AuditFilter{Action: "tenant.delete.complete"}, 0, 10)
		if err != nil || len(rows) != 1 || !bytes.Contains(rows[0].Detail, []byte(`"accountLogs":12000,`)) {
			t.Errorf("the deletion is recorded as %+v, %v", rows, err)
		}
	})
}
