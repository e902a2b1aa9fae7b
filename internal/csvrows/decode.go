package csvrows

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a file.
const (
	maxRecord  = 1 << 20 // bytes of a row
	maxColumns = 500
)

// A File is CSV that is read row by row: with commas, semicolons or tabs, with or without a byte order mark,
// with any line ends, and with line breaks in quoted cells.
type File struct {
	Header []string

	csv     *csv.Reader
	bounded *boundedReader
	skipped int // lines before the header
}

// A boundedReader fails if a row is too long, such as after a quote that nothing closes, or has too many cells: a
// cell without text costs more memory than its byte.
type boundedReader struct {
	from   io.Reader
	left   int
	comma  byte // 0 while it is not known: then cells are not counted
	cells  int  // of the row so far, without the first one
	quoted bool
}

var errLongRow = fmt.Errorf("a row is longer than %d bytes: a quote may be missing", maxRecord)

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongRow
	}
	n, err := b.from.Read(p)
	b.left -= n
	if b.comma != 0 && !b.count(p[:n]) {
		return 0, errManyCells
	}
	return n, err
}

var errManyCells = fmt.Errorf("a row has more than %d cells", maxColumns)

// count counts the cells in a part of the file, and reports whether no row has more than maxColumns.
func (b *boundedReader) count(part []byte) bool {
	for _, c := range part {
		switch {
		case c == '"':
			b.quoted = !b.quoted
		case b.quoted:
		case c == '\n':
			b.cells = 0
		case c == b.comma:
			if b.cells++; b.cells >= maxColumns {
				return false
			}
		}
	}
	return true
}

// NewFile reads the header of CSV.
func NewFile(r io.Reader) (*File, error) {
	f := &File{bounded: &boundedReader{from: r, left: maxRecord}}
	in := bufio.NewReaderSize(f.bounded, 4<<10)
	begin, err := in.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.HasPrefix(begin, []byte("\xff\xfe")) || bytes.HasPrefix(begin, []byte("\xfe\xff")) || bytes.IndexByte(begin, 0) >= 0 {
		return nil, errors.New("the file is not UTF-8: save it as CSV UTF-8")
	}
	if bytes.HasPrefix(begin, []byte("\uFEFF")) {
		begin = begin[3:]
		_, _ = in.Discard(3) // was peeked
	}
	comma := delimiter(begin)
	if line, _, ok := bytes.Cut(begin, []byte("\n")); ok && bytes.HasPrefix(line, []byte("sep=")) && len(bytes.TrimRight(line, "\r")) == 5 {
		comma, f.skipped = rune(line[4]), 1
		_, _ = in.Discard(len(line) + 1) // was peeked
		begin = begin[len(line)+1:]
	}
	f.bounded.comma = byte(comma)
	if !f.bounded.count(begin) {
		return nil, errManyCells
	}
	f.csv = csv.NewReader(in)
	f.csv.Comma, f.csv.FieldsPerRecord = comma, -1
	header, err := f.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case err != nil:
		return nil, fmt.Errorf("the first line is not a row of column names: %w", reason(err))
	case len(header) > maxColumns:
		return nil, fmt.Errorf("the file has more than %d columns", maxColumns)
	}
	for _, text := range header {
		if !utf8.ValidString(text) {
			return nil, errors.New("the file is not UTF-8: save it as CSV UTF-8")
		}
		f.Header = append(f.Header, Unescape(text))
	}
	return f, nil
}

// delimiter returns the one that the first line has most often outside of quotes.
func delimiter(begin []byte) rune {
	counts, quoted := map[byte]int{}, false
	for _, c := range begin {
		if c == '"' {
			quoted = !quoted
		}
		if c == '\n' && !quoted {
			break
		}
		if !quoted {
			counts[c]++
		}
	}
	best := byte(',')
	for _, c := range []byte{';', '\t'} {
		if counts[c] > counts[best] {
			best = c
		}
	}
	return rune(best)
}

// reason returns an error of the reader without its position.
func reason(err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return e.Err
	}
	return err
}

// A Fault says what is wrong with a row.
type Fault struct {
	Line   int // from 1, with those of the header
	Member string
	Detail string
}

