package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func rates(all ...float64) (samples []sample) {
	for _, rate := range all {
		samples = append(samples, sample{Rate: rate, P50: int64(1e6 / rate), P99: int64(5e6 / rate)})
	}
	return samples
}

// A disturbance in one round must not count. It would if rates were compared across
// rounds.
func TestRatioIsTheMedianOfTheRounds(t *testing.T) {
	r := row{Bare: rates(1000, 2000, 4000), Sizes: [][]sample{rates(500, 1000, 4000), rates(400, 900, 1000)}}
	if got := r.ofSmallest(1); got != 0.8 {
		t.Errorf("relative to the smallest: %v, want 0.8", got)
	}
	if got := r.ofBare(0); got != 0.5 {
		t.Errorf("relative to the reference: %v, want 0.5", got)
	}
	if got := r.ofSmallest(0); got != 1 {
		t.Errorf("smallest relative to itself: %v", got)
	}
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.of, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("median of no values is not NaN")
	}
}

func some() *results {
	return &results{
		Engine: "SQLite", Sizes: []size{{Entries: 10_000, Accounts: 1000, Pages: 100, Tenants: 1, Bytes: 13e6}, {Entries: 1_000_000, Accounts: 100_000, Pages: 10_000, Tenants: 1, Bytes: 13e8}},
		Rows: []row{
			{Name: postEntry, Bare: rates(10_000), Sizes: [][]sample{rates(2000), rates(1900)}},
			{Name: getAccount, Bare: rates(10_000), Sizes: [][]sample{rates(5000), rates(4500)}},
		},
		Starts: []start{{Idle: 15e6, Loaded: 40e6, Clean: 80e6, Killed: 120e6, Cold: 240e6, Log: 27e6}, {Idle: 16e6, Loaded: 41e6, Clean: 81e6, Killed: 121e6, Cold: 241e6, Log: 28e6}},
	}
}

func TestTablesHaveSortedRowsWithRatios(t *testing.T) {
	var b strings.Builder
	some().print(&b)
	want := `| request | 1,000,000 / 10,000 | 10,000 / bare | 1,000,000 / bare | p50, p99 at 10,000 | p50, p99 at 1,000,000 |
| --- | ---: | ---: | ---: | ---: | ---: |
| GET account | 0.90 | 0.50 | 0.45 | 0.2 ms, 1.0 ms | 0.2 ms, 1.1 ms |
| POST entry | 0.95 | 0.20 | 0.19 | 0.5 ms, 2.5 ms | 0.5 ms, 2.6 ms |

| entries | file | memory, idle | at most, loaded | ready after a stop | after kill -9 | log it found | after a stop, nothing cached |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| 10,000 | 13 MB | 15 MB | 40 MB | 80 ms | 120 ms | 27 MB | 240 ms |
| 1,000,000 | 1300 MB | 16 MB | 41 MB | 81 ms | 121 ms | 28 MB | 241 ms |
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestRepeatedRowReplacesTheEarlierOne(t *testing.T) {
	r := some()
	r.path = filepath.Join(t.TempDir(), "growth.json")
	if err := r.add(row{Name: postEntry, Bare: rates(1), Sizes: [][]sample{rates(1), rates(1)}}); err != nil {
		t.Fatal(err)
	}
	kept, err := readResults(r.path)
	if err != nil || len(kept.Rows) != 2 || kept.Rows[1].Bare[0].Rate != 1 {
		t.Errorf("%+v, %v", kept, err)
	}
}

func TestPlotsAreCompleteWithAWhiteBackground(t *testing.T) {
	for _, draw := range []func() ([]byte, error){some().relative, some().latencies} {
		text, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("fill:#FFFFFF")) || len(text) > 100_000 {
			t.Errorf("%d bytes, or no background", len(text))
		}
		for d := xml.NewDecoder(bytes.NewReader(text)); err == nil; {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("not XML: %v", err)
		}
	}
}

func TestPublishReplacesOnlyItsSection(t *testing.T) {
	const section = "new\n"
	for page, want := range map[string]string{
		"":          sectionBegin + section + sectionEnd,
		"# Speed\n": "# Speed\n\n" + sectionBegin + section + sectionEnd,
		"a\n" + sectionBegin + "old\n" + sectionEnd + "b\n": "a\n" + sectionBegin + section + sectionEnd + "b\n",
	} {
		if got := string(replaceSection([]byte(page), []byte(section))); got != want {
			t.Errorf("%q became %q, want %q", page, got, want)
		}
	}
}

func TestSizesMustIncreaseAndDivideEvenly(t *testing.T) {
	for _, c := range []struct {
		sizes string
		each  int
		ok    bool
	}{{"10000,1000000", 0, true}, {"10000", 1000, true}, {"1000,100", 0, false}, {"10500", 1000, false}, {"0", 0, false}, {"many", 0, false}} {
		o := options{each: c.each}
		if err := o.parse(c.sizes); (err == nil) != c.ok {
			t.Errorf("%q of %d each: %v", c.sizes, c.each, err)
		}
	}
	o := options{sizes: []int{3000}, each: 1000}
	if got := o.shapes(); got[0] != (shape{tenants: 3, entries: 1000}) {
		t.Errorf("got %+v", got)
	}
}
