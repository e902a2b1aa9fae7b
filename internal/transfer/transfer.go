// Package transfer moves all that a tenant has out of a store and into one, as
// NDJSON: one object on a line, whose member kind says what it is.
//
// Export and import are inverse: what was exported, imported into an empty
// store and exported again is the same, byte for byte. Both stream: they hold
// one chunk in memory, however much there is.
package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"atrium"
	"atrium/internal/store"
)

// The limits of a chunk, which is imported in one transaction, and of one line.
const (
	chunkLines = 500
	chunkBytes = 4 << 20
	maxLine    = 32 << 20
)

// Export writes all that a tenant has to w and returns how many lines that
// were. It is atrium.CodeNotFound if there is no such tenant.
func Export(ctx context.Context, s *store.Store, tenant atrium.TenantID, w io.Writer) (lines int, err error) {
	out := bufio.NewWriterSize(w, 256<<10)
	err = s.Export(ctx, tenant, func(record store.Record) error {
		line, err := encode(record)
		if err != nil {
			return err
		}
		lines++
		_, _ = out.Write(line) // a failure stays and comes with the line break
		return out.WriteByte('\n')
	})
	if err == nil {
		err = out.Flush()
	}
	return lines, err
}

// Options of an import.
type Options struct {
	FromLine int  // the first line to look at, counted from 1; those before are skipped unread
	Check    bool // read and judge everything, and store nothing

	// Who imports, for the audit log.
	Actor     string // "" for atrium.ActorCommandLine
	RequestID string
}

// A Report says what an import did.
type Report struct {
	Lines int `json:"lines"` // read, blank ones included
	Added int `json:"added"` // stored, or with Check, that would be
	Same  int `json:"same"`  // that were there already
}

// A LineError says why an import stopped, where, and how to go on: all before
// ResumeFrom is stored, and nothing from there on.
type LineError struct {
	Line       int // counted from 1
	ResumeFrom int
	Faults     []atrium.Fault
}

// Error names the line and every fault in it, as text that a terminal can show:
// the names of members are the file's.
func (e *LineError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d", e.Line)
	for _, f := range e.Faults {
		where := "the line"
		if f.Where != "" {
			where = strings.Map(printable, strings.TrimPrefix(f.Where, "/"))
		}
		fmt.Fprintf(&b, "\n  %s: %s", where, f.Detail)
	}
	return b.String()
}

func printable(c rune) rune {
	if !unicode.IsPrint(c) {
		return unicode.ReplacementChar
	}
	return c
}

// A StopError says that an import stopped for a reason that is not in the file: it
// was called off, the file could not be read, the store was away. Like LineError,
// it says how to go on.
type StopError struct {
	ResumeFrom int
	Reading    bool // it is the reader's error
	Err        error
}

// A PastEndError says that the first line to be looked at is behind the last one.
type PastEndError struct{ Line, Lines int }

// Error says how many lines there are.
func (e *PastEndError) Error() string {
	return fmt.Sprintf("there is no line %d: the file has %d", e.Line, e.Lines)
}

// Error returns the reason.
func (e *StopError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *StopError) Unwrap() error { return e.Err }

// Import reads lines from r into a tenant, which must exist. A chunk of lines is
// stored or not as a whole. The first line that cannot be taken ends the import
// with a *LineError; the Report says what was done until then. A line whose
// identifier is there already is skipped if what it says is so, and cannot be
// taken if not.
func Import(ctx context.Context, s *store.Store, tenant atrium.TenantID, r io.Reader, o Options) (Report, error) {
	if _, err := s.Tenant(ctx, tenant); err != nil {
		return Report{}, err
	}
	change := atrium.Change{TenantID: tenant, Actor: cmp.Or(o.Actor, atrium.ActorCommandLine), RequestID: o.RequestID}
	target := func(chunk []store.Import) (int, error) { return s.Import(ctx, change, chunk) }
	if o.Check {
		trial, err := s.NewTrial(ctx, tenant)
		if err != nil {
			return Report{}, err
		}
		defer trial.Close()
		target = func(chunk []store.Import) (int, error) { return trial.Import(ctx, chunk) }
	}
	im := &importing{target: target, from: max(o.FromLine, 1)}
	err := im.read(ctx, bufio.NewReaderSize(r, 256<<10))
	if err == nil && o.FromLine > im.report.Lines+1 {
		err = &PastEndError{o.FromLine, im.report.Lines}
	}
	return im.report, err
}

