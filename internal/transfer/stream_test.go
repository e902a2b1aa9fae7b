package transfer_test

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"atrium"
	"atrium/internal/transfer"
)

// A memorySampler samples the heap while bytes pass through it.
type memorySampler struct {
	passed, sampled int64
	most            uint64
}

func (w *memorySampler) pass(n int) {
	if w.passed += int64(n); w.passed-w.sampled < 2<<20 {
		return
	}
	w.sampled = w.passed
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.most = max(w.most, m.HeapAlloc)
}

// generator is a reader of an account's line, followed by lines of its entries with payloads of the
// given sizes.
type generator struct {
	memorySampler
	i     int
	sizes []int
	rest  string
}

func (g *generator) Read(p []byte) (int, error) {
	if g.rest == "" {
		switch g.i++; {
		case g.i == 1:
			g.rest = accountLine + "\n"
		case g.i-2 < len(g.sizes):
			g.rest = fmt.Sprintf(`{"kind":"accountLog","accountLogId":"prospectlog_%026d","accountId":"%s",`+
				`"source":"crm","payload":{"s":"%s"}}`+"\n", g.i, accountID, strings.Repeat("x", g.sizes[g.i-2]))
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	g.pass(n)
	return n, nil
}

type samplingWriter struct{ memorySampler }

func (w *samplingWriter) Write(p []byte) (int, error) {
	w.pass(len(p))
	return len(p), nil
}

func TestMemoryDoesNotGrowWithTheFile(t *testing.T) {
	p := newPlace(t)
	const passes = 39 << 20
	in := &generator{sizes: append(slices.Repeat([]int{10_000}, 1500), slices.Repeat([]int{1 << 20}, 25)...)}
	report, err := p.importFrom(t, in, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lines := len(in.sizes) + 1
	wantReport(t, report, lines, lines, 0)
	out := &samplingWriter{}
	if n, err := transfer.Export(t.Context(), p.Store, p.tenant, out); err != nil || n != lines {
		t.Fatalf("exported %d lines, %v", n, err)
	}
	for what, w := range map[string]memorySampler{"import": in.memorySampler, "export": out.memorySampler} {
		bound := uint64(32 << 20)
		if what == "export" {
			bound = 20 << 20
		}
		if w.passed < passes || w.most == 0 || w.most > bound {
			t.Errorf("the %s of %d MB took %d MB of memory, want at most %d", what, w.passed>>20, w.most>>20, bound>>20)
		}
	}
}

func TestAnExportDuringAppendsIsCompleteAndImportable(t *testing.T) {
	p := newPlace(t)
	var stop atomic.Bool
	var all sync.WaitGroup
	var n atomic.Int64
	appendOne := func() (atrium.EntryID, error) {
		i := n.Add(1)
		d := p.draft(t, atrium.Submission{
			Claim:          atrium.Claim{Domain: fmt.Sprintf("d%d.example", i%300), Name: fmt.Sprintf("Name %d", i%7)},
			IdempotencyKey: strconv.FormatInt(i, 10),
		})
		outcomes, err := p.Append(t.Context(), []*atrium.Draft{d})
		if err == nil {
			err = outcomes[0].Err
		}
		return d.ID, err
	}
	var before []atrium.EntryID
	for range 300 {
		id, err := appendOne()
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, id)
	}
	for range 2 {
		all.Go(func() {
			for !stop.Load() {
				if _, err := appendOne(); err != nil {
					t.Errorf("append during an export: %v", err)
					return
				}
			}
		})
	}
	for range 3 {
		file := p.export(t)
		for _, id := range before {
			if !strings.Contains(file, string(id)) {
				t.Errorf("the export lacks %s, which existed before it", id)
			}
		}
		other := p.empty(t)
		if report := other.put(t, strings.TrimSuffix(file, "\n")); report.Same != 0 {
			t.Errorf("the export has duplicates: %+v", report)
		}
		if again := other.export(t); again != file {
			t.Error("the export differs from the export of its import")
		}
	}
	stop.Store(true)
	all.Wait()
}

// Rows of CSV that are no lines become empty lines, without limit.
func TestEmptyLinesAllocateNothing(t *testing.T) {
	p := newPlace(t)
	const empty = 1 << 20
	in := strings.NewReader(strings.Repeat("\n", empty) + accountLine + "\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	report, err := p.importFrom(t, in, transfer.Options{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	wantReport(t, report, empty+1, 1, 0)
	if got := after.Mallocs - before.Mallocs; got > empty/16 {
		t.Errorf("%d empty lines were %d allocations", empty, got)
	}
}
