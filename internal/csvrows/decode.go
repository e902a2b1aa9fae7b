package csvrows

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"atrium"
)

// A File is CSV that is read row by row: with commas, semicolons or tabs, with or without a byte order mark,
// with any line ends, and with line breaks in quoted cells. It holds one row in memory, of at most 1 MiB.
type File struct {
	Header []string

	rows  *splitter
	cells [][]byte
}

var (
	errNotUTF8  = errors.New("the file is not UTF-8: in Excel, save it as CSV UTF-8")
	errWorkbook = errors.New("this is an Excel workbook: save it as CSV UTF-8")
)

// CheckWorkbook returns an error if a file begins as an Excel workbook does: as a ZIP archive, or as a compound file of
// older versions.
func CheckWorkbook(begin []byte) error {
	if bytes.HasPrefix(begin, []byte("PK\x03\x04")) || bytes.HasPrefix(begin, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")) {
		return errWorkbook
	}
	return nil
}

// NewFile reads the header of CSV. The file calls hold before it uses more than a little memory, with all that it
// may use from then on, in bytes; the error of hold ends it. hold may be nil.
func NewFile(r io.Reader, hold func(bytes int64) error) (*File, error) {
	in := bufio.NewReaderSize(r, readBuffer)
	begin, err := in.Peek(4 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := CheckWorkbook(begin); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(begin, []byte("\xff\xfe")) || bytes.HasPrefix(begin, []byte("\xfe\xff")) || bytes.IndexByte(begin, 0) >= 0 {
		return nil, errNotUTF8
	}
	if bytes.HasPrefix(begin, []byte("\uFEFF")) {
		begin = begin[3:]
		_, _ = in.Discard(3) // was peeked
	}
	f := &File{rows: newSplitter(in, ',', hold)}
	if line, ok := bytes.CutPrefix(begin, []byte("sep=")); ok && len(line) > 1 && endsLine(line[1]) {
		f.rows.comma, f.rows.skip = line[0], true
		if c := line[0]; c == '"' || endsLine(c) || c >= utf8.RuneSelf {
			return nil, errors.New("the separator after sep= is not an ASCII character that can separate cells")
		}
	} else {
		f.rows.comma = delimiter(begin)
	}
	err = f.rows.next()
	if fault, ok := errors.AsType[*Fault](err); ok {
		return nil, errors.New("the first line is not a row of column names: it " + fault.Detail)
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case err != nil:
		return nil, err
	case f.rows.cells > maxColumns:
		return nil, fmt.Errorf("the file has more than %d columns", maxColumns)
	case !f.rows.valid:
		return nil, errNotUTF8
	}
	for _, cell := range f.rows.appendCells(nil) {
		f.Header = append(f.Header, string(cell))
	}
	f.rows.columns = len(f.Header)
	return f, nil
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

// Next returns the cells of the next row, which are valid until the next call, and its line from 1. The error is
// io.EOF at the end, a *Fault for a row that is wrong, after which the next one can be read, or another one.
func (f *File) Next() (cells [][]byte, line int, err error) {
	if err := f.rows.next(); err != nil {
		return nil, 0, err
	}
	line = f.rows.first
	switch {
	case !f.rows.valid:
		return nil, line, &Fault{line, "", "is not UTF-8: in Excel, save the file as CSV UTF-8"}
	case f.rows.last > 0:
		return nil, line, &Fault{line, "", fmt.Sprintf("has %d cells, more than the %d columns", f.rows.last, len(f.Header))}
	}
	f.cells = f.rows.appendCells(f.cells[:0])
	return f.cells, line, nil
}

// Lines are the rows of a file as the lines of an import. Each line of it has the number of the first line of
// its row: lines in between are empty. It holds one line in memory.
type Lines struct {
	// Refuse is called for each row that is wrong, which is left out. nil ends the lines with the *Fault.
	Refuse func(Fault) error

	// Nameless counts the lines so far that are persons without a name.
	Nameless int

	file    *File
	kind    Kind
	columns Columns
	err     error

	written int    // lines, with breaks and rest
	breaks  int    // line breaks to read before rest
	rest    []byte // of the line in buffer that is not read yet
	buffer  []byte
	texts   [][]byte // of the fields of a row
	joined  []byte   // the parts of a name
}

// NewLines returns the rows of a file as records of a kind.
func NewLines(f *File, kind Kind, columns Columns) (*Lines, error) {
	if err := kind.Check(columns); err != nil {
		return nil, err
	}
	return &Lines{file: f, kind: kind, columns: columns}, nil
}

// Read fills b, but does not wait for the file if it has a part of b.
func (l *Lines) Read(b []byte) (n int, err error) {
	for n < len(b) {
		switch {
		case l.breaks > 0:
			some := b[n:min(len(b), n+l.breaks)]
			for i := range some {
				some[i] = '\n'
			}
			n += len(some)
			l.breaks -= len(some)
		case len(l.rest) > 0:
			some := copy(b[n:], l.rest)
			n += some
			l.rest = l.rest[some:]
		case n > 0 && l.ends():
			return n, nil
		case l.err != nil:
			return 0, l.err
		default:
			l.err = l.next()
		}
	}
	return n, nil
}

// ends reports whether there is no more line, or only after waiting for the file.
func (l *Lines) ends() bool { return l.err != nil || l.file.rows.in.Buffered() == 0 }

// next makes the line of the next row, if it is one of the import.
func (l *Lines) next() error {
	cells, line, err := l.file.Next()
	if err == nil {
		err = l.encode(cells, line)
	}
	if fault, ok := errors.AsType[*Fault](err); ok && l.Refuse != nil {
		return l.Refuse(*fault)
	}
	return err
}

func (l *Lines) encode(cells [][]byte, line int) error {
	l.texts = l.texts[:0]
	empty, name := true, -1
	for n, f := range l.kind.Fields {
		var text []byte
		if i, ok := l.columns[f.Member]; ok && i < len(cells) {
			text = cells[i]
		}
		empty = empty && len(text) == 0
		if f.Member == "domain" || f.Member == memberAccount {
			text = host(text)
		}
		if f.Member == memberName {
			name = n
		}
		l.texts = append(l.texts, text)
	}
	if empty {
		return nil
	}
	if name >= 0 && !l.joinParts(name) {
		return &Fault{line, memberName, fmt.Sprintf("has more than %d characters", atrium.MaxProspectText)}
	}
	out := l.buffer[:0]
	out = append(out, `{"kind":"`+l.kind.Record+`"`...)
	for i, f := range l.kind.Fields {
		switch text := l.texts[i]; {
		case (f.Member == "domain" && f.Required || f.Member == memberAccount) && len(text) > 0 && !IsDomain(text):
			return &Fault{line, f.Member, NotDomain}
		case f.Member == memberEmail && len(text) > 0 && (len(text) > maxPersonal || !atrium.IsEmail(string(text))):
			return &Fault{line, f.Member, "is not an email address, such as jane@example.com"}
		case len(text) > 0:
			var err error
			if out, err = jsontext.AppendQuote(append(out, `,"`+f.Member+`":`...), text); err != nil {
				return err
			}
		case f.Required:
			return &Fault{line, f.Member, "is empty"}
		}
	}
	if l.kind.Record == "prospect" {
		if len(l.texts[name]) == 0 {
			l.Nameless++
		}
		out = append(out, `,"matchBy":"`+l.matchBy()+`"`...)
	}
	out = append(out, "}\n"...)
	l.buffer, l.rest = out, out
	l.breaks, l.written = line-1-l.written, line
	return nil
}

// memberName is the member that parts are joined into.
const (
	memberAccount   = "accountDomain"
	memberEmail     = "email"
	memberName      = "name"
	memberFirstName = "firstName"
	memberLastName  = "lastName"
)

// maxPersonal is the maximum size in bytes of a text of a person that is copied.
const maxPersonal = atrium.MaxProspectText * utf8.UTFMax

// joinParts joins the parts of a name, in the order of the fields, unless the row has the whole name. The texts have no
// parts afterwards. It reports whether the name is not too long.
func (l *Lines) joinParts(name int) bool {
	l.joined = l.joined[:0]
	for i, f := range l.kind.Fields {
		if f.partOf != memberName {
			continue
		}
		if len(l.joined)+len(l.texts[i]) > maxPersonal {
			return false
		}
		if len(l.joined) > 0 && len(l.texts[i]) > 0 {
			l.joined = append(l.joined, ' ')
		}
		l.joined = append(l.joined, l.texts[i]...)
		l.texts[i] = nil
	}
	if len(l.texts[name]) == 0 {
		l.texts[name] = l.joined
	}
	return true
}

// matchBy returns how a row that is a prospect is matched when it is imported again: by its email address, or by all
// its values if it has none. The server derives its identifier from them, because that needs a secret.
func (l *Lines) matchBy() string {
	i := slices.IndexFunc(l.kind.Fields, func(f Field) bool { return f.Member == memberEmail })
	if len(l.texts[i]) > 0 {
		return "email"
	}
	return "values"
}

// IsDomain reports whether a text may be the domain of an organization: it has a dot (RFC 3490 section 3.1 has the other
// forms of it) and no space. An account may have any text as its domain, but in a table or a form that is a name in the
// wrong place.
func IsDomain(text []byte) bool {
	text = bytes.TrimSpace(text)
	return bytes.ContainsAny(text, ".。．｡") && !bytes.ContainsAny(text, " \t\r\n")
}

// NotDomain is the fault of a text that IsDomain refuses.
const NotDomain = "needs a dot and no spaces, as in example.com"

// host returns the host of the address of a site, without www, and other texts as they are.
func host(text []byte) []byte {
	_, rest, ok := bytes.Cut(text, []byte("://"))
	if !ok {
		return text
	}
	if i := bytes.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return bytes.TrimPrefix(rest, []byte("www."))
}
