package rest

import (
	"math"
	"strings"
	"testing"
)

func TestParameterIsDecodedAndMustNotBeRepeated(t *testing.T) {
	for raw, want := range map[string]string{ // "!" for a fault, "-" if missing
		"":              "-",
		"b=1":           "-",
		"A=1":           "-",
		"a[]=1":         "-",
		"aa=1&ab=2":     "-",
		"a=1":           "1",
		"b=2&a=1&c":     "1",
		"a=%31":         "1",
		"%61=1":         "1",
		"a=+":           " ",
		"a=%2B":         "+",
		"a=b=c":         "b=c",
		"a=1;b=2":       "1;b=2",
		"a=%00":         "\x00",
		"a=%FF":         "!",
		"a=1&%zz=1&%=1": "1",
		"a":             "!",
		"a=":            "!",
		"a=%zz":         "!",
		"a=%":           "!",
		"a=1&a=1":       "!",
		"a=1&%61=":      "!",
		"a&a":           "!",
	} {
		q := &Query{raw: raw}
		got, ok := q.Text("a")
		switch {
		case q.Err() != nil:
			got = "!"
		case !ok:
			got = "-"
		}
		if got != want {
			t.Errorf("?%s: %q, want %q", raw, got, want)
		}
	}
}

func TestLimitAndPageAreDigits(t *testing.T) {
	for text, want := range map[string][2]int64{ // the limit, and the items before the page at 100 per page; -1 for a fault
		"":                     {-1, -1},
		"0":                    {-1, -1},
		"00":                   {-1, -1},
		"1":                    {1, 0},
		"01":                   {1, 0},
		"2":                    {2, 100},
		"100":                  {100, 9900},
		"101":                  {-1, 10000},
		"+1":                   {-1, -1}, // decoded to a space
		"%2B1":                 {-1, -1},
		"-1":                   {-1, -1},
		"1.0":                  {-1, -1},
		"1e2":                  {-1, -1},
		"0x1":                  {-1, -1},
		"1_0":                  {-1, -1},
		"%D9%A1":               {-1, -1}, // an Arabic-Indic digit
		"92233720368547758":    {-1, math.MaxInt64},
		"9223372036854775807":  {-1, math.MaxInt64},
		"18446744073709551617": {-1, math.MaxInt64},
	} {
		q := &Query{raw: "limit=" + text}
		limit := int64(q.Limit())
		if q.Err() != nil {
			limit = -1
		}
		q = &Query{raw: "page=" + text}
		skip := q.Page(100)
		if q.Err() != nil {
			skip = -1
		}
		if limit != want[0] || skip != want[1] {
			t.Errorf("%q: limit %d and skip %d, want %v", text, limit, skip, want)
		}
	}
	q := &Query{}
	if limit, skip := q.Limit(), q.Page(100); limit != 20 || skip != 0 || q.Err() != nil {
		t.Errorf("without parameters: limit %d, skip %d, %v", limit, skip, q.Err())
	}
}

func TestSkipNeverDecreasesWithThePage(t *testing.T) {
	last := int64(0)
	for n := range 5000 {
		q := &Query{raw: "page=" + "1" + strings.Repeat("0", n)}
		skip := q.Page(100)
		if skip < last || q.Err() != nil {
			t.Fatalf("page with %d digits: skip %d after %d, %v", n+1, skip, last, q.Err())
		}
		last = skip
	}
}
