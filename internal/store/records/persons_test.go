package records_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/store/records"
)

// More moves than are held in memory are found by several searches.
func TestAnExportOfAPersonHasManyMovesOnceAndInOrder(t *testing.T) {
	defer records.SetMaxPersonMoves(3)()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	c := atrium.CommandLine(tenant.ID)
	var from atrium.AccountID
	for i := range 4 {
		d, err := canonical.Draft(tenant.ID, atrium.Submission{
			Source: "forms", Type: "sent", Claim: atrium.Claim{Domain: "a.example"}, Payload: fmt.Appendf(nil, `{"n":%d,"email":"jane@example.com"}`, i),
		})
		if err != nil {
			t.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		o, err := s.Append(t.Context(), []*atrium.Draft{d})
		if err != nil || o[0].Err != nil {
			t.Fatal(o, err)
		}
		from = o[0].AccountID
	}
	a, _, err := s.CreateAccount(t.Context(), c, "b.example", "")
	if err != nil {
		t.Fatal(err)
	}
	ids := []atrium.AccountID{from, a.ID}
	var want []atrium.MoveID
	for i := range 20 { // the rules do not contain a value of the person
		report, _, err := s.Move(t.Context(), c, atrium.MoveRequest{
			From: ids[i%2], To: ids[(i+1)%2], Limit: 10, Rule: atrium.MoveRule{ClaimedDomain: "a.example", Given: []byte(`{"claimedDomain":"a.example"}`)},
		})
		if err != nil || report.Moved != 4 {
			t.Fatal(report, err)
		}
		want = append(want, report.Move.ID)
	}
	var got []atrium.MoveID
	entries := 0
	done, err := s.ExportPerson(t.Context(), tenant.ID, atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: "jane@example.com"}}, func(r store.Record) error {
		switch r := r.(type) {
		case *atrium.Move:
			got = append(got, r.ID)
		case *atrium.Entry:
			entries++
		}
		return nil
	}, func() error { return nil })
	if err != nil || entries != 4 || done != (atrium.PersonExport{Entries: 4, Moves: 20, AuditRecords: 20}) || !slices.Equal(got, want) {
		t.Errorf("%d entries and the moves %q, want %q; %+v, %v", entries, got, want, done, err)
	}
}
