package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// marks returns a side with its marked pieces in brackets.
func marks(s side) string {
	if s.Missing {
		return "missing"
	}
	var b strings.Builder
	for _, p := range s.Pieces {
		if p.Marked {
			b.WriteString("[" + p.Text + "]")
			continue
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

func TestVersionsAreComparedByMember(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     []string // name: old -> new
		same     int64
	}{
		{`{"a":1}`, `{"a":1}`, nil, 1},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, nil, 2},
		{`{"a":"Meet us in Porto","b":1}`, `{"a":"Meet us in hall 4 in Porto","b":1}`, []string{"a: Meet us in Porto -> Meet us in [hall 4 in] Porto"}, 1},
		{`{"a":"one two"}`, `{"a":"one three four"}`, []string{"a: one [two] -> one [three four]"}, 0},
		{`{"a":"one two"}`, `{"a":"one\ntwo"}`, []string{"a: [one two] -> [one\ntwo]"}, 0},
		{`{"a":""}`, `{"a":"x"}`, []string{"a:  -> [x]"}, 0},
		{`{"a":1}`, `{"a":1.0}`, []string{"a: [1] -> [1.0]"}, 0},
		{`{"a":"1"}`, `{"a":1}`, []string{"a: [1] -> [1]"}, 0},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"d":3}}`, []string{"a › d: missing -> [3]", "a › c: [2] -> missing"}, 1},
		{`{"l":["x","y"]}`, `{"l":["new","x","y"]}`, []string{"l › 1: missing -> [new]"}, 2},
		{`{"l":["x","y","z"]}`, `{"l":["x","z"]}`, []string{"l › 2: [y] -> missing"}, 2},
		{`{"l":[{"t":"a","u":1}]}`, `{"l":[{"t":"b","u":1}]}`, []string{"l › 1 › t: [a] -> [b]"}, 1},
		{`{"a":"x"}`, `{"a":{"b":"y","c":[]}}`, []string{"a: [x] -> missing", "a › b: missing -> [y]", "a › c: missing -> [[]]"}, 0},
		{`{"a":[]}`, `{"a":{}}`, []string{"a: [[]] -> missing", "a: missing -> [{}]"}, 0},
		{`{"a":{ }}`, `{}`, []string{"a: [{ }] -> missing"}, 0},
		{`"x"`, `"y"`, []string{": [x] -> [y]"}, 0},
		{``, `{"a":1}`, []string{"a: missing -> [1]"}, 0},
		{``, ``, nil, 0},
	} {
		var from, to jsontext.Value
		if c.from != "" {
			from = jsontext.Value(c.from)
		}
		if c.to != "" {
			to = jsontext.Value(c.to)
		}
		d := compare(from, to)
		var got []string
		for _, r := range d.Rows {
			got = append(got, fmt.Sprintf("%s: %s -> %s", r.Name, marks(r.Old), marks(r.New)))
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) || d.Changes != int64(len(c.want)) || d.Equal != c.same || int64(len(d.Same)) != c.same || d.More {
			t.Errorf("%s and %s: %q, %d changed, %d the same; want %q and %d", c.from, c.to, got, d.Changes, d.Equal, c.want, c.same)
		}
	}
}

// A comparison shows a bounded part of large contents, and says how many fields differ.
func TestComparisonsAreBounded(t *testing.T) {
	many := func(text string) string {
		return `{"l":[` + strings.Repeat(`"`+text+`",`, 5000) + `"end"],"o":{"a":1}}`
	}
	wide := func(n int) string {
		var b strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&b, `,"m%d":%d`, i, i+n)
		}
		return "{" + b.String()[1:] + "}"
	}
	deep := func(leaf string) string { return strings.Repeat(`{"a":[`, 2000) + leaf + strings.Repeat(`]}`, 2000) }
	for name, c := range map[string]struct {
		from, to string
		changes  int64
	}{
		"many members":     {many("a"), many("b"), 5000},
		"added members":    {`{}`, many("b"), 5002},
		"a wide object":    {wide(0), wide(1), 20_000},
		"deep values":      {deep("1"), deep("2"), 1},
		"long texts":       {`{"a":"` + strings.Repeat("a ", 500_000) + `"}`, `{"a":"` + strings.Repeat("b ", 500_000) + `"}`, 1},
		"many long texts":  {strings.ReplaceAll(many("x"), "x", strings.Repeat("x y ", 50)), strings.ReplaceAll(many("x"), "x", strings.Repeat("y x ", 50)), 5000},
		"many short words": {`"` + strings.Repeat("a ", 4000) + `"`, `"` + strings.Repeat("b ", 4000) + `"`, 1},
	} {
		d := compare(jsontext.Value(c.from), jsontext.Value(c.to))
		size := 0
		for _, r := range d.Rows {
			for _, s := range []side{r.Old, r.New} {
				size += len(marks(s))
			}
		}
		if d.Changes != c.changes || len(d.Rows) > maxChanges || len(d.Same) > maxChanges || size > 2*maxDiffBytes+100 {
			t.Errorf("%s: %d members differ, want %d; %d rows with %d bytes", name, d.Changes, c.changes, len(d.Rows), size)
		}
	}
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"x y"}`), []byte(`{"a":[{"b":null}],"c":"x z"}`))
	f.Add([]byte(`"`+"a\u00a0b"+`"`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		if !jsontext.Value(from).IsValid() || !jsontext.Value(to).IsValid() {
			return // versions have valid JSON only
		}
		for _, r := range compare(from, to).Rows {
			if r.Old.Missing && r.New.Missing {
				t.Errorf("a member that neither has: %q", r.Name)
			}
		}
		if d := compare(from, from); d.Changes != 0 {
			t.Errorf("a content differs from itself: %+v", d.Rows)
		}
	})
}

// All words of many texts differ: only some of the texts are aligned word by word.
func TestAComparisonAlignsABoundedNumberOfWords(t *testing.T) {
	content := func(word string) jsontext.Value {
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, `,"text %d":%q`, i, strings.Repeat(word+" ", maxWords-10))
		}
		return jsontext.Value("{" + b.String()[1:] + "}")
	}
	d := &difference{bytes: maxDiffBytes, cells: maxCells}
	if d.value(nil, content("a"), content("b"), 0); d.Changes != 60 || d.cells < 0 || d.cells > maxCells/2 {
		t.Errorf("%d texts differ, %d cells are left", d.Changes, d.cells)
	}
	for _, r := range d.Rows {
		if len(r.Old.Pieces) == 0 || !r.Old.Pieces[0].Marked {
			t.Errorf("%s is not marked: %v", r.Name, r.Old.Pieces)
		}
	}
}
