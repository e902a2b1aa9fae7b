package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine/sqlite"
)

// A content is the data of a tenant in a database.
type content struct {
	accounts map[atrium.AccountID]*atrium.Account
	entries  []*atrium.Entry
	events   map[atrium.EntryID]int // number of events that report the entry; nil if the tenant has no events
}

// readFile checks the integrity of a closed database file, and returns its content.
func readFile(ctx context.Context, path string, tenants []*tenant) (all map[*tenant]*content, err error) {
	db, err := sqlite.Open(path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return readStore(ctx, store.New(db, time.Now), tenants)
}

// readStore is readFile for a store, which it closes.
func readStore(ctx context.Context, s *store.Store, tenants []*tenant) (all map[*tenant]*content, err error) {
	defer func() { _ = s.Close() }()
	all, err = export(ctx, s, tenants)
	for t, c := range all {
		if c.events, err = readEvents(ctx, s, t.id); err != nil {
			return nil, err
		}
	}
	return all, err
}

// export is readStore without events. It changes nothing in the store.
func export(ctx context.Context, s *store.Store, tenants []*tenant) (all map[*tenant]*content, err error) {
	if found, err := s.Check(ctx, true); err != nil || len(found) > 0 {
		return nil, fmt.Errorf("integrity: %v, %w", found, err)
	}
	all = map[*tenant]*content{}
	for _, t := range tenants {
		c := &content{accounts: map[atrium.AccountID]*atrium.Account{}}
		all[t] = c
		err := s.Export(ctx, t.id, func(r store.Record) error {
			switch r := r.(type) {
			case *atrium.Account:
				c.accounts[r.ID] = r
			case *atrium.Entry:
				c.entries = append(c.entries, r)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
	}
	return all, nil
}

// readEvents counts the events of a tenant by the entries that they report. It first gives positions to those
// without one. It returns nil if the tenant has no events, and an error if positions are not consecutive. Those of a restored database
// continue at the start of a later epoch.
func readEvents(ctx context.Context, s *store.Store, tenant atrium.TenantID) (all map[atrium.EntryID]int, err error) {
	if settings, err := s.EventSettings(ctx, tenant); err != nil || !settings.Enabled {
		return nil, err
	}
	for more := true; more; {
		if more, err = s.SequenceEvents(ctx, tenant); err != nil {
			return nil, fmt.Errorf("sequence events: %w", err)
		}
	}
	all = map[atrium.EntryID]int{}
	for after := int64(0); ; {
		some, err := s.Events(ctx, tenant, after, atrium.MaxEventPage)
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		if len(some) == 0 {
			return all, nil
		}
		for i := range some {
			last := after
			if after = some[i].Position; after != last+1 && (after < last || after != atrium.EpochStart(after)) {
				return nil, fmt.Errorf("the event after position %d has position %d", last, after)
			}
			if some[i].Type == atrium.EventEntryCreated && !some[i].Erased {
				all[some[i].EntryID]++
			}
		}
	}
}

// readCopy is readFile for a copy, so that the next server recovers the original.
func readCopy(t *testing.T, path string, tenants []*tenant) map[*tenant]*content {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "copy-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, end := range []string{"", "-wal"} {
		if err := copyFile(filepath.Join(dir, "copy.db"+end), path+end); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readFile(t.Context(), filepath.Join(dir, "copy.db"), tenants)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// copyFile copies a file if it exists.
func copyFile(to, from string) error {
	src, err := os.Open(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Close()
}

// A verdict is the result of an audit.
type verdict struct {
	lost, doubled int
	faults        []string // including those two
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// report fails the test for a verdict with faults, and prints the first few.
func (v *verdict) report(t *testing.T) {
	t.Helper()
	for i, f := range v.faults {
		if i == 10 {
			t.Errorf("and %d more", len(v.faults)-i)
			break
		}
		t.Error(f)
	}
}

// audit compares the stored data with everything acknowledged before a tick. forever means
// that no requests are in flight.
func (l *ledger) audit(stored map[*tenant]*content, before int64) *verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &verdict{}
	found := map[string][]*atrium.Entry{} // by tenant and marker
	for t, c := range stored {
		c.check(v)
		for _, e := range c.entries {
			var payload struct {
				Marker string `json:"marker"`
			}
			if err := json.Unmarshal(e.Payload, &payload); err != nil {
				v.fault("payload of %s: %v", e.ID, err)
			}
			key := string(t.id) + payload.Marker
			found[key] = append(found[key], e)
		}
		for id, a := range c.accounts {
			l.auditName(v, a, l.renames[id], before)
		}
	}
	for _, p := range l.postings {
		key := string(p.tenant.id) + p.marker
		l.auditPosting(v, p, found[key], stored[p.tenant], before)
		delete(found, key)
	}
	for _, entries := range found {
		v.fault("nobody sent %s: %s", entries[0].ID, entries[0].Payload)
	}
	return v
}

// check looks for violations of invariants within a tenant.
func (c *content) check(v *verdict) {
	keys, ids := map[string]bool{}, map[atrium.EntryID]bool{}
	newest := map[atrium.AccountID]atrium.Time{}
	for _, e := range c.entries {
		if ids[e.ID] || e.IdempotencyKey != "" && keys[e.IdempotencyKey] {
			v.fault("entry %s or its key %q is there twice", e.ID, e.IdempotencyKey)
		}
		ids[e.ID], keys[e.IdempotencyKey] = true, true
		if c.accounts[e.AccountID] == nil {
			v.fault("entry %s has no account", e.ID)
		}
		newest[e.AccountID] = max(newest[e.AccountID], e.CreatedAt)
		if n := c.events[e.ID]; c.events != nil && n != 1 {
			v.fault("%d events report entry %s", n, e.ID)
		}
	}
	for id := range c.events {
		if !ids[id] {
			v.fault("an event reports entry %s, which does not exist", id)
		}
	}
	domains := map[string]bool{}
	for id, a := range c.accounts {
		if domains[a.Domain] {
			v.fault("domain %s has two accounts", a.Domain)
		}
		domains[a.Domain] = true
		if a.LatestActivityAt == nil || *a.LatestActivityAt != newest[id] {
			v.fault("account %s was last active at %v, its newest entry is of %s", id, a.LatestActivityAt, newest[id])
		}
	}
}

func (l *ledger) auditPosting(v *verdict, p *posting, found []*atrium.Entry, in *content, before int64) {
	switch n := len(found); {
	case n > 1:
		v.doubled++
		v.fault("%s is there %d times", p.marker, n)
	case n == 0 && p.ackedAt < before:
		v.lost++
		v.fault("%s was acknowledged as %s and is lost", p.marker, p.receipt.EntryID)
	case n == 1 && p.response == nil && p.unknown == 0 && before == forever:
		v.fault("%s was refused and is there", p.marker)
	case p.fresh > 1 || p.fresh == 0 && p.response != nil && p.unknown == 0 && before == forever:
		v.fault("%s has %d first responses", p.marker, p.fresh)
	}
	for _, e := range found {
		if string(e.Payload) != p.data || e.Claim != p.claim || e.IdempotencyKey != p.key || e.Source != p.source {
			v.fault("%s is not stored as it was sent: %+v", p.marker, e)
		}
		if p.response != nil && p.receipt != (receipt{e.AccountID, e.ID, e.CreatedAt.String(), e.Source, e.Type}) {
			v.fault("%s was acknowledged as %+v and stored as %+v", p.marker, p.receipt, e)
		}
		a := in.accounts[e.AccountID]
		if p.claim.AccountID != "" && a.ID != p.claim.AccountID || p.domain != "" && a.Domain != p.domain {
			v.fault("%s went to the account of %s", p.marker, a.Domain)
		}
	}
}

// auditName checks that an account has the name of an acknowledged rename, or of one that
// may have come after it.
func (l *ledger) auditName(v *verdict, a *atrium.Account, renames []*rename, before int64) {
	var given *rename
	for _, r := range renames {
		if r.name == a.Name {
			given = r
		}
	}
	if given == nil && strings.HasPrefix(a.Name, "Renamed") {
		v.fault("nobody gave %s the name %q", a.ID, a.Name)
	}
	if given != nil && given.status == http.StatusServiceUnavailable && before == forever {
		v.fault("the name %q was refused and is there", a.Name)
	}
	for _, r := range renames {
		if r.status == http.StatusOK && r.end < before && (given == nil || r.start > given.end) {
			v.fault("%s has the name %q, and was later given %q", a.ID, a.Name, r.name)
		}
	}
}
