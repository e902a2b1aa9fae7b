package crash

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

// Helpers of the tests of jobs that continue after a kill. Their databases are SQLite files.

// withStore calls f with the store at a URL.
func withStore(t *testing.T, url string, f func(*store.Store)) {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(s)
}

// importEntries imports an account with n entries, each with a text that is repeated in its payload.
func importEntries(t *testing.T, s *store.Store, tenant atrium.TenantID, domain string, n int, text func(i int) string) atrium.AccountID {
	t.Helper()
	account := &atrium.Account{ID: atrium.NewID[atrium.AccountID](), Domain: domain}
	chunk := []store.Import{{Record: account}}
	for i := range n {
		chunk = append(chunk, store.Import{Record: &atrium.Entry{AccountID: account.ID, Submission: atrium.Submission{
			Source: "crm", Type: atrium.DefaultType, Payload: []byte(`{"to":"` + text(i) + `","text":"` + strings.Repeat(text(i), 20) + `"}`),
		}}})
		if len(chunk) == 1000 || i == n-1 {
			if _, err := s.Import(t.Context(), atrium.CommandLine(tenant), chunk); err != nil {
				t.Fatal(err)
			}
			chunk = nil
		}
	}
	return account.ID
}

// countMarks returns how many times a mark is in the files of a database.
func countMarks(t *testing.T, url, mark string) (n int) {
	t.Helper()
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(strings.TrimPrefix(url, "sqlite:") + end)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte(mark))
	}
	return n
}

// killUntilComplete starts and kills servers until a job of the database is complete. progress returns
// how many entries the job has deleted, and whether it is complete. It fails the test unless a server
// was killed after the job had made progress and before it was complete.
func killUntilComplete(t *testing.T, url string, progress func(*store.Store) (deleted int64, complete bool)) {
	t.Helper()
	rng := random(t)
	during, last := 0, int64(0) // kills during the job
	deadline := time.Now().Add(4 * time.Minute)
	limit := 30 * time.Millisecond // longer each time, so that the job completes on any machine
	for killed := 0; ; killed++ {
		server := start(t, url)
		time.Sleep(limit/2 + time.Duration(rng.Int64N(int64(limit))))
		limit += limit / 5
		server.kill()
		server.checkLog()
		var deleted int64
		var complete bool
		withStore(t, url, func(s *store.Store) { deleted, complete = progress(s) })
		if complete {
			break
		}
		if deleted < last {
			t.Errorf("%d entries are counted after %d", deleted, last)
		}
		if last = deleted; deleted > 0 {
			during++
		}
		if time.Now().After(deadline) {
			t.Fatalf("not complete after %d kills: %d entries are deleted", killed+1, deleted)
		}
	}
	if during == 0 {
		t.Error("the job is too fast for this test: no server was killed during it")
	}
	t.Logf("killed %d times during the job", during)
}
