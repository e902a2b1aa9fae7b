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

	"atrium"
	"atrium/internal/store"
)

// The limits of a chunk, which is imported in one transaction, and of one line.
const (
	chunkLines = 500
	chunkLinks = 4_000 // of prospects to accounts
	chunkBytes = 4 << 20
	maxLine    = 32 << 20
)

// Limits are what an import or an export of a server shares with other requests. Fields
// that are nil do not limit.
type Limits struct {
	// Acquire waits until the transfer may use the processor, which it releases before it
	// waits for its client or for a commit.
	Acquire func(ctx context.Context) (release func(), err error)

	// AcquireCommit waits until the transfer may store a chunk.
	AcquireCommit func(ctx context.Context) (release func(), err error)

	// Reserve takes bytes of memory.
	Reserve func(bytes int64) (release func(), err error)

	// Recheck returns an error if the caller may no longer do this. It is called before
	// each chunk is stored.
	Recheck func(ctx context.Context) error
}

// acquire calls one of the functions that acquire something; nil stands for none.
func acquire(ctx context.Context, f func(context.Context) (func(), error)) (release func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	return f(ctx)
}

// exportBuffer is how many encoded bytes an export writes at once.
const exportBuffer = 256 << 10

// Export writes all that a tenant has to w and returns how many lines that
// were. It is atrium.CodeNotFound if there is no such tenant.
func Export(ctx context.Context, s *store.Store, tenant atrium.TenantID, w io.Writer, limits Limits) (lines int, err error) {
	var buffer []byte
	var release func() // nil while the processor is not held
	yield := func() {
		if release != nil {
			release()
			release = nil
		}
	}
	defer yield()
	err = s.Export(ctx, tenant, func(record store.Record) (err error) {
		if release == nil {
			if release, err = acquire(ctx, limits.Acquire); err != nil {
				return err
			}
		}
		line, err := encode(record)
		if err != nil {
			return err
		}
		lines++
		buffer = append(append(buffer, line...), '\n')
		if len(buffer) < exportBuffer {
			return nil
		}
		yield()
		_, err = w.Write(buffer)
		buffer = buffer[:0]
		return err
	})
	yield()
	if err == nil && len(buffer) > 0 {
		_, err = w.Write(buffer)
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

	MaxLine int  // how long a line may be, in bytes; 0 stands for 32 MiB, which is the most
	MaxPage bool // a page may have atrium.MaxPageSize at most
	Limits  Limits
}

// A Report says what an import did.
type Report struct {
	Lines int `json:"lines"` // read up to the one that ended the import, blank ones included
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
			where = atrium.Printable(strings.TrimPrefix(f.Where, "/"))
		}
		fmt.Fprintf(&b, "\n  %s: %s", where, f.Detail)
	}
	return b.String()
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
	target := func(chunk []store.Import) (int, error) {
		release, err := acquire(ctx, o.Limits.AcquireCommit)
		if err != nil {
			return 0, err
		}
		defer release()
		return s.Import(ctx, change, chunk)
	}
	if o.Check {
		trial, err := s.NewTrial(ctx, tenant, func(ctx context.Context) (func(), error) { return acquire(ctx, o.Limits.Acquire) })
		if err != nil {
			return Report{}, err
		}
		defer trial.Close()
		target = func(chunk []store.Import) (int, error) { return trial.Import(ctx, chunk) }
	}
	compare := func(chunk []store.Import) ([]int, error) {
		release, err := acquire(ctx, o.Limits.Acquire)
		if err != nil {
			return nil, err
		}
		defer release()
		return s.Unstored(ctx, tenant, chunk)
	}
	im := &importing{compare: compare, target: target, limits: o.Limits, maxLine: min(cmp.Or(o.MaxLine, maxLine), maxLine), maxPage: o.MaxPage, from: max(o.FromLine, 1)}
	defer im.free()
	err := im.read(ctx, bufio.NewReaderSize(r, 256<<10))
	if err == nil && o.FromLine > im.report.Lines+1 {
		err = &PastEndError{o.FromLine, im.report.Lines}
	}
	return im.report, err
}

// An importing is one run of Import. Lines are read, then decoded, then stored: each of
// these waits for something else.
type importing struct {
	compare func([]store.Import) (unstored []int, err error)
	target  func([]store.Import) (added int, err error)
	limits  Limits
	maxLine int
	maxPage bool
	from    int
	report  Report

	raw      [][]byte       // lines that are not decoded yet; the last ones of lines
	chunk    []store.Import // decoded lines; the first ones of lines
	lines    []int          // the numbers of the lines of chunk and raw
	rawBytes int
	bytes    int // of chunk and raw
	links    int // of the prospects of chunk

	reserved int64 // bytes of memory
	releases []func()
}

// decodeAtOnce is how many bytes of lines are decoded at once, if the client sends as
// fast as they are.
const decodeAtOnce = 256 << 10

