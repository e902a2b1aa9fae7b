package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"atrium"
)

// A lineUpload is a request body that always ends after a complete line, even if it is canceled or
// its source fails. The sender knows how many lines were sent, so that the import can continue
// there.
type lineUpload struct {
	*io.PipeReader
	out     *io.PipeWriter
	inspect func(lines []byte) error // called with lines before they are sent; an error ends the upload

	mu    sync.Mutex
	ended bool  // guarded by mu
	sent  int64 // guarded by mu; lines
	err   error // guarded by mu; why it ended early
}

// lineBuffer is the size of one read in bytes. Lines can be longer.
const lineBuffer = 64 << 10

// maxHeldLine is the size in bytes at which an incomplete line is sent anyway. The server rejects
// lines of more than 32 MiB.
const maxHeldLine = 33 << 20

// newLineUpload returns an upload of the lines of in that ends when ctx is done or inspect returns an
// error.
func newLineUpload(ctx context.Context, in io.Reader, inspect func(lines []byte) error) *lineUpload {
	read, written := io.Pipe()
	u := &lineUpload{PipeReader: read, out: written, inspect: inspect}
	context.AfterFunc(ctx, func() { u.end(context.Cause(ctx)) })
	go u.copyLines(in)
	return u
}

// copyLines sends in, line by line, until its end or an error.
func (u *lineUpload) copyLines(in io.Reader) {
	var buffered []byte // incomplete last line, not sent yet
	for {
		buffered = slices.Grow(buffered, lineBuffer)
		before := len(buffered)
		n, err := in.Read(buffered[before:cap(buffered)])
		buffered = buffered[:before+n]
		complete := 0
		if i := bytes.LastIndexByte(buffered[before:], '\n'); i >= 0 {
			complete = before + i + 1
		}
		if errors.Is(err, io.EOF) || len(buffered)-complete > maxHeldLine {
			complete = len(buffered)
		}
		if fault := u.inspect(buffered[:complete]); fault != nil {
			u.end(fault)
			return
		}
		if !u.send(buffered[:complete]) {
			return
		}
		buffered = append(buffered[:0], buffered[complete:]...)
		switch {
		case errors.Is(err, io.EOF):
			u.end(nil)
			return
		case err != nil:
			u.end(err)
			return
		}
	}
}

// send sends lines and reports whether to continue.
func (u *lineUpload) send(lines []byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended || len(lines) == 0 {
		return !u.ended
	}
	_, err := u.out.Write(lines)
	u.sent += int64(bytes.Count(lines, []byte{'\n'}))
	return err == nil // fails if the reader was closed
}

// end ends the upload after the last line that was sent.
func (u *lineUpload) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		u.ended, u.err = true, err
		_ = u.out.Close()
	}
}

// failure returns why the upload ended early, or nil.
func (u *lineUpload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// lines returns the number of lines sent.
func (u *lineUpload) lines() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sent
}

// errNoObjects is the error for a file that does not start with a JSON object.
var errNoObjects = errors.New("not NDJSON: a file has one JSON object per line, such as {\"kind\":\"account\",…}; for CSV, pass --csv")

// An importInspector checks how an import starts, and counts the prospects that are not matched.
type importInspector struct {
	from    int64 // first line that is imported
	line    int64 // lines seen
	started bool  // a line that is not blank was seen
	unnamed atomic.Int64
}

// inspect looks at complete lines. It returns errNoObjects if the first of a file cannot be an object.
func (i *importInspector) inspect(lines []byte) error {
	for line := range bytes.Lines(lines) {
		i.line++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if !i.started && i.from <= 1 && line[0] != '{' {
			return fmt.Errorf("line %d is not a JSON object: the file is %w", i.line, errNoObjects)
		}
		i.started = true
		if i.line < i.from || !bytes.Contains(line, []byte(`"prospect"`)) {
			continue
		}
		var prospect struct {
			Kind       string `json:"kind"`
			ProspectID string `json:"prospectId"`
			MatchBy    string `json:"matchBy"`
		}
		if json.Unmarshal(line, &prospect) == nil && prospect.Kind == "prospect" && prospect.ProspectID == "" && prospect.MatchBy == "" {
			i.unnamed.Add(1)
		}
	}
	return nil
}

// warning returns what to know about importing the lines again, or nil.
func (i *importInspector) warning() []string {
	n := i.unnamed.Load()
	if n == 0 {
		return nil
	}
	return []string{atrium.Count(n, "prospect", "prospects") + " without a prospectId: importing the file again adds them again"}
}
