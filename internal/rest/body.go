package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// smallBody is how much of a body of HTTP/1 is always taken: the limit of connections bounds
// that. What is above it is taken from the pool that all bodies share, and so is every byte
// with HTTP/2, where a connection has many requests at a time. It is also how much of
// the stated length gets memory before any of it has come.
const smallBody = 16 << 10

// errBodies says why a body is not read on, or an answer not sent.
var errBodies = fmt.Errorf("memory for bodies and answers: %w", limit.ErrBusy)

// A body is read as a whole. What it takes from the pool of all bodies it has until it
// ends, with the request.
type body struct {
	w      http.ResponseWriter
	r      *http.Request
	from   io.Reader
	pool   *limit.Quota[atrium.TenantID]
	tenant atrium.TenantID
	free   int64 // how much is not taken from the pool
	size   int64 // of what was read
	taken  int64 // from the pool
}

func (a *API) newBody(w http.ResponseWriter, r *http.Request, tenant atrium.TenantID) *body {
	b := &body{w: w, r: r, pool: a.Limits.Bodies, tenant: tenant}
	if r.ProtoMajor == 1 {
		b.free = smallBody
	}
	return b
}

func (b *body) end() { b.pool.Return(b.tenant, b.taken) }

// read returns the whole body, or an error as soon as it is known to be too large or to
// find no room. It never holds more than the limit.
func (b *body) read(limit int64) ([]byte, error) {
	tooLarge := atrium.Errorf(atrium.CodePayloadTooLarge, "The body may have %d bytes at most.", limit)
	if b.r.ContentLength > limit {
		closeAfter(b.w, b.r)
		return nil, tooLarge
	}
	var buffer bytes.Buffer
	buffer.Grow(int(min(max(b.r.ContentLength, 0), b.free)) + bytes.MinRead)
	b.from = http.MaxBytesReader(b.w, b.r.Body, limit)
	_, err := buffer.ReadFrom(b)
	if err == nil {
		return buffer.Bytes(), nil
	}
	closeAfter(b.w, b.r)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if errors.Is(err, errBodies) {
		note(b.w).Refused = telemetry.ByBodyMemory
		return nil, atrium.Unavailable(err)
	}
	return nil, atrium.Invalid(atrium.Fault{In: atrium.InBody, Detail: "ended before it was complete"}).Because(err)
}

// Read reads on and takes from the pool what has come.
func (b *body) Read(to []byte) (int, error) {
	n, err := b.from.Read(to)
	b.size += int64(n)
	if more := b.size - b.free - b.taken; more > 0 {
		if !b.pool.Take(b.tenant, more) {
			return n, errBodies
		}
		b.taken += more
	}
	return n, err
}
