package console

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"atrium"
	"atrium/internal/csvrows"
	"atrium/internal/rest"
)

// Bounds of a preview.
const (
	previewRows = 5
	previewCell = 80 // code points
)

// maxHeading is how much of the heading of a column is compared, in code points.
const maxHeading = 100

// A heavyFile is the CSV file of an upload. It is parsed as heavy work, but others may work while it waits for the
// browser.
type heavyFile struct {
	ctx     context.Context // ends with the upload
	request *request
	from    io.Reader
	hold    func(bytes int64) error // memory
	release func()                  // of the slot; nil while none is held
}

// heavyFile returns the file of an upload. Call release after it was parsed.
func (r *request) heavyFile(form uploadForm) (file *heavyFile, release func()) {
	hold, release := r.console.Limits.HoldMemory(r.w, r.user.TenantID)
	return &heavyFile{ctx: form.ctx, request: r, from: form.file, hold: hold}, release
}

// parse calls f, which reads the file, as heavy work. The code of the error is atrium.CodeUnavailable if the tenant may
// not do that, or the upload has ended.
func (h *heavyFile) parse(f func() error) error {
	if err := h.resume(); err != nil {
		return err
	}
	defer h.pause()
	return f()
}

func (h *heavyFile) resume() (err error) {
	if err := context.Cause(h.ctx); err != nil {
		return atrium.Unavailable(err)
	}
	h.release, err = rest.Admit(h.ctx, h.request.w, h.request.console.Limits.Heavy, h.request.tenant)
	return err
}

func (h *heavyFile) pause() {
	if h.release != nil {
		h.release()
		h.release = nil
	}
}

// Read fills b, so that the slot is not passed on for each part of the body. It is called within parse.
func (h *heavyFile) Read(b []byte) (n int, err error) {
	h.pause()
	for n < len(b) && err == nil {
		var some int
		some, err = h.from.Read(b[n:])
		n += some
	}
	if err := h.resume(); err != nil {
		return 0, err
	}
	return n, err
}

// heavyLines are lines that are read from a heavyFile.
type heavyLines struct {
	*csvrows.Lines
	file *heavyFile
}

func (h heavyLines) Read(b []byte) (n int, err error) {
	err = h.file.parse(func() (err error) {
		n, err = h.Lines.Read(b)
		return err
	})
	return n, err
}

// untilClosed ends the context of the request when the browser closes the connection, until end is called. It is for
// requests that change nothing.
func (r *request) untilClosed() (end func()) {
	plain := r.http
	ctx, cancel := rest.UntilClosed(plain.Context(), r.w)
	r.http = plain.WithContext(ctx)
	return func() {
		cancel()
		r.http = plain
	}
}

// A previewRow is a row of a file, or why it cannot be shown.
type previewRow struct {
	Cells []string
	Fault *csvrows.Fault
}

// readPreview reads the header and the first rows of a file of the kind of the page, and guesses what its columns are. It
// keeps what the page shows.
func (p *transferPage) readPreview(in *heavyFile) error {
	file, err := csvrows.NewFile(in, in.hold)
	if err != nil {
		return err
	}
	p.Header = file.Header
	guessed := p.Kind.Guess(file.Header)
	for _, f := range p.Kind.Fields {
		column, ok := guessed[f.Member]
		if !ok {
			column = -1
		}
		p.Columns = append(p.Columns, csvColumn{f, column})
	}
	for range previewRows {
		cells, _, err := file.Next()
		if fault, wrong := errors.AsType[*csvrows.Fault](err); wrong {
			p.Rows = append(p.Rows, previewRow{Fault: fault})
			continue
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		row := make([]string, len(cells))
		for i, cell := range cells {
			row[i] = atrium.Shorten(previewCell, string(cell))
		}
		p.Rows = append(p.Rows, previewRow{Cells: row})
	}
	return nil
}

// csvLines returns the rows of a file as lines, and keeps the columns that a form has chosen. Its errors are about
// their fields.
func (p *transferPage) csvLines(in *heavyFile, form uploadForm) (*csvrows.Lines, error) {
	kind, ok := csvrows.KindOf(form.fields.Get("kind"))
	if !ok {
		return nil, errors.New("choose what the rows are")
	}
	file, err := csvrows.NewFile(in, in.hold)
	if err != nil {
		return nil, err
	}
	p.Kind, p.Header, p.Columns = kind, file.Header, nil
	columns := csvrows.Columns{}
	var wrongColumn error
	for _, f := range kind.Fields {
		field := "column:" + f.Member
		heading := form.fields.Get(field)
		number, title, _ := strings.Cut(heading, ":")
		i, err := strconv.Atoi(number)
		switch {
		case heading != "" && (err != nil || i < 0 || i >= len(file.Header) || atrium.Shorten(maxHeading, file.Header[i]) != title):
			i, wrongColumn = -1, cmp.Or(wrongColumn, wrong(field, "%q is not a column of this file.", title))
		case heading == "" && f.Required:
			i, wrongColumn = -1, cmp.Or(wrongColumn, wrong(field, "needs a column"))
		case heading == "":
			i = -1
		default:
			columns[f.Member] = i
		}
		p.Columns = append(p.Columns, csvColumn{f, i})
	}
	if len(columns) == 0 && wrongColumn == nil {
		wrongColumn = atrium.Errorf(atrium.CodeInvalidRequest, "Choose a column for at least one field.")
	}
	if wrongColumn != nil {
		return nil, wrongColumn
	}
	return csvrows.NewLines(file, kind, columns)
}

// label adds the titles of the member of a fault and of its columns.
func (p *transferPage) label(f *lineFault) {
	f.Field = f.Member()
	var columns []string
	for _, source := range p.Kind.Sources(f.Member()) {
		if source.Member == f.Member() {
			f.Field = source.Title
		}
		for _, c := range p.Columns {
			if c.Member == source.Member && c.Column >= 0 {
				columns = append(columns, atrium.Shorten(maxHeading, p.Header[c.Column]))
			}
		}
	}
	f.Column = strings.Join(columns, ", ")
}

// Choice returns the value of a column in a form: its index and its heading.
func (p transferPage) Choice(i int) string {
	return strconv.Itoa(i) + ":" + atrium.Shorten(maxHeading, p.Header[i])
}
