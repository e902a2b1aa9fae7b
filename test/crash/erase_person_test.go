package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

// A server that is killed ten times continues the erasure of a person each time. Once it is reported as
// complete, the person's data is gone from the database files, and nothing else is.
func TestKilledErasureOfAPersonEndsTheSame(t *testing.T) {
	const mark = "erased-person@example.com"
	const entries = 12_000 // half of them are the person's
	db, rng := newFile(t), random(t)
	path := strings.TrimPrefix(db.url, "sqlite:")
	tenant := db.tenants[0].id
	open := func() *store.Store {
		t.Helper()
		s, err := store.Open(t.Context(), db.url, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	account := &atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: "killed.example"}
	chunk := []store.Import{{Record: account}}
	for i := range entries {
		text := []string{mark, "kept@example.com"}[i%2]
		chunk = append(chunk, store.Import{Record: &atrium.Entry{AccountID: account.ID, Submission: atrium.Submission{
			Source: "crm", Type: atrium.DefaultType, Payload: []byte(`{"to":"` + text + `","text":"` + strings.Repeat(text, 10) + `"}`),
		}}})
		if len(chunk) == 1000 || i == entries-1 {
			if _, err := s.Import(t.Context(), atrium.CommandLine(tenant), chunk); err != nil {
				t.Fatal(err)
			}
			chunk = nil
		}
	}
	made, _, err := s.CreateErasure(t.Context(), atrium.CommandLine(tenant), atrium.ErasureRequest{Rule: atrium.ErasureRule{Text: mark, ProspectEmail: mark}})
	if err != nil {
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
	found := func() atrium.Erasure {
		t.Helper()
		s := open()
		defer func() { _ = s.Close() }()
		e, err := s.FindErasure(t.Context(), tenant, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		return e
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
		e := found()
		if e.Entries < last {
			t.Errorf("%d entries are counted after %d", e.Entries, last)
		}
		if e.CompletedAt == nil {
			during++
		}
		if last = e.Entries; e.CompletedAt != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not complete after %d kills: %+v", killed, e)
		}
	}
	if last != entries/2 {
		t.Errorf("%d entries are counted, want %d", last, entries/2)
	}
	if n := marks(); n > 0 {
		t.Errorf("reported as complete, and %d times in the files", n)
	}
	s = open()
	defer func() { _ = s.Close() }()
	left, tombstones := 0, 0
	if err := s.Export(t.Context(), tenant, func(r store.Record) error {
		switch r := r.(type) {
		case *atrium.Entry:
			if r.AccountID == account.ID {
				left++
			}
		case *atrium.Tombstone:
			tombstones++
		}
		return nil
	}); err != nil || left != entries/2 || tombstones != entries/2 {
		t.Errorf("%d entries and %d tombstones are left, %v", left, tombstones, err)
	}
	t.Logf("killed %d times while it ran", during)
}
