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

// smallBody is how many bytes of an HTTP/1 body need no quota: the limit of connections bounds
// them. The rest is taken from the quota that all bodies share, and so is every byte of an
// HTTP/2 body, as a connection has many requests at once. smallBody also bounds the memory that
// is allocated for a Content-Length before any of the body has arrived.
const smallBody = 16 << 10

// errBodies is the cause when a body is not read, or a response not sent, for lack of memory.
var errBodies = fmt.Errorf("memory for bodies and answers: %w", limit.ErrBusy)

// A body is read as a whole. It holds its part of the quota until the request ends.
type body struct {
	w      http.ResponseWriter
	r      *http.Request
	from   io.Reader
	quota  *limit.Quota[atrium.TenantID]
	tenant atrium.TenantID
	free   int64 // bytes that need no quota
	size   int64 // bytes read
	taken  int64 // bytes of the quota
}

func (a *API) newBody(w http.ResponseWriter, r *http.Request, tenant atrium.TenantID) *body {
	b := &body{w: w, r: r, quota: a.Limits.Bodies, tenant: tenant}
	if r.ProtoMajor == 1 {
		b.free = smallBody
	}
	return b
}

func (b *body) end() { b.quota.Return(b.tenant, b.taken) }

// read returns the body, or an error as soon as the body is known to be too large or the quota
// is used up. It never holds more than limit.
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

// Read reads from the client and takes the bytes from the quota.
func (b *body) Read(to []byte) (int, error) {
	n, err := b.from.Read(to)
	b.size += int64(n)
	if more := b.size - b.free - b.taken; more > 0 {
		if !b.quota.Take(b.tenant, more) {
			return n, errBodies
		}
		b.taken += more
	}
	return n, err
}
