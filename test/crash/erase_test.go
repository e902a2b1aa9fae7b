package crash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

// The next server completes an erasure that a killed one began. Once the erasure is
// reported as complete, the erased data is gone from the database files.
func TestKilledErasureIsCompletedAtTheNextStart(t *testing.T) {
	const mark = "erased-content"
	db, rng := newFile(t), random(t)
	tenant := db.tenants[0].id
	eraseMany(t, db.url, tenant, mark)

	// left copies the files that the killed server left. It returns whether the erasure is
	// pending, and how many times the mark is in the files.
	left := func() (pending bool, marks int) {
		t.Helper()
		copied := "sqlite:" + filepath.Join(t.TempDir(), "copy.db")
		for _, end := range []string{"", "-wal"} {
			b, err := os.ReadFile(strings.TrimPrefix(db.url, "sqlite:") + end)
			if os.IsNotExist(err) {
				continue
			}
			if err == nil {
				err = os.WriteFile(strings.TrimPrefix(copied, "sqlite:")+end, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		marks = countMarks(t, copied, mark)
		withStore(t, copied, func(s *store.Store) {
			var err error
			if pending, err = s.ContinueErasures(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		return pending, marks
	}
	if pending, marks := left(); !pending || marks == 0 {
		t.Fatalf("before the first start: pending %v, %d times in the files", pending, marks)
	}
	killed := 0
	for deadline := time.Now().Add(4 * time.Minute); ; killed++ {
		s := start(t, db.url)
		time.Sleep(time.Duration(rng.IntN((killed + 1) * int(400*time.Millisecond)))) // longer each time, so that the erasure completes on any machine
		s.kill()
		s.checkLog()
		pending, marks := left()
		if !pending {
			if marks > 0 {
				t.Errorf("reported as done, and %d times in the files", marks)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not done after %d kills", killed)
		}
	}
	t.Logf("killed %d times before it was done", killed)
}

// eraseMany erases an account with many entries that contain a mark. Most of them are
// deleted in the background.
func eraseMany(t *testing.T, url string, tenant atrium.TenantID, mark string) {
	t.Helper()
	withStore(t, url, func(s *store.Store) {
		account := importEntries(t, s, tenant, mark+".example", 20_000, func(int) string { return mark })
		if done, err := s.EraseAccount(t.Context(), atrium.CommandLine(tenant), account, func(atrium.AccountDetail) error { return nil }); err != nil || done {
			t.Fatalf("erase: done %v, %v", done, err)
		}
	})
}
