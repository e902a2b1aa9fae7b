package store_test

import (
	"fmt"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/jsonshape"
	"atrium/internal/store"
	"atrium/internal/store/engine/sqlite"
)

// BenchmarkTimelineSizes reads pages of entries with payloads of several sizes, on SQLite. MB/s
// is the throughput of the payloads: it should not drop for large ones.
func BenchmarkTimelineSizes(b *testing.B) {
	db, err := sqlite.Open(b.TempDir()+"/bench.db", sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	s := store.New(db, time.Now)
	b.Cleanup(func() { _ = s.Close() })
	if _, err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(b.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range jsonshape.Sizes {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			account := fillShaped(b, s, tenant.ID, size)
			b.ReportAllocs()
			for b.Loop() {
				found, _, err := s.Timeline(b.Context(), tenant.ID, account, atrium.TimelineFilter{}, nil, 100, true)
				if err != nil || len(found) == 0 {
					b.Fatal(len(found), err)
				}
				b.SetBytes(int64(len(found) * size))
			}
		})
	}
}

// fillShaped records 100 entries with payloads of a size in one account.
func fillShaped(b *testing.B, s *store.Store, tenant atrium.TenantID, size int) atrium.AccountID {
	b.Helper()
	payload := jsonshape.LongNumbers(size)
	var account atrium.AccountID
	for range 100 {
		d, err := canonical.Draft(tenant, atrium.Submission{
			Source: "crm", Type: atrium.DefaultType, Claim: atrium.Claim{Domain: fmt.Sprintf("d%d.example", size)}, Payload: payload,
		})
		if err != nil {
			b.Fatal(err)
		}
		d.ID = atrium.NewID[atrium.EntryID]()
		outcomes, err := s.Append(b.Context(), []*atrium.Draft{d})
		if err != nil {
			b.Fatal(err)
		}
		account = outcomes[0].AccountID
	}
	return account
}
