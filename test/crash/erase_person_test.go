package crash

import (
	"testing"

	"atrium"
	"atrium/internal/store"
)

// A server that is killed again and again continues the erasure of a person each time. Once it is
// reported as complete, the person's data is gone from the database files, and nothing else is.
func TestKilledErasureOfAPersonEndsTheSame(t *testing.T) {
	const mark = "erased-person@example.com"
	const entries = 12_000 // half of them are the person's
	db := newFile(t)
	tenant := db.tenants[0].id
	var account atrium.AccountID
	var erasure atrium.Erasure
	withStore(t, db.url, func(s *store.Store) {
		account = importEntries(t, s, tenant, "killed.example", entries, func(i int) string { return []string{mark, "kept@example.com"}[i%2] })
		var err error
		erasure, _, err = s.CreateErasure(t.Context(), atrium.CommandLine(tenant), atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: mark, ProspectEmail: mark}})
		if err != nil {
			t.Fatal(err)
		}
	})
	if countMarks(t, db.url, mark) == 0 {
		t.Fatal("the files do not have the mark")
	}
	killUntilComplete(t, db.url, func(s *store.Store) (deleted int64, complete bool) {
		var err error
		if erasure, err = s.FindErasure(t.Context(), tenant, erasure.ID); err != nil {
			t.Fatal(err)
		}
		return erasure.Entries, erasure.CompletedAt != nil
	})
	if erasure.Entries != entries/2 {
		t.Errorf("%d entries are counted, want %d", erasure.Entries, entries/2)
	}
	if n := countMarks(t, db.url, mark); n > 0 {
		t.Errorf("reported as complete, and %d times in the files", n)
	}
	withStore(t, db.url, func(s *store.Store) {
		left, tombstones := 0, 0
		if err := s.Export(t.Context(), tenant, func(r store.Record) error {
			switch r := r.(type) {
			case *atrium.Entry:
				if r.AccountID == account {
					left++
				}
			case *atrium.Tombstone:
				tombstones++
			}
			return nil
		}); err != nil || left != entries/2 || tombstones != entries/2 {
			t.Errorf("%d entries and %d tombstones are left, %v", left, tombstones, err)
		}
	})
}
