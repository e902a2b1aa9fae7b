package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"atrium"
	"atrium/internal/store"
)

// Options configure an import.
type Options struct {
	FromLine int  // first line to import, from 1; earlier lines are skipped without parsing
	Check    bool // validate everything, but store nothing

	// AllFaults, with Check, reports the faults of all lines instead of ending at the first invalid one.
	AllFaults bool

	// SkipExisting skips accounts and prospects whose identifier or domain is stored, even if they differ.
	SkipExisting bool

	// The actor and request in the audit log.
	Actor     string // "" for atrium.ActorCommandLine
	RequestID string

	MaxLine int  // maximum bytes of a line; 0 for 32 MiB, the upper limit
	MaxPage bool // limit pages to atrium.MaxPageSize
	Limits  Limits
}

// A Report is the result of an import.
type Report struct {
	Lines int `json:"lines"` // lines read, including blank ones and the one that ended the import
	Added int `json:"added"` // records stored, or with Check, that would be stored
	Same  int `json:"same"`  // records that already existed

	// How many of Added are prospects with a link to an account, and without one.
	LinkedProspects   int `json:"linkedProspects,omitzero"`
	UnlinkedProspects int `json:"unlinkedProspects,omitzero"`

	Faults     []LineFault `json:"faults,omitzero"`     // with Options.AllFaults, by line within a chunk
	MoreFaults bool        `json:"moreFaults,omitzero"` // the check ended after maxFaults of them
}

// A LineFault is a fault of a line.
type LineFault struct {
	Line    int    `json:"line"`    // from 1
	Pointer string `json:"pointer"` // to the member; "" for the line
	Detail  string `json:"detail"`
}

// maxFaults is the number of faults after which a check for all faults ends.
const maxFaults = 1000

// errEnough ends a check that has found maxFaults.
var errEnough = errors.New("enough faults")

// A LineError reports an invalid line, which stops the import. All lines before ResumeFrom are
// stored, and none from there on.
type LineError struct {
	Line       int // from 1
	ResumeFrom int
	Faults     []atrium.Fault
}

// Error names the line and all its faults. Member names come from the file, so they are escaped for
// terminals.
func (e *LineError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "line %d", e.Line)
	for _, f := range e.Faults {
		where := "the line"
		if f.Where != "" {
			where = atrium.Printable(strings.TrimPrefix(f.Where, "/"))
		}
		fmt.Fprintf(&b, "\n  %s: %s", where, f.Detail)
	}
	return b.String()
}

// A StopError reports a failure that is not in the file: the import was canceled, the file could
// not be read, or the store was unavailable. As with LineError, ResumeFrom is the first line that
// is not stored.
type StopError struct {
	ResumeFrom int
	Reading    bool // Err is from the reader
	Err        error
}

// A PastEndError reports that Options.FromLine is after the last line.
type PastEndError struct{ Line, Lines int }

func (e *PastEndError) Error() string {
	return fmt.Sprintf("there is no line %d: the file has %d", e.Line, e.Lines)
}

func (e *StopError) Error() string { return e.Err.Error() }

func (e *StopError) Unwrap() error { return e.Err }

