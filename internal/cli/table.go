package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// gap is between two columns.
const gap = 2

// A table is written as its rows come: columns are as wide as the rows so far need
// them.
type table struct {
	w      io.Writer
	widths []int
}

// write adds rows. All of a table have as many cells.
func (t *table) write(rows [][]string) error {
	for _, cells := range rows {
		if t.widths == nil {
			t.widths = make([]int, len(cells))
		}
		for i, cell := range cells {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, cells := range rows {
		for i, cell := range cells {
			b.WriteString(cell)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+gap))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// A column is one of a table: a heading, and the member that it shows, with dots
// between the members on the way to it, or several with colons between them.
type column struct{ heading, member string }

// table prints the answer of the operation for people.
func (o *operation) table(w io.Writer, body jsontext.Value) error {
	if o.shows == parts {
		return tableOf(w, body, o.partsIn, o.columns)
	}
	cells, err := cellsOf(body, o.columns)
	if err != nil {
		return err
	}
	t := table{w: w}
	switch o.shows {
	case oneRow:
		return t.write([][]string{headings(o.columns), cells})
	case bare:
		return t.write([][]string{cells})
	}
	lines := make([][]string, 0, len(o.columns)+1)
	for i, c := range o.columns {
		texts := []string{cells[i]}
		if shown := o.items[c.member]; shown != nil {
			if texts, err = itemsOf(body, c.member, shown); err != nil {
				return err
			}
		}
		heading := c.heading
		for _, text := range texts {
			lines = append(lines, []string{heading, text})
			heading = ""
		}
		if i == 0 && o.remark != "" {
			lines = append(lines, []string{"", o.remark})
		}
	}
	return t.write(lines)
}

// itemsOf returns what the items of a list are for people; one dash for none.
func itemsOf(object jsontext.Value, member string, shown inWords) ([]string, error) {
	list, err := memberOf(object, member)
	if err != nil {
		return nil, err
	}
	var items []jsontext.Value
	if list.Kind() == '[' {
		if err := json.Unmarshal(list, &items, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
	}
	if len(items) == 0 {
		return []string{"-"}, nil
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], err = shown(item); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// tableOf prints the items of a member of a JSON object for people.
func tableOf(w io.Writer, body jsontext.Value, member string, columns []column) error {
	var members map[string]jsontext.Value
	var items []jsontext.Value
	err := json.Unmarshal(body, &members, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err == nil {
		err = json.Unmarshal(members[member], &items, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	return newListing(w, formTable, columns).add(items)
}

func writeIndented(w io.Writer, v jsontext.Value) error {
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s\n", v)
	return err
}

func headings(columns []column) []string {
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.heading
	}
	return heads
}

// cellsOf returns what a JSON object has in the columns.
func cellsOf(object jsontext.Value, columns []column) ([]string, error) {
	cells := make([]string, len(columns))
	for i, c := range columns {
		var texts []string
		for member := range strings.SplitSeq(c.member, ":") {
			v, err := memberOf(object, member)
			if err != nil {
				return nil, err
			}
			texts = append(texts, shown(v))
		}
		if cells[i] = strings.Join(texts, ":"); strings.Trim(cells[i], ":") == "" {
			cells[i] = "-"
		}
	}
	return cells, nil
}

// memberOf returns what a path of member names leads to; nil if it leads nowhere.
func memberOf(v jsontext.Value, path string) (jsontext.Value, error) {
	for name := range strings.SplitSeq(path, ".") {
		var members map[string]jsontext.Value
		if v.Kind() != '{' {
			return nil, nil
		}
		if err := json.Unmarshal(v, &members, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
		v = members[name]
	}
	return v, nil
}

// shown returns a JSON value for a table: texts without quotes, those of a list with
// a space between them, and nothing for none.
func shown(v jsontext.Value) string {
	switch v.Kind() {
	case jsontext.KindInvalid, 'n':
		return ""
	case '"':
		b, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return ""
		}
		return atrium.Printable(string(b))
	case '[':
		var items []jsontext.Value
		if err := json.Unmarshal(v, &items, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
			return ""
		}
		texts := make([]string, len(items))
		for i, item := range items {
			texts[i] = shown(item)
		}
		return strings.Join(texts, " ")
	}
	return atrium.Printable(string(v))
}
