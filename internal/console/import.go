package console

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/csvrows"
	"atrium/internal/rest"
)

// Bounds of what is shown of a result.
const (
	shownFaults  = 200
	maxRowFaults = 1000 // of CSV, as in the API
)

type transferPage struct {
	Kinds []csvrows.Kind

	// Of the second step for CSV.
	Kind    csvrows.Kind
	File    string
	Columns []csvColumn
	Header  []string
	Rows    []previewRow
	Skip    bool   // rows that exist
	Kept    string // the file in base64; "" if it must be chosen again

	Result *importResult
}

// A csvColumn is a member with the column that has it.
type csvColumn struct {
	csvrows.Field
	Column int // -1 for none
}

// An importResult is what an import or a check has found.
type importResult struct {
	File  string
	Check bool
	Lines int64 `json:"lines"`
	Added int64 `json:"added"`
	Same  int64 `json:"same"`

	Linked   int64 `json:"linkedProspects"` // of those that are added
	Unlinked int64 `json:"unlinkedProspects"`
	Persons  bool  // the rows of a CSV file are persons
	again    bool  // a check after an import that was refused

	Nameless   int         // rows of a CSV file that are persons without a name
	Faults     []lineFault `json:"faults"`
	MoreFaults bool        `json:"moreFaults"`
	Unshown    int         // more faults
	Refused    string      // why the import ended
}