// Import imports lines from r into a tenant, which must exist. Each chunk of lines is stored
// atomically. The first invalid line stops the import with a *LineError; the Report has the counts
// up to that line. A line whose identifier already exists is skipped if its members match the
// stored record, and invalid if they do not.
func Import(ctx context.Context, s *store.Store, tenant atrium.TenantID, r io.Reader, o Options) (Report, error) {
	if _, err := s.Tenant(ctx, tenant); err != nil {
		return Report{}, err
	}
	change := atrium.Change{TenantID: tenant, Actor: cmp.Or(o.Actor, atrium.ActorCommandLine), RequestID: o.RequestID}
	target := func(chunk []store.Import) (store.Imported, error) {
		release, err := acquire(ctx, o.Limits.AcquireCommit)
		if err != nil {
			return store.Imported{}, err
		}
		defer release()
		return s.Import(ctx, change, chunk)
	}
	matcher := func() (*store.Matcher, error) {
		release, err := acquire(ctx, o.Limits.AcquireCommit)
		if err != nil {
			return nil, err
		}
		defer release()
		return s.Matcher(ctx, change)
	}
	if o.Check {
		trial, err := s.NewTrial(ctx, tenant, func(ctx context.Context) (func(), error) {
			return acquire(ctx, o.Limits.Acquire)
		})
		if err != nil {
			return Report{}, err
		}
		defer trial.Close()
		target = func(chunk []store.Import) (store.Imported, error) { return trial.Import(ctx, chunk) }
		matcher = func() (*store.Matcher, error) { return trial.Matcher(ctx) }
	}
	compare := func(chunk []store.Import) ([]int, error) {
		release, err := acquire(ctx, o.Limits.Acquire)
		if err != nil {
			return nil, err
		}
		defer release()
		return s.Unstored(ctx, tenant, chunk)
	}
	im := &importer{
		compare: compare, target: target, matcher: sync.OnceValues(matcher), limits: o.Limits,
		maxLine: min(cmp.Or(o.MaxLine, maxLine), maxLine), maxPage: o.MaxPage, from: max(o.FromLine, 1),
		allFaults: o.Check && o.AllFaults, skipExisting: o.SkipExisting,
	}
	defer im.free()
	err := im.read(ctx, bufio.NewReaderSize(r, 256<<10))
	if errors.Is(err, errEnough) {
		im.report.MoreFaults, err = true, nil
	}
	if err == nil && o.FromLine > im.report.Lines+1 {
		err = &PastEndError{o.FromLine, im.report.Lines}
	}
	return im.report, err
}

// An importer is one run of Import. Lines are read, then decoded, then stored; each step waits for
// a different resource.
type importer struct {
	compare func([]store.Import) (unstored []int, err error)
	target  func([]store.Import) (store.Imported, error)
	limits  Limits

	matcher func() (*store.Matcher, error) // of the tenant; only imports that need it store a secret
	names   bool                           // a prospect has an identifier
	derives bool                           // a prospect is matched by its values

	maxLine int
	maxPage bool
	from    int
	report  Report

	allFaults, skipExisting bool

	raw      [][]byte       // lines that are not decoded yet, after those of chunk
	chunk    []store.Import // decoded lines
	lines    []int          // line numbers of chunk, then of raw
	rawBytes int
	bytes    int // of chunk and raw

	reserved int64 // reserved bytes of memory
	releases []func()
}

// decodeBytes is the number of bytes that are decoded at once, if the client sends fast enough.
const decodeBytes = 256 << 10

