package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auditlog"
	"atrium/internal/store"
)

// A server that is killed ten times continues the deletion of a tenant each time. Once the tenant does not
// exist, its data is gone from the database files, and nothing else is.
func TestKilledDeletionOfATenantEndsTheSame(t *testing.T) {
	const mark = "deleted-tenant.example"
	const entries = 12_000
	db, rng := newFile(t), random(t)
	path := strings.TrimPrefix(db.url, "sqlite:")
	kept := db.tenants[0].id
	open := func() *store.Store {
		t.Helper()
		s, err := store.Open(t.Context(), db.url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	operators := atrium.CommandLine(atrium.OperatorChain)
	tenant, _, err := s.CreateTenant(t.Context(), operators, "Leaving")
	if err != nil {
		t.Fatal(err)
	}
	fill := func(id atrium.TenantID, text string, n int) {
		t.Helper()
		account := &atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: text}
		chunk := []store.Import{{Record: account}}
		for i := range n {
			chunk = append(chunk, store.Import{Record: &atrium.Entry{AccountID: account.ID, Submission: atrium.Submission{
				Source: "crm", Type: atrium.DefaultType, Payload: []byte(`{"text":"` + strings.Repeat(text, 10) + `"}`),
			}}})
			if len(chunk) == 1000 || i == n-1 {
				if _, err := s.Import(t.Context(), atrium.CommandLine(id), chunk); err != nil {
					t.Fatal(err)
				}
				chunk = nil
			}
		}
	}
	fill(tenant.ID, mark, entries)
	fill(kept, "kept.example", 1000)
	if _, err := s.DeleteTenant(t.Context(), operators, tenant.ID, func(atrium.Tenant) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	marks := func() (n int) {
		t.Helper()
		for _, end := range []string{"", "-wal"} {
			b, err := os.ReadFile(filepath.Clean(path + end))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			n += bytes.Count(b, []byte(mark))
		}
		return n
	}
	if marks() == 0 {
		t.Fatal("the files do not have the mark")
	}
	// progress returns how many entries are deleted, and whether the deletion is complete.
	progress := func() (deleted int64, complete bool) {
		t.Helper()
		s := open()
		defer func() { _ = s.Close() }()
		found, err := s.TenantOrDeletion(t.Context(), tenant.ID)
		if atrium.CodeOf(err) == atrium.CodeNotFound {
			return 0, true
		}
		if err != nil || found.Deletion == nil {
			t.Fatalf("the tenant is %+v, %v", found, err)
		}
		return found.Deletion.Entries, false
	}
	killed, during, last := 0, 0, int64(0)
	for deadline := time.Now().Add(4 * time.Minute); ; killed++ {
		server := start(t, db.url)
		limit := 30 * time.Millisecond // so that it is killed at least ten times on the way
		if killed >= 10 {
			limit = time.Duration(killed) * 200 * time.Millisecond
		}
		time.Sleep(limit/2 + time.Duration(rng.Int64N(int64(limit))))
		server.kill()
		server.checkLog()
		deleted, complete := progress()
		if complete {
			break
		}
		if deleted < last {
			t.Errorf("%d entries are counted after %d", deleted, last)
		}
		last = deleted
		during++
		if time.Now().After(deadline) {
			t.Fatalf("not complete after %d kills: %d entries are deleted", killed, deleted)
		}
	}
	if n := marks(); n > 0 {
		t.Errorf("the tenant does not exist, and its data is %d times in the files", n)
	}
	s = open()
	defer func() { _ = s.Close() }()
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
	t.Logf("killed %d times while it ran", during)
}
