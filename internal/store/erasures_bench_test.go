package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// BenchmarkErase measures the time until the erasure of an account with 10 entries is complete,
// by how many entries the file has.
func BenchmarkErase(b *testing.B) {
	for _, entries := range []int{5_000, 100_000} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) { benchmarkErase(b, entries) })
	}
}

func benchmarkErase(b *testing.B, entries int) {
	path := filepath.Join(b.TempDir(), "bench.db")
	s, err := store.Open(b.Context(), "sqlite:"+path, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	if _, err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(b.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		b.Fatal(err)
	}
	payload, err := json.Marshal(map[string]string{"text": strings.Repeat("x", 1010)})
	if err != nil {
		b.Fatal(err)
	}
	appendTo := func(account func() int, n int) atrium.AccountID {
		drafts := make([]*atrium.Draft, n)
		for i := range drafts {
			d, err := canonical.Draft(tenant.ID, atrium.Submission{
				Source: "bench", Type: "page.viewed", Payload: payload, Claim: atrium.Claim{Domain: fmt.Sprintf("company-%d.example", account())},
			})
			if err != nil {
				b.Fatal(err)
			}
			d.ID = atrium.NewID[atrium.EntryID]()
			drafts[i] = d
		}
		outcomes, err := s.Append(b.Context(), drafts)
		if err != nil {
			b.Fatal(err)
		}
		return outcomes[0].AccountID
	}
	for range entries / 250 {
		appendTo(func() int { return rand.IntN(entries / 10) }, 250)
	}
	erase := func(id atrium.AccountID) {
		done, err := s.EraseAccount(b.Context(), atrium.CommandLine(tenant.ID), id, func(atrium.AccountDetail) error { return nil })
		for more := !done; err == nil && more; {
			more, err = s.ContinueErasures(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	next := entries
	erase(appendTo(func() int { return next }, 10)) // the first purge takes longer
	for b.Loop() {
		b.StopTimer()
		next++
		id := appendTo(func() int { return next }, 10)
		b.StartTimer()
		erase(id)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size()>>20), "MiB")
}
