package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"atrium/bench/server"
	"atrium/bench/workload"
)

func TestMain(m *testing.M) {
	server.BeBare()
	os.Exit(m.Run())
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		before := slices.Clone(test.values)
		if got := median(test.values); got != test.want {
			t.Errorf("the median of %v is %v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("%v was sorted", before)
		}
	}
}

// Other load on the machine in a round affects both sides.
func TestRatioComparesTheSameRound(t *testing.T) {
	p := pair{
		ours:   []figure{{rate: 50, cpu: 40}, {rate: 5, cpu: 50}, {rate: 60, cpu: 40}},
		theirs: []figure{{rate: 100, cpu: 10}, {rate: 10, cpu: 10}, {rate: 100, cpu: 20}},
	}
	if got := p.ratios(); !slices.Equal(got, []float64{0.5, 0.5, 0.6}) {
		t.Errorf("rates: %v", got)
	}
	if got := p.costs(); !slices.Equal(got, []float64{0.25, 0.2, 0.5}) {
		t.Errorf("processor time: %v", got)
	}
}

func TestSubjectsAlternateAfterAWarmUp(t *testing.T) {
	var order []string
	of := func(name string) subject {
		n := 0.0
		return func(context.Context) (figure, error) {
			order = append(order, name)
			n++
			return figure{rate: n}, nil
		}
	}
	all, err := alternate(t.Context(), 2, of("a"), of("b"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ababab" {
		t.Errorf("the order was %s", got)
	}
	for _, figures := range all {
		if len(figures) != 2 || figures[0].rate != 2 || figures[1].rate != 3 {
			t.Errorf("figures %v", figures)
		}
	}
}

func TestTableHasRatiosWithTargets(t *testing.T) {
	row := func(engine, name, reference string, ours, theirs float64) pair {
		return pair{engine, name, reference, 100, []figure{{rate: ours, cpu: 20 * time.Microsecond, p50: time.Millisecond, p99: 2500 * time.Microsecond}}, []figure{{rate: theirs}}}
	}
	r := report{options: options{atrium: "/nothing"}, atRest: 30_000_000, loaded: 250_000_000, started: []time.Duration{50 * time.Millisecond}}
	r.pairs = []pair{
		row("SQLite", workload.GetPage, "bare net/http", 700, 1000),
		row("SQLite", workload.PostEntry, "PocketBase", 8000, 1000),
		row("PostgreSQL", workload.PostEntry, "pgbench, 32 clients", 1300, 1000),
		row("PostgreSQL", workload.GetPage, "bare net/http", 12_345, 1000),
	}
	want := `
|                                       | reference           |    ratio |      spread |             goal | requests/s | reference/s | CPU µs | reference µs | p50 ms | p99 ms | bytes |
| ------------------------------------- | ------------------- | -------: | ----------: | ---------------: | ---------: | ----------: | -----: | -----------: | -----: | -----: | ----: |
| GET page, SQLite                      | bare net/http       |     0.70 |   0.70–0.70 |            ≥ 0.6 |        700 |        1000 |     20 |              |   1.00 |   2.50 |   100 |
| POST entry, SQLite                    | PocketBase          |     8.00 |   8.00–8.00 |      ≥ 9, missed |       8000 |        1000 |     20 |              |   1.00 |   2.50 |   100 |
| POST entry, PostgreSQL                | pgbench, 32 clients |     1.30 |   1.30–1.30 |            ≥ 1.3 |       1300 |        1000 |     20 |              |   1.00 |   2.50 |   100 |
| GET page, PostgreSQL                  | bare net/http       |     12.3 |   12.3–12.3 |                  |      12345 |        1000 |     20 |              |   1.00 |   2.50 |   100 |
| anonymous memory, idle                |                     |    30 MB |             |          ≤ 40 MB |            |             |        |              |        |        |       |
| anonymous memory, the most under load |                     |   250 MB |             | ≤ 200 MB, missed |            |             |        |              |        |        |       |
| start to first response, SQLite       |                     | 50.00 ms | 50.00–50.00 |                  |            |             |        |              |        |        |       |
`
	if got := "\n" + r.ratios().String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}

// A target for a renamed row would never fail.
func TestEveryTargetHasARow(t *testing.T) {
	var names []string
	for _, k := range (&workload.Workload{Accounts: 1}).Kinds() {
		names = append(names, k.Name)
	}
	for _, target := range targets {
		if !slices.Contains(names, target.name) {
			t.Errorf("%s is not a row", target.name)
		}
	}
	for engine, rows := range guarded {
		for _, row := range rows {
			if !slices.Contains(names, row) {
				t.Errorf("%s, %s: no such row", engine, row)
			}
		}
	}
}

func TestWriteIntoReplacesOnlyItsSection(t *testing.T) {
	page := "# Title\n\n" + opening + "\nold\n" + closing + "\n\nmore\n<!-- growth -->\nkept\n<!-- /growth -->\n"
	got, err := between(page, "new\ntable\n")
	if want := strings.Replace(page, "old\n", "new\ntable\n", 1); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := between("# Title\n", "new\n"); err == nil {
		t.Error("no error for a page without the lines")
	}
}

func TestMachineDescriptionIsParsed(t *testing.T) {
	if got := field([]byte("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nmodel name\t: another\n"), "model name"); got != "Some CPU @ 3 GHz" {
		t.Errorf("the processor is %q", got)
	}
	if got := memory("16384000 kB"); got != "16.8 GB" {
		t.Errorf("the memory is %q", got)
	}
	mounts := []byte("1 0 8:1 / / rw shared:1 - ext4 /dev/vda rw\n2 1 0:5 / /nowhere rw - tmpfs shm rw\n3 1 8:2 / /nowhere/deep rw - xfs /dev/vdb rw\n")
	for dir, want := range map[string]string{"/nowhere/deep/er": "xfs (/dev/vdb)", "/nowhere/deeper": "tmpfs (shm)", "/else": "ext4 (/dev/vda)"} {
		if got := fileSystem(mounts, dir); got != want {
			t.Errorf("%s is on %s, want %s", dir, got, want)
		}
	}
	if rate, err := rateOf([]byte("x\ntps = 1234.5 (without initial connection time)\n")); err != nil || rate != 1234.5 {
		t.Errorf("pgbench: %v, %v", rate, err)
	}
	if _, err := rateOf([]byte("tps = none\n")); err == nil {
		t.Error("no error for output without a rate")
	}
}