func (im *importing) read(ctx context.Context, in *bufio.Reader) error {
	for {
		if im.rawBytes >= decodeAtOnce || in.Buffered() == 0 {
			if err := im.decode(ctx); err != nil {
				return err
			}
		}
		if len(im.lines) >= chunkLines || im.bytes >= chunkBytes || im.links >= chunkLinks {
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
			return im.stop(im.report.Lines, atrium.Fault{Detail: fmt.Sprintf("is longer than %d bytes", im.maxLine)})
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

// decode decodes the lines that were read.
func (im *importing) decode(ctx context.Context) error {
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
			return im.stop(im.lines[len(im.chunk)], e.Faults...)
		}
		if err != nil {
			return err
		}
		if size := pageSize(item.Record); im.maxPage && size > atrium.MaxPageSize {
			return im.stop(im.lines[len(im.chunk)], atrium.PageTooLarge(size))
		}
		im.chunk = append(im.chunk, item)
		if p, ok := item.Record.(*store.LinkedProspect); ok {
			im.links += len(p.AccountIDs)
		}
	}
	clear(im.raw) // or these lines would be kept until as many others are read
	im.raw, im.rawBytes = im.raw[:0], 0
	return nil
}

// pageSize returns the size of a page, and 0 for any other record.
func pageSize(record store.Record) int {
	switch r := record.(type) {
	case *atrium.Page:
		return r.Size()
	case *store.ScheduledPage:
		return r.Size()
	}
	return 0
}

// unreserved is how many bytes every import may hold, so that a small one finds room
// whatever else is going on.
const unreserved = 64 << 10

// reserve takes memory until so many bytes are reserved.
func (im *importing) reserve(bytes int64) error {
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

// free gives back what was reserved.
func (im *importing) free() {
	for _, release := range im.releases {
		release()
	}
	im.reserved, im.releases = 0, nil
}

// resumeFrom returns the first line that is not stored, given the first one that is
// not in the chunk.
func (im *importing) resumeFrom(next int) int {
	if len(im.lines) > 0 {
		return im.lines[0]
	}
	return next
}

// stop returns the error for a line that cannot be taken. Those behind it do not count
// as read.
func (im *importing) stop(line int, faults ...atrium.Fault) error {
	im.report.Lines = line
	return &LineError{Line: line, ResumeFrom: im.resumeFrom(line), Faults: faults}
}

// flush stores the chunk.
func (im *importing) flush(ctx context.Context) error {
	if err := im.decode(ctx); err != nil || len(im.chunk) == 0 {
		return err
	}
	if im.limits.Recheck != nil {
		if err := im.limits.Recheck(ctx); err != nil {
			return &StopError{im.lines[0], false, err}
		}
	}
	err := im.store(im.chunk, im.lines)
	clear(im.chunk) // or lines of this chunk would be kept until the next one is as long
	im.chunk, im.lines, im.bytes, im.links = im.chunk[:0], im.lines[:0], 0, 0
	im.free()
	return err
}

// storeTries is how often one record is stored that other imports store as well.
const storeTries = 4

// once stores a part of the chunk, apart from what is stored already.
func (im *importing) once(chunk []store.Import) (unstored []int, added int, err error) {
	if unstored, err = im.compare(chunk); err != nil || len(unstored) == 0 {
		return nil, 0, err
	}
	todo := make([]store.Import, len(unstored))
	for i, index := range unstored {
		todo[i] = chunk[index]
	}
	added, err = im.target(todo)
	return unstored, added, err
}

// store stores a part of the chunk, which is halved if comparing it with what is stored
// is too much at once.
func (im *importing) store(chunk []store.Import, lines []int) error {
	unstored, added, err := im.once(chunk)
	for try := 1; errors.Is(err, store.ErrChunkTooLarge) && len(chunk) == 1 && try < storeTries; try++ {
		unstored, added, err = im.once(chunk) // another import has stored it
	}
	if errors.Is(err, store.ErrChunkTooLarge) && len(chunk) > 1 {
		half := len(chunk) / 2
		if err := im.store(chunk[:half], lines[:half]); err != nil {
			return err
		}
		return im.store(chunk[half:], lines[half:])
	}
	if refused, ok := errors.AsType[*store.ImportError](err); ok {
		index := refused.Index
		if len(unstored) > 0 {
			index = unstored[index]
		}
		return &LineError{
			Line: lines[index], ResumeFrom: lines[0],
			Faults: []atrium.Fault{{In: atrium.InBody, Where: "/" + refused.Member, Detail: refused.Detail}},
		}
	}
	if err != nil {
		return &StopError{lines[0], false, err}
	}
	im.report.Added += added
	im.report.Same += len(chunk) - added
	return nil
}

var errLineTooLong = errors.New("the line is too long")

// readLine returns the next line without its end, or io.EOF. The line is the
// caller's. With skip it returns nothing of the line, which may be of any length.
func (im *importing) readLine(in *bufio.Reader, skip bool) ([]byte, error) {
	var line []byte
	for some := false; ; {
		part, err := in.ReadSlice('\n')
		some = some || len(part) > 0
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
		case errors.Is(err, io.EOF) && some, err == nil:
			if line = bytes.TrimRight(line, "\r\n"); len(line) > im.maxLine {
				return nil, errLineTooLong
			}
			return line, nil
		default:
			return nil, err
		}
	}
}
