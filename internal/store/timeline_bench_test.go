package store_test

import (
	"fmt"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/engine/postgres"
	"atrium/internal/store/engine/postgrestest"
	"atrium/internal/store/engine/sqlite"
)

// BenchmarkTimeline measures a page of a timeline and its counts by the number of entries of the
// account. A page of 50 entries should take as long among 50,000 entries as among 500. Counts
// and a search of all accounts read at most 10,000 entries.
func BenchmarkTimeline(b *testing.B) {
	onEngines(b, func(b *testing.B, s *store.Store, tenant atrium.TenantID) {
		for _, entries := range []int{500, 50_000} {
			account := fill(b, s, tenant, entries, func(int) string { return fmt.Sprintf("d%d.example", entries) })
			b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) { readTimeline(b, s, tenant, account) })
		}
	})
}

// BenchmarkMostActive measures how long the most active accounts take to find among as many entries as are read, by
// the number of accounts that have them.
func BenchmarkMostActive(b *testing.B) {
	for _, accounts := range []int{100, atrium.MaxMostActiveEntries} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			onEngines(b, func(b *testing.B, s *store.Store, tenant atrium.TenantID) {
				fill(b, s, tenant, atrium.MaxMostActiveEntries, func(n int) string { return fmt.Sprintf("a%d.example", n*7919%accounts) })
				q := atrium.MostActiveQuery{Since: atrium.At(time.Now().Add(-time.Hour)), MaxAccounts: 20, MaxEntries: atrium.MaxMostActiveEntries}
				for b.Loop() {
					found, err := s.MostActiveAccounts(b.Context(), tenant, q, func(int) error { return nil })
					if err != nil || found.Entries != atrium.MaxMostActiveEntries || len(found.Accounts) != 20 {
						b.Fatal(found.Entries, len(found.Accounts), err)
					}
				}
			})
		})
	}
}

// onEngines runs a benchmark on a new database of each engine.
func onEngines(b *testing.B, run func(*testing.B, *store.Store, atrium.TenantID)) {
	b.Helper()
	for _, kind := range []struct {
		name string
		open func(b *testing.B) engine.DB
	}{
		{"sqlite", func(b *testing.B) engine.DB {
			b.Helper()
			db, err := sqlite.Open(b.TempDir()+"/bench.db", sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			return db
		}},
		{"postgres", func(b *testing.B) engine.DB {
			b.Helper()
			db, err := postgres.Open(b.Context(), postgrestest.Shared(b).NewDatabase(b), postgres.Options{})
			if err != nil {
				b.Fatal(err)
			}
			return db
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			db := kind.open(b)
			s := store.New(db, time.Now)
			b.Cleanup(func() { _ = s.Close() })
			if _, err := s.Migrate(b.Context()); err != nil {
				b.Fatal(err)
			}
			tenant, _, err := s.CreateTenant(b.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
			if err != nil {
				b.Fatal(err)
			}
			run(b, s, tenant.ID)
		})
	}
}

func readTimeline(b *testing.B, s *store.Store, tenant atrium.TenantID, account atrium.AccountID) {
	b.Helper()
	for name, read := range map[string]func() (int, error){
		"page": func() (int, error) {
			found, _, err := s.Timeline(b.Context(), tenant, account, atrium.TimelineFilter{}, nil, 50, false)
			return len(found), err
		},
		"payloads": func() (int, error) {
			found, _, err := s.Timeline(b.Context(), tenant, account, atrium.TimelineFilter{}, nil, 50, true)
			return len(found), err
		},
		"filter": func() (int, error) { // that matches no entry
			_, _, err := s.Timeline(b.Context(), tenant, account, atrium.TimelineFilter{Source: "none"}, nil, 50, false)
			return 50, err
		},
		"find": func() (int, error) {
			found, _, err := s.FindEntries(b.Context(), tenant, atrium.EntryFilter{}, nil, 50, false)
			return len(found), err
		},
		"find, filter": func() (int, error) { // that matches no entry
			_, _, err := s.FindEntries(b.Context(), tenant, atrium.EntryFilter{ClaimedDomain: "none.example"}, nil, 50, false)
			return 50, err
		},
		"counts": func() (int, error) {
			_, _, err := s.Counts(b.Context(), tenant, account, atrium.TimelineFilter{}, nil, 100)
			return 50, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := read(); err != nil || n != 50 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// fill records entries with payloads of about a kilobyte, and returns the account of the last.
func fill(b *testing.B, s *store.Store, tenant atrium.TenantID, entries int, domain func(n int) string) (account atrium.AccountID) {
	b.Helper()
	text := make([]byte, 1000)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	for n := 0; n < entries; {
		var drafts []*atrium.Draft
		for ; len(drafts) < 250 && n < entries; n++ {
			d, err := canonical.Draft(tenant, atrium.Submission{
				Source: []string{"crm", "ads", "mail"}[n%3], Type: atrium.DefaultType, Claim: atrium.Claim{Domain: domain(n)},
				Payload: fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, text),
			})
			if err != nil {
				b.Fatal(err)
			}
			d.ID = atrium.NewID[atrium.EntryID]()
			drafts = append(drafts, d)
		}
		outcomes, err := s.Append(b.Context(), drafts)
		if err != nil {
			b.Fatal(err)
		}
		account = outcomes[0].AccountID
	}
	return account
}
