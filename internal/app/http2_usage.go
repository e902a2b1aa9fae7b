package app

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"atrium/internal/limit"
)

// http2Limits are shared by all HTTP/2 connections, with a share for each client. The zero
// value limits nothing.
type http2Limits struct {
	streams *limit.Semaphore[netip.Addr] // open ones; they hold headers and responses
	unread  *limit.Quota[netip.Addr]     // bytes of bodies that no handler has read yet
	most    int                          // streams of a connection that net/http handles at a time; it decodes the headers of others, too
	refused func()
	paused  func(time.Duration) // for large header blocks; nil for none
}

// maxUncounted is the number of unread bytes of a connection that are not counted: net/http
// reports what its handlers have read with a delay.
const maxUncounted = 4 << 10

// Frames without headers or content, such as window updates, cost a client little (RFC 9113, section
// 10.5). A connection may send framesPerContent of them for each of its requests and for each frame
// of a response, and maxEmptyFrames more.
const (
	maxEmptyFrames   = 10_000
	framesPerContent = 16
)

// errHTTP2Limit closes a connection that would exceed its limits or the share of its client.
var errHTTP2Limit = errors.New("too many HTTP/2 streams, bytes of unread bodies, or frames without content")

// An http2Usage is the part of the http2Limits that a connection holds. It is computed from
// the frames in both directions, which show when a stream ends and how much of its body was
// read. Handlers do not show it: none runs for headers that are too large, and none while a
// client does not read its response.
type http2Usage struct {
	limits *http2Limits
	client netip.Addr

	mu      sync.Mutex
	ended   bool                // guarded by mu
	last    uint32              // guarded by mu; the highest stream that the client has opened
	open    map[uint32]struct{} // guarded by mu; each holds a slot. An honest client has at most twice limits.most: it can have received a response that is not counted yet
	running int                 // guarded by mu; handlers
	reset   int                 // guarded by mu; streams that the client has reset and whose handlers may run; each holds a slot
	came    int64               // guarded by mu; bytes of bodies
	granted int64               // guarded by mu; bytes that the client was allowed to send beyond the first window
	held    int64               // guarded by mu; bytes of the quota
	empty   int                 // guarded by mu; frames without headers or content, beyond framesPerContent
}

func newHTTP2Usage(limits *http2Limits, client net.Addr) *http2Usage {
	return &http2Usage{limits: limits, client: limit.Network(limit.Address(client.String())), open: map[uint32]struct{}{}}
}

// received counts a frame of the client. Its error closes the connection.
func (u *http2Usage) received(f frame) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended { // nothing releases what is taken now
		return net.ErrClosed
	}
	switch f.kind {
	case typeHeaders:
		if f.stream <= u.last { // trailers
			break
		}
		u.last = f.stream
		u.allowEmpty()
		tooMany := u.limits.most > 0 && len(u.open) >= 2*u.limits.most
		if tooMany || u.limits.streams.Acquire(context.Background(), u.client) != nil {
			return u.refuse()
		}
		u.open[f.stream] = struct{}{}
		return nil
	case typeReset:
		if _, found := u.open[f.stream]; found {
			delete(u.open, f.stream)
			u.reset++ // its handler may not even have begun
		}
	case typeData:
		u.came += int64(f.length)
		if err := u.weigh(); err != nil || f.content() > 0 {
			return err
		}
	}
	if u.empty++; u.empty > maxEmptyFrames {
		return u.refuse()
	}
	return nil
}

// allowEmpty allows the empty frames of a request or of a frame of a response. u.mu is held.
func (u *http2Usage) allowEmpty() { u.empty = max(0, u.empty-framesPerContent) }

// sent counts a frame of the server.
func (u *http2Usage) sent(f frame) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return net.ErrClosed
	}
	if f.kind == typeData && f.length > 0 {
		u.allowEmpty()
	}
	switch {
	case f.kind == typeReset, f.flags&flagEndOfStream != 0 && (f.kind == typeHeaders || f.kind == typeData):
		if _, found := u.open[f.stream]; found {
			delete(u.open, f.stream)
			u.limits.streams.Release(u.client)
		}
	case f.kind == typeWindowUpdate && f.stream == 0:
		u.granted += int64(f.increment)
		return u.weigh()
	}
	return nil
}

// weigh takes as many bytes of the quota as are unread. u.mu is held.
func (u *http2Usage) weigh() error {
	const raise = maxAheadOfConnected - firstWindow // which net/http grants first
	read := max(0, u.granted-raise)
	more := max(0, u.came-read-maxUncounted) - u.held
	switch {
	case more < 0:
		u.limits.unread.Return(u.client, -more)
	case more > 0 && !u.limits.unread.Take(u.client, more):
		return u.refuse()
	}
	u.held += more
	return nil
}

func (u *http2Usage) refuse() error {
	if u.limits.refused != nil {
		u.limits.refused()
	}
	return errHTTP2Limit
}

// begin counts a handler until end is called.
func (u *http2Usage) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.running--
		// Above that, requests that were reset may wait for a handler to end.
		if u.ended || u.running+len(u.open) < u.limits.most {
			u.forget()
		}
	}
}

// forget releases the slots of streams that were reset and whose handlers have ended.
// u.mu is held.
func (u *http2Usage) forget() {
	for ; u.reset > u.running; u.reset-- {
		u.limits.streams.Release(u.client)
	}
}

// end releases what the connection holds, except the slots of handlers that still run.
func (u *http2Usage) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	u.reset += len(u.open)
	clear(u.open)
	u.forget()
	u.limits.unread.Return(u.client, u.held)
	u.held = 0
}
