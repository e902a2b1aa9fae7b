package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
)

// A lineUpload is a body of lines that ends with a whole one, also when somebody
// stops it or it cannot be read on: then all that was sent counts, and its sender knows
// how much that is.
type lineUpload struct {
	*io.PipeReader
	out *io.PipeWriter

	mu    sync.Mutex
	ended bool  // guarded by mu
	sent  int64 // guarded by mu; lines
	err   error // guarded by mu; why it ended early
}

// lineBuffer is how much is read at once; a line may be longer.
const lineBuffer = 64 << 10

// wholeLines returns the lines of in, until ctx is done.
func wholeLines(ctx context.Context, in io.Reader) *lineUpload {
	read, written := io.Pipe()
	u := &lineUpload{PipeReader: read, out: written}
	context.AfterFunc(ctx, func() { u.end(context.Cause(ctx)) })
	go u.pump(in)
	return u
}

func (u *lineUpload) pump(in io.Reader) {
	var held []byte // what is read and not sent: a part of a line
	for {
		held = slices.Grow(held, lineBuffer)
		before := len(held)
		n, err := in.Read(held[before:cap(held)])
		held = held[:before+n]
		whole := 0
		if i := bytes.LastIndexByte(held[before:], '\n'); i >= 0 {
			whole = before + i + 1
		}
		if errors.Is(err, io.EOF) {
			whole = len(held)
		}
		if !u.send(held[:whole]) {
			return
		}
		held = append(held[:0], held[whole:]...)
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

// send reports whether the upload goes on.
func (u *lineUpload) send(lines []byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended || len(lines) == 0 {
		return !u.ended
	}
	_, err := u.out.Write(lines)
	u.sent += int64(bytes.Count(lines, []byte{'\n'}))
	return err == nil // or nobody reads them any more
}

// end ends the upload between two lines.
func (u *lineUpload) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		u.ended, u.err = true, err
		_ = u.out.Close()
	}
}

// failure returns why the upload ended early, nil if it did not.
func (u *lineUpload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// lines returns how many were sent.
func (u *lineUpload) lines() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sent
}
