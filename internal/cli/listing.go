package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/csvrows"
)

// pageSize is the number of items per request, the maximum of the API.
const pageSize = 100

// maxPages is the number of pages after which a list counts as endless.
const maxPages = 1_000_000

// A cursorCheck detects endless lists in constant memory.
type cursorCheck struct {
	pages int
	seen  string
}

// next takes the cursor of the next page. It detects cycles of any length with Brent's algorithm:
// it compares each cursor with an earlier one, which it replaces after 1, 2, 4, 8, … pages.
func (c *cursorCheck) next(cursor string) error {
	switch c.pages++; {
	case cursor == "":
		return errors.New("read list: the response announces another page without a cursor")
	case cursor == c.seen:
		return errors.New("read list: the server repeats a cursor")
	case c.pages == maxPages:
		return fmt.Errorf("read list: more than %d pages: use --limit or atrium export", maxPages)
	case c.pages&(c.pages-1) == 0:
		c.seen = cursor
	}
	return nil
}

// printList prints the items of a list page by page, up to limit, or all if limit is 0. The caller
// ends the listing.
func printList(ctx context.Context, c *client, call call, limit int, l *listing) error {
	var cursors cursorCheck
	for n := 0; ; {
		size := pageSize
		if limit > 0 {
			size = min(size, limit-n)
		}
		call.query.Set("limit", strconv.Itoa(size))
		response, err := c.fetch(ctx, call)
		if err != nil {
			return err
		}
		var page struct {
			Items      []jsontext.Value `json:"items"`
			HasMore    bool             `json:"hasMore"`
			NextCursor string           `json:"nextCursor"`
		}
		if err := json.Unmarshal(response.body, &page, lenientJSON); err != nil {
			return fmt.Errorf("read response: %w", err)
		}
		if err := l.add(page.Items); err != nil {
			return err
		}
		n += len(page.Items)
		if !page.HasMore || limit > 0 && n >= limit {
			return nil
		}
		if err := cursors.next(page.NextCursor); err != nil {
			return err
		}
		call.query.Set("cursor", page.NextCursor)
	}
}

// writePage prints the items of one page as CSV, and how to get the next page to stderr.
func writePage(w, stderr io.Writer, columns []column, body jsontext.Value) error {
	var page struct {
		Items      []jsontext.Value `json:"items"`
		NextCursor string           `json:"nextCursor"`
	}
	if err := json.Unmarshal(body, &page, lenientJSON); err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	l := newListing(w, formCSV, columns)
	if err := l.add(page.Items); err != nil {
		return err
	}
	if page.NextCursor != "" {
		fmt.Fprintln(stderr, "to continue, pass --cursor "+atrium.Printable(page.NextCursor))
	}
	return l.end(stderr, "")
}

// A listing prints the items of a list as they arrive.
type listing struct {
	form    string
	columns []column
	table   table
	csv     *csvrows.Encoder
	started bool // something was printed
}

func newListing(w io.Writer, form string, columns []column) *listing {
	return &listing{form: form, columns: columns, table: table{w: w}}
}

func (l *listing) add(items []jsontext.Value) error {
	switch {
	case len(items) == 0:
		return nil
	case l.form == formJSON:
		return l.addJSON(items)
	case l.form == formCSV:
		return l.addCSV(items)
	}
	lines := make([][]string, 0, len(items)+1)
	if !l.started {
		l.started = true
		lines = append(lines, headingsOf(l.columns))
	}
	for _, item := range items {
		cells, err := rowCells(item, l.columns)
		if err != nil {
			return err
		}
		lines = append(lines, cells)
	}
	return l.table.write(lines)
}

// addCSV prints rows as CSV. The first row has the names of the members.
func (l *listing) addCSV(items []jsontext.Value) error {
	if !l.started {
		l.started = true
		l.csv = csvrows.NewEncoder(l.table.w, membersOf(l.columns), atrium.Printable, false)
	}
	return l.csv.Encode(items)
}

func (l *listing) addJSON(items []jsontext.Value) error {
	for _, item := range items {
		before := ",\n  "
		if !l.started {
			l.started = true
			before = "[\n  "
		}
		if err := item.Indent(jsontext.WithIndentPrefix("  "), jsontext.WithIndent("  ")); err != nil {
			return fmt.Errorf("read response: %w", err)
		}
		if _, err := fmt.Fprintf(l.table.w, "%s%s", before, item); err != nil {
			return err
		}
	}
	return nil
}

// end completes the output after all items were added. If there were none, it prints so to stderr
// for a table, with the plural noun of the items.
func (l *listing) end(stderr io.Writer, items string) error {
	var err error
	switch {
	case l.form == formJSON && l.started:
		_, err = io.WriteString(l.table.w, "\n]\n")
	case l.form == formJSON:
		_, err = io.WriteString(l.table.w, "[]\n")
	case l.form == formCSV && !l.started:
		err = l.addCSV(nil) // the names
	case !l.started:
		fmt.Fprintf(stderr, "no %s\n", items)
	}
	return err
}
