package csvrows

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// A row is what a splitter and encoding/csv find in a file.
type row struct {
	line  int
	cells []string // nil for a row that is wrong
}

func (r row) equal(other row) bool { return r.line == other.line && slices.Equal(r.cells, other.cells) }

// split returns the rows of a file.
func split(in []byte, comma byte) (rows []row) {
	s := newSplitter(bufio.NewReader(bytes.NewReader(in)), comma, nil)
	for {
		err := s.next()
		if errors.Is(err, io.EOF) {
			return rows
		}
		r := row{line: s.first}
		start := 0
		for _, end := range s.ends {
			if err == nil {
				r.cells = append(r.cells, string(s.text[start:end]))
			}
			start = end
		}
		rows = append(rows, r)
	}
}

// standard returns the rows that encoding/csv finds.
func standard(in []byte, comma byte) (rows []row) {
	r := csv.NewReader(bytes.NewReader(in))
	r.Comma, r.FieldsPerRecord = rune(comma), -1
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows
		}
		if e, ok := errors.AsType[*csv.ParseError](err); ok {
			rows = append(rows, row{line: e.StartLine})
			continue
		}
		line, _ := r.FieldPos(0)
		rows = append(rows, row{line, cells})
	}
}

// A splitter finds the same rows and cells, valid or not, on the same lines as encoding/csv, whose lines end only
// with LF and CRLF.
func FuzzRowsAreThoseOfEncodingCSV(f *testing.F) {
	for _, in := range []string{
		"a,b\n1,2\n", "a;b\r\n\"1;\r\n\";2", "\"a\"\"b\",\"\"\n\"\"\n,\n", "a\"b,\"c\nd\n", "\"a\"b\n\"c\n\nd\"e\n\"f", "\n\r\n \n\"\n\n\"\t\"", "a,\"b\"\r\n\r\n\xff,c", "\"\"\"\"\"\",",
	} {
		for i := range 3 {
			f.Add([]byte(in), i)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, delimiter int) {
		comma := ",;\t"[uint(delimiter)%3]
		if bytes.Count(in, []byte("\r")) != bytes.Count(in, []byte("\r\n")) || bytes.Count(in, []byte{comma}) >= maxColumns || len(in) > maxRow {
			return
		}
		got, want := split(in, comma), standard(in, comma)
		if !slices.EqualFunc(got, want, row.equal) {
			t.Errorf("%q has the rows %v, want %v", in, got, want)
		}
	})
}

// A row costs no more memory than its text, whatever is before it, and a file no more than its longest row.
func TestCellsAfterTheLastColumnAreNotStored(t *testing.T) {
	for name, before := range map[string]string{
		"no row": "", "a row": "1,2\n", "a quote in a cell": "a\"b,c\n", "a quote that closes a cell": "\"a\"b\n", "a quoted line break": "\"a\n\",b\n",
	} {
		f, err := NewFile(strings.NewReader("a,b\n"+before+"x"+strings.Repeat(", ", maxRow/4)+"\n1,2\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var cells [][]byte
		for range strings.Count(before, "\n") - strings.Count(before, "a\n") + 1 {
			cells, _, err = f.Next()
		}
		if err != nil || len(cells) != 2 || string(cells[0]) != "x" || cap(f.rows.ends) > maxColumns || cap(f.cells) > maxColumns || cap(f.rows.text) > 1<<10 {
			t.Errorf("after %s: %q, %v; %d cells and %d bytes are stored", name, cells, err, cap(f.rows.ends), cap(f.rows.text))
		}
		if cells, _, err = f.Next(); err != nil || string(cells[1]) != "2" {
			t.Errorf("the row after it: %q %v", cells, err)
		}
	}
}

// The memory of long rows is held before it is used. Others need none.
func TestMemoryOfLongRowsIsHeld(t *testing.T) {
	var held []int64
	refused := errors.New("refused")
	hold := func(bytes int64) error {
		if bytes > 1<<20 {
			return refused
		}
		held = append(held, bytes)
		return nil
	}
	row := func(bytes int) string { return strings.Repeat("a", bytes-1) + "\n" }
	f, err := NewFile(strings.NewReader("a\n"+row(smallRow)+row(smallRow+1)+row(4*smallRow)+row(2*smallRow)+row(4*smallRow+1)+row(1)), hold)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 1, 2, 2} {
		if _, _, err := f.Next(); err != nil || len(held) != want {
			t.Errorf("row %d: %v, held %v", i, err, held)
		}
	}
	if _, _, err := f.Next(); !errors.Is(err, refused) || !slices.Equal(held, []int64{2 * smallRow * rowMemory, 4 * smallRow * rowMemory}) {
		t.Errorf("a row whose memory is refused: %v, held %v", err, held)
	}
}
