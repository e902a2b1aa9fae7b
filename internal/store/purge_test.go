package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// A fragmentedDB is a database file whose pages were split and merged by random writes of two
// kinds of texts: those with erasedMark and those with keptMark.
type fragmentedDB struct {
	*store.Store
	path      string
	tenant    atrium.TenantID
	random    *rand.Rand
	accounts  map[string][]atrium.AccountID
	prospects map[string][]atrium.ProspectID
}

const (
	erasedMark = "zqerased"
	keptMark   = "zqretained"
)

func newFragmentedDB(t *testing.T) *fragmentedDB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := store.Open(t.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // the test has closed it
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	c := &fragmentedDB{
		Store: s, path: path, tenant: tenant.ID, random: rand.New(rand.NewPCG(1, 2)),
		accounts: map[string][]atrium.AccountID{}, prospects: map[string][]atrium.ProspectID{},
	}
	for range 6 {
		c.add(t, 50)
		c.change(t)
	}
	return c
}

// text returns a random text that repeats a mark.
func (c *fragmentedDB) text(mark string, shortest, longest int) string {
	var b strings.Builder
	for n := shortest + c.random.IntN(longest-shortest+1); b.Len() < n; {
		fmt.Fprintf(&b, "%s%04x ", mark, c.random.IntN(1<<16))
	}
	return strings.TrimSpace(b.String())
}

func (c *fragmentedDB) id() string {
	var b strings.Builder
	for range atrium.SuffixLen {
		b.WriteByte("0123456789abcdefghijklmnopqrstuvwxyz"[c.random.IntN(36)])
	}
	return b.String()
}

// add imports accounts and prospects with random identifiers, and appends entries to all
// accounts.
func (c *fragmentedDB) add(t *testing.T, n int) {
	t.Helper()
	var chunk []store.Import
	for i := range n {
		mark := []string{erasedMark, keptMark}[i%2]
		a := &atrium.Account{
			ID: atrium.AccountID(atrium.AccountID("").Prefix() + c.id()), Domain: mark + c.id() + ".example", Name: c.text(mark, 20, 200),
		}
		if c.random.IntN(10) == 0 {
			a.Domain += c.text(mark, 2_000, 20_000) // in its own row of long_domains
		}
		p := &atrium.LinkedProspect{Prospect: atrium.Prospect{
			ID:   atrium.ProspectID(atrium.ProspectID("").Prefix() + c.id()),
			Name: new(c.text(mark, 20, 200)), Email: new(mark + c.id() + "@" + mark + ".example"), PhoneNumber: new("+1 " + mark + c.id()),
			LinkedinProfileURL: new("https://linkedin.example/" + mark + c.id()),
		}, AccountIDs: []atrium.AccountID{a.ID}}
		c.accounts[mark], c.prospects[mark] = append(c.accounts[mark], a.ID), append(c.prospects[mark], p.ID)
		chunk = append(chunk, store.Import{Record: a}, store.Import{Record: p})
	}
	if _, err := c.Import(t.Context(), atrium.CommandLine(c.tenant), chunk); err != nil {
		t.Fatal(err)
	}
	var drafts []*atrium.Draft
	for mark, accounts := range c.accounts {
		for _, id := range accounts {
			longest := 300
			if c.random.IntN(10) == 0 {
				longest = 20_000 // on overflow pages
			}
			d, err := canonical.Draft(c.tenant, atrium.Submission{
				Source: "crm", Type: "page.viewed", IdempotencyKey: mark + c.id(), Payload: []byte(`{"text":"` + c.text(mark, 10, longest) + `"}`),
				Claim: atrium.Claim{AccountID: id, Domain: mark + "claimed.example", Name: c.text(mark, 10, 100)},
			})
			if err != nil {
				t.Fatal(err)
			}
			d.ID = atrium.EntryID(atrium.EntryID("").Prefix() + c.id())
			drafts = append(drafts, d)
		}
	}
	c.random.Shuffle(len(drafts), func(i, j int) { drafts[i], drafts[j] = drafts[j], drafts[i] })
	for len(drafts) > 0 {
		some := drafts[:min(100, len(drafts))]
		drafts = drafts[len(some):]
		if _, err := c.Append(t.Context(), some); err != nil {
			t.Fatal(err)
		}
	}
}

