package csvrows

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Bounds of a file.
const (
	maxRow     = 1 << 20 // bytes
	maxColumns = 500
	smallRow   = 16 << 10 // bytes of a row whose memory is not counted
)

// rowMemory is the maximum memory for each byte of a row: its text, a name of a column, and a control character in
// JSON, in slices that have grown.
const rowMemory = 12

// readBuffer is the number of bytes of a file that are read at once.
const readBuffer = 64 << 10

// A splitter splits CSV into rows (RFC 4180). A cell that begins with a quote ends with one, and has others
// doubled; any other quote is a fault. A line ends with LF, CRLF or CR.
//
// It decides alone where cells and rows end, and so bounds them while it reads: a row has at most maxRow bytes, and
// the cells after the last column are counted, but not stored.
type splitter struct {
	in      *bufio.Reader
	comma   byte
	columns int                     // cells of a row that are stored
	hold    func(bytes int64) error // as in NewFile

	line int  // of the next byte, from 1
	skip bool // the rest of the line is not read: it is wrong
	most int  // bytes of a row for which memory is held

	// The row.
	first int    // its line
	size  int    // its bytes in the file so far
	text  []byte // of its cells, one after the other
	ends  []int  // of its cells, in text
	cells int    // all of them
	last  int    // the number of the last cell after the columns that is not empty, from 1; 0 for none
	valid bool   // it is UTF-8
}

func newSplitter(in *bufio.Reader, comma byte, hold func(bytes int64) error) *splitter {
	return &splitter{in: in, comma: comma, columns: maxColumns, hold: hold, line: 1, most: smallRow}
}

// Where the next byte of a row is.
const (
	atStart    = iota // of a cell
	inText            // of a cell without quotes
	inQuotes          // of a cell
	afterQuote        // that ends the cell, unless another one follows
)

// next reads the next row with any byte. The error is io.EOF at the end, a *Fault for a row that is wrong, after
// which the next call continues with the next line, or another one, which ends the file.
func (s *splitter) next() error {
	for s.skip {
		c, err := s.readByte()
		if err != nil {
			return err
		}
		s.skip = !endsLine(c)
	}
	s.first, s.size, s.text, s.ends, s.cells, s.last, s.valid = s.line, 0, s.text[:0], s.ends[:0], 0, 0, true
	state := atStart
	for {
		c, err := s.readByte()
		if err != nil {
			return s.end(err, state)
		}
		if s.size++; s.size > s.most {
			if err := s.grow(c); err != nil {
				return err
			}
		}
		switch {
		case state == inQuotes && c != '"':
			s.text = append(s.text, c)
			s.appendText()
		case state == inQuotes:
			state = afterQuote
		case state == inText && c == '"':
			return s.wrong(c, "a quote is in a cell that does not begin with one")
		case c == '"':
			if state == afterQuote {
				s.text = append(s.text, c)
			}
			state = inQuotes
		case c == s.comma:
			s.endCell()
			state = atStart
		case endsLine(c) && s.size == 1: // a line without any byte
			s.first, s.size = s.line, 0
		case endsLine(c):
			s.endCell()
			return nil
		case state == afterQuote:
			return s.wrong(c, "text follows the quote that ends a cell")
		default:
			s.text = append(s.text, c)
			s.appendText()
			state = inText
		}
	}
}

// end ends the row with the file. It returns err if there is no row, or if err is not io.EOF.
func (s *splitter) end(err error, state int) error {
	switch {
	case s.size == 0 || !errors.Is(err, io.EOF):
		return err
	case state == inQuotes:
		return s.wrong(0, "a quote is not closed")
	}
	s.endCell()
	return nil
}

// readByte returns the next byte: one LF for a CRLF.
func (s *splitter) readByte() (byte, error) {
	c, err := s.in.ReadByte()
	if err != nil {
		return 0, err
	}
	if c == '\r' {
		after, err := s.in.Peek(1)
		switch {
		case err == nil && after[0] == '\n':
			_, _ = s.in.Discard(1) // was peeked
			c = '\n'
		case err != nil && !errors.Is(err, io.EOF):
			return 0, err
		}
	}
	if endsLine(c) {
		s.line++
	}
	return c, nil
}

// appendText appends the buffered bytes of a cell that cannot end it: next would append them one by one.
func (s *splitter) appendText() {
	some, _ := s.in.Peek(min(s.in.Buffered(), s.most-s.size)) // are buffered
	n := 0
	for n < len(some) && some[n] != s.comma && some[n] != '"' && !endsLine(some[n]) {
		n++
	}
	s.text = append(s.text, some[:n]...)
	s.size += n
	_, _ = s.in.Discard(n)
}

// endsLine reports whether a byte ends a line. A CR does if readByte returns it.
func endsLine(c byte) bool { return c == '\n' || c == '\r' }

// wrong returns the fault of the row, which the last byte has shown.
func (s *splitter) wrong(last byte, detail string) error {
	s.skip = !endsLine(last)
	return &Fault{s.first, "", "is not CSV: " + detail}
}

// grow holds the memory of rows of twice as many bytes.
func (s *splitter) grow(last byte) error {
	if s.most == maxRow {
		s.skip = !endsLine(last)
		return &Fault{s.first, "", fmt.Sprintf("is longer than %d bytes: a quote may be missing", maxRow)}
	}
	s.most *= 2
	if s.hold == nil {
		return nil
	}
	return s.hold(int64(s.most) * rowMemory)
}

// endCell adds the text since the last cell to the row.
func (s *splitter) endCell() {
	s.cells++
	start := 0
	if len(s.ends) > 0 {
		start = s.ends[len(s.ends)-1]
	}
	cell := s.text[start:]
	s.valid = s.valid && utf8.Valid(cell)
	if s.cells <= s.columns {
		s.ends = append(s.ends, len(s.text))
		return
	}
	if len(clean(cell)) > 0 {
		s.last = s.cells
	}
	s.text = s.text[:start]
}

// clean returns the value of a cell.
func clean(cell []byte) []byte { return bytes.TrimSpace(Unescape(cell)) }

// appendCells appends the values of the cells of the row, which are valid until the next call of next.
func (s *splitter) appendCells(cells [][]byte) [][]byte {
	start := 0
	for _, end := range s.ends {
		cells = append(cells, clean(s.text[start:end]))
		start = end
	}
	return cells
}

// delimiter returns the one that splits the first row into most cells.
func delimiter(begin []byte) byte {
	best, most := byte(','), 0
	for _, comma := range []byte{',', ';', '\t'} {
		s := newSplitter(bufio.NewReader(bytes.NewReader(begin)), comma, nil)
		_ = s.next() // it may be incomplete, and may be wrong with another delimiter
		if s.cells > most {
			best, most = comma, s.cells
		}
	}
	return best
}
