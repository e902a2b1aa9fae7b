package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// BenchmarkAppend measures the cost of a commit by how many entries it has, on a file, without and
// with events. The entries go to random ones of 10,000 accounts.
func BenchmarkAppend(b *testing.B) {
	const accounts = 10_000
	s, err := store.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "bench.db"), store.Options{})
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
	numbered := 0
	appendTo := func(account func() int, entries int) {
		drafts := make([]*atrium.Draft, entries)
		for i := range drafts {
			numbered++
			d, err := canonical.Draft(tenant.ID, atrium.Submission{
				Source: "bench", Type: "page.viewed", IdempotencyKey: fmt.Sprintf("%016x", numbered), Payload: payload,
				Claim: atrium.Claim{Domain: fmt.Sprintf("company-%d.example", account())},
			})
			if err != nil {
				b.Fatal(err)
			}
			d.ID = atrium.NewID[atrium.EntryID]()
			drafts[i] = d
		}
		if _, err := s.Append(b.Context(), drafts); err != nil {
			b.Fatal(err)
		}
	}
	made := 0
	for made < accounts {
		appendTo(func() int { made++; return made - 1 }, 250)
	}
	for range 200 {
		appendTo(func() int { return rand.IntN(accounts) }, 250)
	}
	run := func(name string, entries int) {
		b.Run(fmt.Sprintf(name, entries), func(b *testing.B) {
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				appendTo(func() int { return rand.IntN(accounts) }, entries)
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			all := float64(b.N * entries)
			b.ReportMetric(float64(b.Elapsed().Microseconds())/all, "µs/entry")
			b.ReportMetric(float64(cpu.Microseconds())/all, "cpu-µs/entry")
		})
	}
	for _, entries := range []int{1, 8, 24, 48} {
		run("entries=%d", entries)
	}
	if _, err := s.SetEventSettings(b.Context(), atrium.CommandLine(tenant.ID), true, func(atrium.EventSettings) error { return nil }); err != nil {
		b.Fatal(err)
	}
	for _, entries := range []int{1, 24} {
		run("events/entries=%d", entries)
	}
}