// change updates accounts and prospects with texts of other lengths.
func (c *fragmentedDB) change(t *testing.T) {
	t.Helper()
	for mark := range c.accounts {
		for range 20 {
			account, prospect := c.accounts[mark][c.random.IntN(len(c.accounts[mark]))], c.prospects[mark][c.random.IntN(len(c.prospects[mark]))]
			if _, err := c.UpdateAccount(t.Context(), atrium.CommandLine(c.tenant), account, atrium.AccountUpdate{Name: new(c.text(mark, 20, 400))},
				func(atrium.AccountDetail) error { return nil }); err != nil {
				t.Fatal(err)
			}
			change := atrium.CommandLine(c.tenant)
			change.IdempotencyKey, change.Fingerprint = c.id(), []byte("f")
			p, _, err := c.CreateProspect(t.Context(), change, atrium.Prospect{Name: new(c.text(mark, 20, 900))})
			if err != nil {
				t.Fatal(err)
			}
			c.prospects[mark] = append(c.prospects[mark], p.ID)
			if _, err := c.UpdateProspect(t.Context(), atrium.CommandLine(c.tenant), prospect, func(p *atrium.Prospect) { p.Name = new(c.text(mark, 20, 900)) },
				func(atrium.LinkedProspect) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// erase erases everything that contains erasedMark, and returns when the erasures are complete.
// It sends many requests at once: requests that wait share the next purge of the file.
func (c *fragmentedDB) erase(t *testing.T) {
	t.Helper()
	var requests errgroup.Group
	requests.SetLimit(50)
	for _, id := range c.prospects[erasedMark] {
		requests.Go(func() error {
			_, err := c.DeleteProspect(t.Context(), atrium.CommandLine(c.tenant), id, func(atrium.LinkedProspect) error { return nil })
			return err
		})
	}
	for _, id := range c.accounts[erasedMark] {
		requests.Go(func() error {
			_, err := c.EraseAccount(t.Context(), atrium.CommandLine(c.tenant), id, func(atrium.AccountDetail) error { return nil })
			return err
		})
	}
	if err := requests.Wait(); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = c.ContinueErasures(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// countMark returns how often each file contains a mark, in any case.
func countMark(mark string, files map[string][]byte) map[string]int {
	counts := map[string]int{}
	for name, b := range files {
		counts[name] = bytes.Count(bytes.ToLower(b), []byte(mark))
	}
	return counts
}

// files returns the content of the database file, of its WAL if there is one, and of a copy as in
// a backup.
func (c *fragmentedDB) files(t *testing.T, withCopy bool) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(c.path + end)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		files[end] = b
	}
	if withCopy {
		var b bytes.Buffer
		if err := c.WriteBackup(t.Context(), &b, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		files["copy"] = b.Bytes()
	}
	return files
}

func TestErasedTextIsNotInTheDatabaseFile(t *testing.T) {
	c := newFragmentedDB(t)
	if n := countMark(erasedMark, c.files(t, true)); n["copy"] == 0 {
		t.Fatalf("before the erasure: %v", n)
	}
	c.erase(t)
	for name, n := range countMark(erasedMark, c.files(t, true)) {
		if n > 0 {
			t.Errorf("%d times in %q", n, name)
		}
	}
	kept := 0
	if err := c.Export(t.Context(), c.tenant, func(r store.Record) error {
		switch r := r.(type) {
		case *atrium.Account:
			kept++
		case *atrium.Entry:
			if !strings.Contains(string(r.Payload), keptMark) {
				t.Errorf("an entry has the payload %.50s", r.Payload)
			}
		}
		return nil
	}); err != nil || kept != len(c.accounts[keptMark]) {
		t.Errorf("%d accounts of %d are kept, %v", kept, len(c.accounts[keptMark]), err)
	}
	if found, err := c.Check(t.Context(), true); err != nil || len(found) > 0 {
		t.Errorf("check: %v, %v", found, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for name, n := range countMark(erasedMark, c.files(t, false)) {
		if n > 0 {
			t.Errorf("%d times in %q after a clean stop", n, name)
		}
	}
}