// Error returns the line and what is wrong.
func (f *Fault) Error() string {
	if f.Member == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Detail)
	}
	return fmt.Sprintf("line %d: %s: %s", f.Line, f.Member, f.Detail)
}

// Next returns the cells of the next row, and its line from 1. The error is io.EOF at the end, a *Fault for a
// row that is wrong, after which the next one can be read, or another one.
func (f *File) Next() (cells []string, line int, err error) {
	f.bounded.left = maxRecord
	cells, err = f.csv.Read()
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return nil, e.StartLine + f.skipped, &Fault{e.StartLine + f.skipped, "", "is not CSV: " + e.Err.Error()}
	}
	if err != nil {
		return nil, 0, err
	}
	line, _ = f.csv.FieldPos(0)
	line += f.skipped
	for i, cell := range cells {
		if !utf8.ValidString(cell) {
			return nil, line, &Fault{line, "", "is not UTF-8"}
		}
		cells[i] = strings.TrimSpace(Unescape(cell))
	}
	for len(cells) > len(f.Header) && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	if len(cells) > len(f.Header) {
		return nil, line, &Fault{line, "", fmt.Sprintf("has %d cells, more than the %d columns", len(cells), len(f.Header))}
	}
	return cells, line, nil
}

// Lines are the rows of a file as the lines of an import. Each line of it has the number of the first line of
// its row: lines in between are empty.
type Lines struct {
	// Refuse is called for each row that is wrong, which is left out. nil ends the lines with the *Fault.
	Refuse func(Fault) error

	file    *File
	kind    Kind
	columns Columns
	buffer  []byte
	written int // lines
	err     error
}

// NewLines returns the rows of a file as records of a kind.
func NewLines(f *File, kind Kind, columns Columns) (*Lines, error) {
	if err := kind.Check(columns); err != nil {
		return nil, err
	}
	return &Lines{file: f, kind: kind, columns: columns}, nil
}

// Read reads complete lines as long as b has space.
func (l *Lines) Read(b []byte) (int, error) {
	for len(l.buffer) == 0 && l.err == nil {
		l.err = l.next()
	}
	if len(l.buffer) == 0 {
		return 0, l.err
	}
	n := copy(b, l.buffer)
	l.buffer = l.buffer[n:]
	return n, nil
}

// next appends the line of the next row.
func (l *Lines) next() error {
	cells, line, err := l.file.Next()
	if err == nil {
		err = l.append(cells, line)
	}
	if fault, ok := errors.AsType[*Fault](err); ok && l.Refuse != nil {
		return l.Refuse(*fault)
	}
	return err
}

func (l *Lines) append(cells []string, line int) error {
	out := l.buffer[:0]
	for before := l.written; before < line-1; before++ {
		out = append(out, '\n')
	}
	out = append(out, `{"kind":"`+l.kind.Record+`"`...)
	given := false
	hash := sha256.New()
	for _, f := range l.kind.Fields {
		i, ok := l.columns[f.Member]
		text := ""
		if ok && i < len(cells) {
			text = cells[i]
		}
		if f.Member == "domain" {
			text = host(text)
		}
		fmt.Fprintf(hash, "%d %s", len(text), text)
		if text == "" {
			continue
		}
		given = true
		quotedText, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			return &Fault{line, f.Member, "is not UTF-8"}
		}
		out = append(append(out, `,"`+f.Member+`":`...), quotedText...)
	}
	if !given {
		return nil // an empty row
	}
	for _, f := range l.kind.Fields {
		if i := l.columns[f.Member]; f.Required && (i >= len(cells) || cells[i] == "") {
			return &Fault{line, f.Member, "is empty"}
		}
	}
	if l.kind.Record == "prospect" { // a row that is imported again is recognized
		id := base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding).EncodeToString(hash.Sum(nil))
		out = append(out, `,"prospectId":"prospect_`+id[:26]+`"`...)
	}
	out = append(out, '}', '\n')
	l.buffer = out
	l.written = line
	return nil
}

// host returns the host of the address of a site, without www, and other texts as they are.
func host(text string) string {
	_, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimPrefix(rest, "www.")
}
