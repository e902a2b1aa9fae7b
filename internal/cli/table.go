package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/csvrows"
)

// lenientJSON accepts duplicate names and invalid UTF-8: strictness is up to the API.
var lenientJSON = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// columnGap is the number of spaces between columns.
const columnGap = 2

// A table is written incrementally: each column is as wide as its widest cell so far.
type table struct {
	w      io.Writer
	widths []int
}

// write adds rows. All rows of a table have the same number of cells.
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
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+columnGap))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// A column is a heading and the member that it shows: a path with dots, or several paths joined by
// colons.
type column struct{ heading, member string }

// writeRows prints the response of the operation as CSV, or as a table in its layout.
func (o *operation) writeRows(w, stderr io.Writer, form string, body jsontext.Value) error {
	l := newListing(w, form, o.columns)
	switch {
	case o.layout == layoutMember:
		var members map[string]jsontext.Value
		var items []jsontext.Value
		err := json.Unmarshal(body, &members, lenientJSON)
		if err == nil {
			err = json.Unmarshal(members[o.rowsMember], &items, lenientJSON)
		}
		if err != nil {
			return fmt.Errorf("read response: %w", err)
		}
		if err := l.add(items); err != nil {
			return err
		}
		return l.end(stderr, o.items)
	case o.layout == layoutRow || form == formCSV:
		return l.add([]jsontext.Value{body})
	}
	cells, err := rowCells(body, o.columns)
	if err != nil {
		return err
	}
	t := table{w: w}
	if o.layout == layoutValue {
		return t.write([][]string{cells})
	}
	lines := make([][]string, 0, len(o.columns)+1)
	for i, c := range o.columns {
		values := []string{cells[i]}
		if c.member == o.optional && cells[i] == "-" {
			continue
		}
		if format := o.itemFormats[c.member]; format != nil {
			if values, err = formatItems(body, c.member, format); err != nil {
				return err
			}
		}
		heading := c.heading
		for _, text := range values {
			lines = append(lines, []string{heading, text})
			heading = ""
		}
		if i == 0 && o.note != "" {
			lines = append(lines, []string{"", o.note})
		}
	}
	return t.write(lines)
}

// formatItems formats the items of a list member, or another member as one item. It returns a dash for
// an empty list and for null.
func formatItems(object jsontext.Value, member string, format formatFunc) ([]string, error) {
	list, err := csvrows.Lookup(object, member)
	if err != nil {
		return nil, err
	}
	var items []jsontext.Value
	if list.Kind() == '[' {
		if err := json.Unmarshal(list, &items, lenientJSON); err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
	}
	if list.Kind() != '[' && formatValue(list) != "" {
		items = []jsontext.Value{list}
	}
	if len(items) == 0 {
		return []string{"-"}, nil
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], err = format(item); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func writeIndented(w io.Writer, v jsontext.Value) error {
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s\n", v)
	return err
}

func headingsOf(columns []column) []string {
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.heading
	}
	return heads
}

// rowCells returns the cells of a JSON object for a table, with a dash for each empty one.
func rowCells(object jsontext.Value, columns []column) ([]string, error) {
	cells, err := rowTexts(object, columns)
	for i, text := range cells {
		if strings.Trim(text, ":") == "" {
			cells[i] = "-"
		}
	}
	return cells, err
}

// rowTexts returns the text of each column of a JSON object.
func rowTexts(object jsontext.Value, columns []column) ([]string, error) {
	return csvrows.Texts(object, membersOf(columns), atrium.Printable)
}

func membersOf(columns []column) []string {
	members := make([]string, len(columns))
	for i, c := range columns {
		members[i] = c.member
	}
	return members
}

// formatValue formats a JSON value for a table.
func formatValue(v jsontext.Value) string { return csvrows.Text(v, atrium.Printable) }