func (im *importer) read(ctx context.Context, in *bufio.Reader) error {
	for {
		im.report.Lines += skipBreaks(in)
		if im.rawBytes >= decodeBytes || in.Buffered() == 0 {
			if err := im.decode(ctx); err != nil {
				return err
			}
		}
		if len(im.lines) >= chunkLines || im.bytes >= chunkBytes {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
		line, err := im.readLine(in, im.report.Lines+1 < im.from)
		if errors.Is(err, io.EOF) {
			return im.flush(ctx)
		}
		im.report.Lines++
		if err != nil {
			if earlier := im.decode(ctx); earlier != nil {
				return earlier
			}
		}
		switch {
		case errors.Is(err, errLineTooLong):
			return im.stop(im.report.Lines, atrium.Fault{Detail: fmt.Sprintf("is longer than %d bytes", im.maxLine)}) // the rest of it is not skipped
		case err != nil:
			return &StopError{im.resumeFrom(im.report.Lines), true, fmt.Errorf("read line %d: %w", im.report.Lines, err)}
		}
		if im.report.Lines < im.from || len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		im.raw = append(im.raw, line)
		im.lines = append(im.lines, im.report.Lines)
		im.rawBytes += len(line)
		im.bytes += len(line)
		if err := context.Cause(ctx); err != nil {
			return &StopError{im.resumeFrom(im.report.Lines + 1), false, err}
		}
	}
}

// skipBreaks discards the empty lines that are buffered, and returns their number: files of CSV can have millions.
func skipBreaks(in *bufio.Reader) (lines int) {
	some, _ := in.Peek(in.Buffered())
	for lines < len(some) && some[lines] == '\n' {
		lines++
	}
	_, _ = in.Discard(lines)
	return lines
}

// decode decodes the lines read so far.
func (im *importer) decode(ctx context.Context) error {
	if len(im.raw) == 0 {
		return nil
	}
	release, err := acquire(ctx, im.limits.Acquire)
	if err != nil {
		return &StopError{im.lines[0], false, err}
	}
	defer release()
	for _, line := range im.raw {
		item, err := decode(line)
		if e, ok := errors.AsType[*atrium.Error](err); ok {
			if err := im.refuse(len(im.chunk), e.Faults...); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if size := pageSize(item.Record); im.maxPage && size > atrium.MaxPageSize {
			if err := im.refuse(len(im.chunk), atrium.PageTooLarge(size)); err != nil {
				return err
			}
			continue
		}
		im.chunk = append(im.chunk, item)
	}
	clear(im.raw) // releases the memory of the lines
	im.raw, im.rawBytes = im.raw[:0], 0
	return nil
}

// pageSize returns the size of a page, 0 for any other record.
func pageSize(record store.Record) int {
	switch r := record.(type) {
	case *atrium.Page:
		return r.Size()
	case *atrium.ScheduledPage:
		return r.Size()
	}
	return 0
}

// unreserved is the number of bytes that every import may use without a reservation, so that small
// imports always run.
const unreserved = 64 << 10

// reserve increases the reservation to at least the given number of bytes.
func (im *importer) reserve(bytes int64) error {
	if im.limits.Reserve == nil || bytes <= max(im.reserved, unreserved) {
		return nil
	}
	const step = 1 << 20
	more := (bytes - im.reserved + step - 1) / step * step
	release, err := im.limits.Reserve(more)
	if err != nil {
		return err
	}
	im.reserved += more
	im.releases = append(im.releases, release)
	return nil
}

// free releases all reserved memory.
func (im *importer) free() {
	for _, release := range im.releases {
		release()
	}
	im.reserved, im.releases = 0, nil
}

// resumeFrom returns the first line that is not stored. next is the first line after the chunk.
func (im *importer) resumeFrom(next int) int {
	if len(im.lines) > 0 {
		return im.lines[0]
	}
	return next
}

// stop returns the error for an invalid line. Later lines do not count as read.
func (im *importer) stop(line int, faults ...atrium.Fault) error {
	im.report.Lines = line
	return &LineError{Line: line, ResumeFrom: im.resumeFrom(line), Faults: faults}
}

// refuse returns the error for the invalid line at an index of lines. If all faults are reported, it leaves the
// line out and returns nil.
func (im *importer) refuse(index int, faults ...atrium.Fault) error {
	line := im.lines[index]
	if !im.allFaults {
		return im.stop(line, faults...)
	}
	im.lines = slices.Delete(im.lines, index, index+1)
	return im.collect(line, faults...)
}

// collect adds faults of a line to the report.
func (im *importer) collect(line int, faults ...atrium.Fault) error {
	for _, f := range faults {
		if len(im.report.Faults) == maxFaults {
			return errEnough
		}
		im.report.Faults = append(im.report.Faults, LineFault{line, f.Where, f.Detail})
	}
	return nil
}

var errLineTooLong = errors.New("the line is too long")

// readLine returns the next line without its line break, or io.EOF. The caller owns the line. With
// skip, it discards the line, which may have any length.
func (im *importer) readLine(in *bufio.Reader, skip bool) ([]byte, error) {
	var line []byte
	for found := false; ; {
		part, err := in.ReadSlice('\n')
		found = found || len(part) > 0
		if !skip {
			if err := im.reserve(int64(im.bytes + len(line) + len(part))); err != nil {
				return nil, err
			}
			line = append(line, part...)
		}
		switch {
		case len(line) > im.maxLine+len("\r\n"):
			return nil, errLineTooLong
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && found, err == nil:
			if line = bytes.TrimRight(line, "\r\n"); len(line) > im.maxLine {
				return nil, errLineTooLong
			}
			return line, nil
		default:
			return nil, err
		}
	}
}
