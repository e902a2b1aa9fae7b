package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
)

// A killed import has stored a prefix of the lines, each once, and repeating the import
// adds the rest.
func TestKilledImportCanBeRepeated(t *testing.T) {
	const accounts, entries = 100, 4000
	var lines bytes.Buffer
	for n := range accounts {
		fmt.Fprintf(&lines, `{"kind":"account","accountId":"account_%026d","domain":"company-%d.example"}`+"\n", n, n)
	}
	for n := range entries {
		fmt.Fprintf(&lines, `{"kind":"accountLog","accountLogId":"prospectlog_%026d","accountId":"account_%026d","source":"crm","payload":{"n":%d},"idempotencyKey":"n-%d"}`+"\n",
			n, n%accounts, n, n)
	}
	file := filepath.Join(t.TempDir(), "data.ndjson")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng, db := random(t), newDatabase(t)
			args := []string{"import", "--tenant", string(db.tenants[0].id), "--database", db.url, file}
			var after []int
			for range 4 {
				s := command(t, args...)
				time.Sleep(time.Duration(rng.IntN(int(600 * time.Millisecond))))
				s.kill()
				if name == "postgres" {
					db.waitForNobody(t)
				}
				stored := db.imported(t)
				for n := range len(stored) {
					if !stored[atrium.EntryID(fmt.Sprintf("prospectlog_%026d", n))] {
						t.Fatalf("%d entries are stored, and not the one of line %d", len(stored), accounts+n+1)
					}
				}
				after = append(after, len(stored))
			}
			s := command(t, args...)
			select {
			case <-s.done:
			case <-time.After(startLimit):
				t.Fatal("the import does not end")
			}
			if !s.cmd.ProcessState.Success() {
				t.Fatalf("the import failed: %s", s.log)
			}
			if n := len(db.imported(t)); n != entries {
				t.Errorf("%d entries, want %d", n, entries)
			}
			t.Logf("entries after each kill: %v of %d", after, entries)
		})
	}
}

// imported returns the entries of the first tenant, and checks that none is duplicated.
func (db *database) imported(t *testing.T) map[atrium.EntryID]bool {
	t.Helper()
	s, err := store.Open(t.Context(), db.url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	all := map[atrium.EntryID]bool{}
	if err := s.Export(t.Context(), db.tenants[0].id, func(r store.Record) error {
		if e, ok := r.(*atrium.Entry); ok {
			if all[e.ID] {
				t.Errorf("%s is duplicated", e.ID)
			}
			all[e.ID] = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// Two servers that start at once on one new file create one database. Both work at the
// same time, and each acknowledged entry exists once.
func TestTwoServersStartConcurrentlyOnOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "atrium.db")
	first, second := launch(t, "sqlite:"+path), launch(t, "sqlite:"+path)
	first.listening()
	second.listening()
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tenants := createTenants(t, s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clients, l := newClients(t, random(t), 8, tenants)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits []func()
	for i, s := range []*server{first, second} {
		waits = append(waits, each(clients[i*4:(i+1)*4], s.base, func(c *client) { c.persist(ctx) }))
	}
	waitUntil(t, "both record entries", startLimit, func() bool { return l.acks() > 200 })
	cancel()
	for _, wait := range waits {
		wait()
	}
	settle(clients, second.base)
	for _, s := range []*server{first, second} {
		s.signalAndWait()
		s.checkRefusals()
	}
	l.ended()
	l.audit(readCopy(t, path, tenants), forever).report(t)
	t.Logf("sent %d, acknowledged %d, refused %d", l.figures.sent, l.figures.acknowledged, l.figures.refused)
	if n := strings.Count(first.log.String()+second.log.String(), `msg="migrated the database"`); n == 0 {
		t.Error("no server migrated the database")
	}
}
