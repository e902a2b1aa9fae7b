package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"atrium"
	"atrium/internal/store"
	"atrium/internal/store/engine/sqlite"
)

// BenchmarkReads measures the reads of the external API on a file with the data of bench/http:
// 10,000 accounts with three prospects each, 1,000 pages, and an audience with 1,000 versions.
// cpu-µs/op is the CPU time of the process per operation, including garbage collection: wall time
// says little on a machine with few cores.
func BenchmarkReads(b *testing.B) {
	path := b.TempDir() + "/bench.db"
	open := func() *store.Store {
		db, err := sqlite.Open(path, sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return store.New(db, time.Now)
	}
	s := open()
	if _, err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	tenant, _, err := s.CreateTenant(b.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		b.Fatal(err)
	}
	fillReads(b, s, tenant.ID)
	if err := s.Close(); err != nil { // which empties the WAL
		b.Fatal(err)
	}
	s = open()
	b.Cleanup(func() { _ = s.Close() })
	for _, read := range []struct {
		name string
		do   func(ctx context.Context, n int) error
	}{
		{"account", func(ctx context.Context, n int) error {
			_, linked, err := s.Account(ctx, tenant.ID, numbered[atrium.AccountID](n*7919%readAccounts))
			return want(err, len(linked), 3)
		}},
		{"page", func(ctx context.Context, _ int) error {
			_, err := s.Page(ctx, tenant.ID, numbered[atrium.PageID](0))
			return err
		}},
		{"pages", func(ctx context.Context, _ int) error {
			found, _, err := s.Pages(ctx, tenant.ID, "", nil, 20)
			return want(err, len(found), 20)
		}},
		{"versions", func(ctx context.Context, _ int) error {
			found, _, err := s.Versions(ctx, tenant.ID, numbered[atrium.PageID](0), numbered[atrium.AudienceID](0), 0, 20)
			return want(err, len(found), 20)
		}},
	} {
		for _, readers := range []int{1, 2, 8} {
			b.Run(fmt.Sprintf("%s/readers=%d", read.name, readers), func(b *testing.B) { readAtOnce(b, readers, read.do) })
		}
	}
}

const readAccounts = 10_000

func numbered[T atrium.Identifier](n int) T {
	var id T
	return T(fmt.Sprintf("%s%026d", id.Prefix(), n))
}

func want(err error, got, want int) error {
	if err == nil && got != want {
		err = fmt.Errorf("found %d, want %d", got, want)
	}
	return err
}

// readAtOnce reads from several goroutines.
func readAtOnce(b *testing.B, readers int, read func(ctx context.Context, n int) error) {
	b.Helper()
	b.ReportAllocs()
	var next atomic.Int64
	var wg sync.WaitGroup
	before := cpuTime(b)
	b.ResetTimer()
	for range readers {
		wg.Go(func() {
			for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
				if err := read(b.Context(), n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func fillReads(b *testing.B, s *store.Store, tenant atrium.TenantID) {
	b.Helper()
	var chunk []store.Import
	flush := func() {
		if _, err := s.Import(b.Context(), atrium.CommandLine(tenant), chunk); err != nil {
			b.Fatal(err)
		}
		chunk = nil
	}
	add := func(r store.Record, created bool) {
		if chunk = append(chunk, store.Import{Record: r, Created: created}); len(chunk) == 1000 {
			flush()
		}
	}
	domain := func(n int) string { return fmt.Sprintf("company-%d.example", n) }
	for n := range readAccounts {
		add(&atrium.Account{ID: numbered[atrium.AccountID](n), Domain: domain(n), Name: fmt.Sprintf("Example %d", n)}, false)
	}
	for n := range 3 * readAccounts {
		text := func(format string, args ...any) *string { return new(fmt.Sprintf(format, args...)) }
		add(&atrium.LinkedProspect{Prospect: atrium.Prospect{
			ID: numbered[atrium.ProspectID](n), Name: text("Person %d", n), Email: text("person%d@%s", n, domain(n/3)), Domain: text("%s", domain(n/3)),
			Slug: text("person-%d", n), PhoneNumber: text("+15555550100"), LinkedinProfileURL: text("https://linkedin.example/in/person-%d", n),
		}, AccountIDs: []atrium.AccountID{numbered[atrium.AccountID](n / 3)}}, false)
	}
	const action = `{"actionId":"action_1","actionIndex":0,"purpose":"primary","buttonTitle":"Book a call","actionType":"link","url":"https://example.com/call"}`
	for n := range 1000 {
		add(&atrium.Page{
			ID: numbered[atrium.PageID](n), BrandID: "brand_1", Name: fmt.Sprintf("Page %d", n), Context: strings.Repeat("context ", 20),
			Title: "A page", Status: []atrium.PageStatus{"published", "draft", "archived"}[n%3], CreatedAt: atrium.Time(1e15 + n*1e6),
			Actions: []byte("[" + action + "," + action + "]"), Scripts: []byte("[]"), Metadata: []byte(`{"campaign":"spring"}`),
			FooterLinks: []byte(`[{"id":"company","title":"Company","links":[{"id":"about","text":"About us","url":"https://example.com/about"}]}]`),
		}, true)
	}
	add(&atrium.Audience{ID: numbered[atrium.AudienceID](0), PageID: numbered[atrium.PageID](0), Name: "All"}, false)
	for n := range 1000 {
		add(&atrium.AudienceVersion{Version: atrium.Version{
			ID: numbered[atrium.VersionID](n), AudienceID: numbered[atrium.AudienceID](0), Content: fmt.Appendf(nil, `{"n":%d}`, n),
		}}, false)
	}
	flush()
}