type lineFault struct {
	Line    int64  `json:"line"`
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`

	Field, Column string // titles; Column is "" if there is none
}

// Member returns the member that has the fault; "" for the line.
func (f lineFault) Member() string { return strings.TrimPrefix(f.Pointer, "/") }

func (c *Console) transferPage(r *request) error {
	return r.show("transfer", "transfer", "Import and export", transferPage{Kinds: csvrows.Kinds})
}

// importColumns is the first step for CSV: it shows the first rows, and asks what the columns are.
func (c *Console) importColumns(r *request) error {
	if err := r.require(atrium.ScopeManage); err != nil {
		return err
	}
	defer r.untilClosed()()
	form, end, err := r.readUpload()
	defer end()
	if err != nil {
		return r.refuseUpload(form, err)
	}
	p := transferPage{Kinds: csvrows.Kinds, File: form.name, Skip: true}
	var ok bool
	if p.Kind, ok = csvrows.KindOf(form.fields.Get("kind")); !ok {
		return r.refuseUpload(form, wrong("kind", "Choose what the rows are."))
	}
	kept := r.keep(&form)
	defer kept.release()
	file, release := r.heavyFile(form)
	defer release()
	err = file.parse(func() error { return p.readPreview(file) })
	release() // the rest of the file is not parsed
	p.Kept = kept.encoded()
	end()
	switch {
	case atrium.CodeOf(err) == atrium.CodeUnavailable:
		return err
	case err != nil:
		return r.refuseUpload(form, unreadable(form, err.Error()))
	}
	return r.show("columns", "transfer", "Import "+form.name, p)
}

// unreadable returns the error of a file that cannot be read.
func unreadable(form uploadForm, why string) error {
	return wrong("file", "%s", form.name+" cannot be imported: "+why+".")
}

// refuseUpload shows the page with the forms for files again, after the whole file was read.
func (r *request) refuseUpload(form uploadForm, err error) error {
	if err := r.refuse(err); err != nil {
		return err
	}
	p := transferPage{Kinds: csvrows.Kinds}
	var isCSV bool
	if p.Kind, isCSV = csvrows.KindOf(form.fields.Get("kind")); isCSV {
		r.formPath = r.path("import", "columns")
	} else {
		r.formPath = r.http.URL.Path
	}
	return r.show("transfer", "transfer", "Import and export", p)
}

// importFile imports or checks a file of either format.
func (c *Console) importFile(r *request) error {
	if err := r.require(atrium.ScopeManage); err != nil {
		return err
	}
	result := &importResult{Check: r.query("check") == "true"}
	if result.Check {
		defer r.untilClosed()()
	}
	form, end, err := r.readUpload()
	defer end()
	if err != nil {
		return r.refuseUpload(form, err)
	}
	result.File = form.name
	p := transferPage{Kinds: csvrows.Kinds, File: form.name, Result: result}
	if form.fields.Get("kind") == "" {
		return r.importNDJSON(&p, form, end)
	}
	p.Skip = form.fields.Get("skip") != ""
	kept := r.keep(&form)
	defer kept.release()
	if err := r.importRows(&p, form, result); err != nil {
		return r.refuseColumns(&p, form, kept, end, err)
	}
	p.Kept = kept.encoded()
	if !result.Check && result.Refused == "" {
		end() // browsers show a response after they have sent everything
		return r.show("transfer", "transfer", "Import and export", p)
	}
	if !result.Check && p.Kept != "" { // an import ends at the first fault
		again := &importResult{Check: true, again: true}
		form.file = bytes.NewReader(kept.content)
		if err := r.importRows(&p, form, again); err == nil && len(again.Faults) > 0 {
			result.Faults, result.MoreFaults, result.Lines = again.Faults, again.MoreFaults, again.Lines
		}
	}
	end()
	result.limit()
	for i := range result.Faults {
		p.label(&result.Faults[i])
	}
	return r.show("columns", "transfer", "Import "+form.name, p)
}

// refuseColumns shows the page of the columns again, or that with the forms for files if the columns are not known.
func (r *request) refuseColumns(p *transferPage, form uploadForm, kept *keeper, end func(), err error) error {
	if p.Header != nil {
		p.Kept = kept.encoded()
	}
	end()
	if p.Header == nil || !aboutInput(err) {
		return r.refuseUpload(form, err)
	}
	p.Result, r.refused, r.formPath = nil, err, r.http.URL.Path
	return r.show("columns", "transfer", "Import "+form.name, *p)
}

// importNDJSON imports or checks a file from an export, if it may be one.
func (r *request) importNDJSON(p *transferPage, form uploadForm, end func()) error {
	in := bufio.NewReader(form.file)
	begin, _ := in.Peek(512) // the import reports the error
	text := bytes.TrimSpace(bytes.TrimPrefix(begin, []byte("\uFEFF")))
	err := csvrows.CheckWorkbook(begin)
	if err == nil && len(text) > 0 && text[0] != '{' {
		err = errors.New("this is not NDJSON, because its first line is not a JSON object: if it is a table, choose it under Import CSV")
	}
	if err != nil {
		end()
		return r.refuseUpload(form, unreadable(form, err.Error()))
	}
	result := p.Result
	if err := r.importLines(in, false, result); err != nil {
		return err
	}
	result.limit()
	for i, f := range result.Faults {
		result.Faults[i].Field = f.Member()
	}
	end()
	return r.show("transfer", "transfer", "Import and export", *p)
}

// importRows imports or checks a CSV file with the columns of a form.
func (r *request) importRows(p *transferPage, form uploadForm, result *importResult) error {
	file, release := r.heavyFile(form)
	defer release()
	var rows *csvrows.Lines
	err := file.parse(func() (err error) {
		rows, err = p.csvLines(file, form)
		return err
	})
	if _, about := asError(err); about {
		return err
	}
	if err != nil {
		return wrong("file", "%s.", upper(err.Error()))
	}
	var faults []lineFault
	rows.Refuse = func(f csvrows.Fault) error {
		if !result.Check || len(faults) == maxRowFaults {
			return &f
		}
		faults = append(faults, lineFault{Line: int64(f.Line), Pointer: f.Member, Detail: f.Detail})
		return nil
	}
	// What a refused import has stored is no fault of the check after it.
	if err := r.importLines(heavyLines{rows, file}, p.Skip || result.again, result); err != nil {
		return err
	}
	result.Persons, result.Nameless = p.Kind.Record == "prospect", rows.Nameless
	result.Faults = append(result.Faults, faults...)
	slices.SortStableFunc(result.Faults, func(a, b lineFault) int { return cmp.Compare(a.Line, b.Line) })
	return nil
}

// importLines imports or checks lines.
func (r *request) importLines(lines io.Reader, skip bool, result *importResult) error {
	query := url.Values{}
	if result.Check {
		query = url.Values{"check": {"true"}, "allFaults": {"true"}}
	}
	if skip {
		query.Set("skipExisting", "true")
	}
	upload := &failingReader{from: lines}
	a, err := r.call(call{method: http.MethodPost, path: "/import", query: query, lines: upload})
	if err == nil {
		err = json.Unmarshal(a.body, result)
	}
	return result.refuse(err, upload.err)
}

// A failingReader keeps the error of the reader that it reads. A fault of a row ends the import with its text, which the list of
// refused requests then shows.
type failingReader struct {
	from io.Reader
	err  error
}

func (f *failingReader) Read(b []byte) (int, error) {
	n, err := f.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	if fault, ok := errors.AsType[*csvrows.Fault](err); ok {
		refused := atrium.Errorf(atrium.CodeInvalidRequest, "Line %d was rejected.", fault.Line)
		refused.Faults = []atrium.Fault{{In: atrium.InBody, Where: fmt.Sprintf("/%d/%s", fault.Line, fault.Member), Detail: fault.Detail}}
		err = refused
	}
	return n, err
}

// refuse takes the error of an import, and that of reading its file. It returns an error that is not about
// the file.
func (i *importResult) refuse(err, reading error) error {
	if err == nil {
		return nil
	}
	e, ok := asError(err)
	if !ok || rest.Info(e.Code).Status >= http.StatusInternalServerError && reading == nil || e.Code == atrium.CodeForbidden || e.Code == atrium.CodeUnauthenticated {
		return err
	}
	if atrium.CodeOf(reading) == atrium.CodeUnavailable {
		if i.Check {
			return reading
		}
		i.Refused = "The service is busy. Some rows may be stored: import the file again, and skip those that are stored."
		return nil
	}
	detail, _, counted := strings.Cut(e.Detail, " All lines before ")
	if !counted {
		detail, _, counted = strings.Cut(e.Detail, " Resume with ")
	}
	if !counted && !i.Check {
		detail += " Some rows may be stored."
	}
	i.Refused = detail + " Correct the file, and import it again."
	if fault, ok := errors.AsType[*csvrows.Fault](reading); ok {
		i.Faults = append(i.Faults, lineFault{Line: int64(fault.Line), Pointer: fault.Member, Detail: fault.Detail})
	} else {
		for _, f := range e.Faults {
			number, member, _ := strings.Cut(strings.TrimPrefix(f.Where, "/"), "/")
			line, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				continue
			}
			i.Faults = append(i.Faults, lineFault{Line: line, Pointer: member, Detail: f.Detail})
		}
	}
	if len(i.Faults) > 0 { // they say what is wrong
		_, stored, _ := strings.Cut(detail, ". ")
		i.Refused = "This file has faults. " + stored + " Correct these lines, and import it again:"
	}
	return nil
}

// limit leaves out faults that the page does not show.
func (i *importResult) limit() {
	if more := len(i.Faults) - shownFaults; more > 0 {
		i.Faults, i.Unshown = i.Faults[:shownFaults], more
	}
}

// upper returns a text that begins with a capital.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
