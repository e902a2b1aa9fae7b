package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// smallBody is how many bytes of an HTTP/1 body or of a response need no quota: the limit of
// connections bounds them. The rest is taken from the quota that all bodies share, and so is every
// byte of an HTTP/2 body, as a connection has many requests at once. smallBody also bounds the
// memory that is allocated for a Content-Length before any of the body has arrived.
const smallBody = 4 << 10

// errBodies is the cause when a body is not read, or a response not sent, for lack of memory.
var errBodies = fmt.Errorf("memory for bodies and responses: %w", limit.ErrBusy)

// A memory is the part of the quota that a request other than a read holds, first for its body and
// then for its response, until it ends. It is for one goroutine.
type memory struct {
	quota   *limit.Quota[atrium.TenantID]
	tenant  atrium.TenantID          // of the key; for a site, the result of quotaKey
	clients *limit.Quota[netip.Addr] // which also has to have the bytes; nil for none
	client  netip.Addr
	taken   int64 // bytes
}

// hold raises what m holds to at least the given bytes. It reports false if the tenant may not have them.
func (m *memory) hold(bytes int64) bool {
	more := bytes - m.taken
	if more <= 0 {
		return true
	}
	if !m.clients.Take(m.client, more) {
		return false
	}
	if !m.quota.Take(m.tenant, more) {
		m.clients.Return(m.client, more)
		return false
	}
	m.taken += more
	return true
}

// holdResponse is hold for a response, of at most half of what one tenant may hold alone.
func (m *memory) holdResponse(bytes int) bool {
	return m.hold(min(int64(bytes-smallBody), m.quota.Alone()/2))
}

func (m *memory) release() {
	m.quota.Return(m.tenant, m.taken)
	m.clients.Return(m.client, m.taken)
	m.taken = 0
}

// ReadBody reads the body of a request to an open handler, of at most the given bytes, and counts its memory
// as that of a tenant until release is called.
func (l *Limits) ReadBody(w http.ResponseWriter, r *http.Request, tenant atrium.TenantID, most int64) (body []byte, release func(), err error) {
	return readBody(w, r, &memory{quota: l.Bodies, tenant: tenant}, most)
}

// ReadUnverifiedBody is ReadBody for a request that is verified by its body. Its memory also counts as that of its client until then:
// until release is called.
func (l *Limits) ReadUnverifiedBody(w http.ResponseWriter, r *http.Request, tenant atrium.TenantID, most int64) (body []byte, release func(), err error) {
	return readBody(w, r, &memory{quota: l.Bodies, tenant: tenant, clients: l.UnverifiedBodies, client: limit.Network(exchangeOf(w).Client)}, most)
}

func readBody(w http.ResponseWriter, r *http.Request, held *memory, most int64) (body []byte, release func(), err error) {
	if body, err = newBody(w, r, held).read(most); err != nil {
		held.release()
		return nil, nil, err
	}
	return body, held.release, nil
}

// HoldResponse counts the memory of a response of an open handler as that of a tenant until release is called. It
// returns an error, and a release that does nothing, if the tenant may not have as much.
func (l *Limits) HoldResponse(w http.ResponseWriter, tenant atrium.TenantID, size int) (release func(), err error) {
	held := &memory{quota: l.Bodies, tenant: tenant}
	if !held.holdResponse(size) {
		exchangeOf(w).Refused = telemetry.ByBodyMemory
		return func() {}, atrium.Unavailable(errBodies)
	}
	return held.release, nil
}

// FreeMemory is how many bytes that a request uses, apart from its body, need no quota: the limit of requests in flight bounds
// them.
const FreeMemory = 16 << 10

// HoldMemory returns hold, which counts at least the given bytes that an open handler uses as memory of a tenant, until
// release is called. Its error's code is atrium.CodeUnavailable if the tenant may not have as much.
func (l *Limits) HoldMemory(w http.ResponseWriter, tenant atrium.TenantID) (hold func(bytes int64) error, release func()) {
	held := &memory{quota: l.Bodies, tenant: tenant}
	return func(bytes int64) error {
		if !held.hold(bytes) {
			exchangeOf(w).Refused = telemetry.ByBodyMemory
			return atrium.Unavailable(errBodies)
		}
		return nil
	}, held.release
}

// A body reads the body of a request as a whole, within a quota.
type body struct {
	w      http.ResponseWriter
	r      *http.Request
	memory *memory
	free   int64 // bytes that need no quota
}

func newBody(w http.ResponseWriter, r *http.Request, m *memory) *body {
	b := &body{w: w, r: r, memory: m}
	if r.ProtoMajor == 1 {
		b.free = smallBody
	}
	return b
}

// read returns the body, or an error as soon as the body is known to be too large or the quota
// is used up. It never holds more than limit.
func (b *body) read(limit int64) ([]byte, error) {
	tooLarge := atrium.Errorf(atrium.CodePayloadTooLarge, "The body may have %d bytes at most.", limit)
	if b.r.ContentLength > limit {
		closeAfter(b.w, b.r)
		return nil, tooLarge
	}
	text, err := b.readFrom(http.MaxBytesReader(b.w, b.r.Body, limit), limit)
	if err == nil {
		return text, nil
	}
	closeAfter(b.w, b.r)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if errors.Is(err, errBodies) {
		exchangeOf(b.w).Refused = telemetry.ByBodyMemory
		return nil, atrium.Unavailable(err)
	}
	return nil, atrium.Invalid(atrium.Fault{In: atrium.InBody, Detail: "ended before it was complete"}).Because(err)
}

// readFrom reads at most limit bytes. It doubles its buffer up to the Content-Length, and takes the
// capacity of a buffer from the quota before it allocates it.
func (b *body) readFrom(from io.Reader, limit int64) (text []byte, err error) {
	most := limit + 1 // one byte more than the body, so that the last Read can report its end
	if b.r.ContentLength >= 0 {
		most = b.r.ContentLength + 1
	}
	for {
		if len(text) == cap(text) {
			capacity := max(2*int64(cap(text)), smallBody)
			if int64(cap(text)) < most {
				capacity = min(capacity, most)
			}
			if !b.memory.hold(capacity - b.free) {
				return nil, errBodies
			}
			text = append(make([]byte, 0, capacity), text...)
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