type importing struct {
	target func([]store.Import) (int, error)
	from   int
	report Report

	chunk []store.Import
	lines []int // the number of the line of each item of the chunk
	bytes int
}

func (im *importing) read(ctx context.Context, in *bufio.Reader) error {
	for {
		line, err := readLine(in, im.report.Lines+1 < im.from)
		if errors.Is(err, io.EOF) {
			return im.flush()
		}
		im.report.Lines++
		if errors.Is(err, errLineTooLong) {
			return im.stop(atrium.Fault{Detail: err.Error()})
		}
		if err != nil {
			return &StopError{im.resumeFrom(im.report.Lines), true, fmt.Errorf("read line %d: %w", im.report.Lines, err)}
		}
		if im.report.Lines < im.from || len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		item, err := decode(line)
		if e, ok := errors.AsType[*atrium.Error](err); ok {
			return im.stop(e.Faults...)
		}
		if err != nil {
			return err
		}
		im.chunk = append(im.chunk, item)
		im.lines = append(im.lines, im.report.Lines)
		im.bytes += len(line)
		if len(im.chunk) >= chunkLines || im.bytes >= chunkBytes {
			if err := im.flush(); err != nil {
				return err
			}
		}
		if err := context.Cause(ctx); err != nil {
			return &StopError{im.resumeFrom(im.report.Lines + 1), false, err}
		}
	}
}

// resumeFrom returns the first line that is not stored, given the first one that is
// not in the chunk.
func (im *importing) resumeFrom(next int) int {
	if len(im.lines) > 0 {
		return im.lines[0]
	}
	return next
}

// stop returns the error for the line that was read last.
func (im *importing) stop(faults ...atrium.Fault) error {
	return &LineError{Line: im.report.Lines, ResumeFrom: im.resumeFrom(im.report.Lines), Faults: faults}
}

// flush stores the chunk.
func (im *importing) flush() error {
	if len(im.chunk) == 0 {
		return nil
	}
	added, err := im.target(im.chunk)
	if refused, ok := errors.AsType[*store.ImportError](err); ok {
		return &LineError{
			Line: im.lines[refused.Index], ResumeFrom: im.lines[0],
			Faults: []atrium.Fault{{In: atrium.InBody, Where: "/" + refused.Member, Detail: refused.Detail}},
		}
	}
	if err != nil {
		return &StopError{im.lines[0], false, err}
	}
	im.report.Added += added
	im.report.Same += len(im.chunk) - added
	im.chunk, im.lines, im.bytes = im.chunk[:0], im.lines[:0], 0
	return nil
}

var errLineTooLong = fmt.Errorf("is longer than %d MiB", maxLine>>20)

// readLine returns the next line without its end, or io.EOF. The line is the
// caller's. With skip it returns nothing of the line, which may be of any length.
func readLine(in *bufio.Reader, skip bool) ([]byte, error) {
	var line []byte
	for some := false; ; {
		part, err := in.ReadSlice('\n')
		some = some || len(part) > 0
		if !skip {
			line = append(line, part...)
		}
		switch {
		case len(line) > maxLine+len("\r\n"):
			return nil, errLineTooLong
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && some, err == nil:
			if line = bytes.TrimRight(line, "\r\n"); len(line) > maxLine {
				return nil, errLineTooLong
			}
			return line, nil
		default:
			return nil, err
		}
	}
}
