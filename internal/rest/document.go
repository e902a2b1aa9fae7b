package rest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// An open snapshot uses a database connection and, on SQLite, keeps the WAL from being reset.
// So the time that a client may take to read a document is bounded.
const (
	documentTimeout = time.Minute      // of a document, if the server has no write timeout
	documentStall   = 10 * time.Second // of each write
	documentGrace   = 3 * time.Second  // for a document when the server stops
)

// errDocumentSent ends a document that lost its snapshot after the headers were sent.
var errDocumentSent = errors.New("part of the document was sent already")

// writeDocument sends the document of a response. It opens one snapshot, whose document it
// writes twice: the first pass counts its bytes and returns its tag, the second one goes to
// the client unless If-None-Match or HEAD makes it unnecessary. An error after the headers
// closes the connection, so that no client mistakes a part for the whole.
func (a *API) writeDocument(w http.ResponseWriter, r *http.Request, response Response) error {
	timeout, control := documentTimeout, http.NewResponseController(w)
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		timeout = server.WriteTimeout
	} else {
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the server does not reset it for the next response
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	until, _ := ctx.Deadline()
	conn := &documentConn{ctx: ctx, w: w, control: control, until: until}
	defer a.whenStopping(func() {
		time.AfterFunc(documentGrace, func() {
			cancel()
			conn.stop()
		})
	})()
	tenant := exchangeOf(w).TenantID
	if err := admit(ctx, w, a.Limits.Documents, tenant); err != nil {
		return afterChange(r, err)
	}
	defer a.Limits.Documents.Release(tenant)
	if err := a.Limits.waitForSnapshots(ctx); err != nil {
		exchangeOf(w).Refused = telemetry.ByOverload
		return afterChange(r, err)
	}
	defer a.Limits.whenSnapshotsMustEnd(func() {
		end(errSnapshots)
		conn.stop()
	})()
	work := heavyWork{ctx: ctx, w: w, slots: a.Limits.Heavy, tenant: tenant}
	conn.work = &work
	defer work.pause()
	if err := work.resume(); err != nil {
		return afterChange(r, err)
	}
	sent := false
	err := response.Document(ctx, func(write DocumentWriter) error {
		if sent { // the engine retries a transaction that lost its connection
			return errDocumentSent
		}
		size := byteCounter{work: &work}
		tag, err := write(&size)
		if err != nil {
			return err
		}
		sent = true
		h := w.Header()
		maps.Copy(h, response.Header)
		if setTag(w, r, tag) {
			return nil
		}
		h[headerType], h[headerCache], h[headerLength] = typeJSON, privateCache, []string{strconv.FormatInt(size.bytes, 10)}
		w.WriteHeader(cmp.Or(response.Status, http.StatusOK))
		if r.Method == http.MethodHead {
			return nil
		}
		_, err = write(conn)
		return err
	})
	if errors.Is(err, errSnapshots) {
		exchangeOf(w).Refused = telemetry.ByOverload
	}
	if err != nil && sent {
		a.Log.WarnContext(ctx, "response aborted", "requestId", exchangeOf(w).RequestID, "error", err)
		panic(http.ErrAbortHandler) //nolint:forbidigo // the only way to close the connection
	}
	return err
}

// A byteCounter counts the bytes that are written to it.
type byteCounter struct {
	bytes int64
	work  *heavyWork // paused between two writes
}

func (c *byteCounter) Write(b []byte) (int, error) {
	c.bytes += int64(len(b))
	c.work.pause()
	return len(b), c.work.resume()
}

// A documentConn writes to a client that must read at a minimum speed: each write must end within
// documentStall, and all of them by until.
type documentConn struct {
	ctx     context.Context
	w       io.Writer
	control *http.ResponseController
	until   time.Time
	work    *heavyWork // paused while waiting for the client

	mu      sync.Mutex // held while a deadline is set, so that stop sets the last one
	writing bool       // Write was called; guarded by mu
}

// stop ends a write that waits for the client. ctx has ended. Before the first write it does nothing,
// so that an error can still be sent.
func (c *documentConn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		_ = c.control.SetWriteDeadline(time.Now())
	}
}

func (c *documentConn) Write(b []byte) (n int, err error) {
	c.work.pause()
	defer func() {
		if err == nil {
			err = c.work.resume()
		}
	}()
	deadline := time.Now().Add(documentStall)
	if c.until.Before(deadline) {
		deadline = c.until
	}
	c.mu.Lock()
	c.writing = true
	if err = context.Cause(c.ctx); err == nil {
		err = c.control.SetWriteDeadline(deadline)
	}
	c.mu.Unlock()
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return c.w.Write(b)
}

// heavyWork holds a slot for heavy work, which it can release and acquire again. It is for one
// goroutine.
type heavyWork struct {
	ctx    context.Context
	w      http.ResponseWriter
	slots  *limit.Semaphore[atrium.TenantID]
	tenant atrium.TenantID
	held   bool
	since  time.Time // when it was last acquired
}

// resume waits for the slot. The error's code is atrium.CodeUnavailable.
func (h *heavyWork) resume() error {
	if err := context.Cause(h.ctx); err != nil {
		return atrium.Unavailable(err)
	}
	err := admit(h.ctx, h.w, h.slots, h.tenant)
	h.held, h.since = err == nil, time.Now()
	return err
}

// rest keeps the slot, without work, for as long as the work since the last call of resume took. So work
// that takes long occupies at most half of a processor.
func (h *heavyWork) rest() error {
	if !h.held {
		return nil
	}
	select {
	case <-time.After(time.Since(h.since)):
		return nil
	case <-h.ctx.Done():
		return context.Cause(h.ctx)
	}
}

// pause releases the slot, if it is held.
func (h *heavyWork) pause() {
	if h.held {
		h.slots.Release(h.tenant)
		h.held = false
	}
}

// afterChange returns the error of a response that cannot be sent. If the request was a change,
// the error tells the client that the change was made.
func afterChange(r *http.Request, err error) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return err
	}
	return atrium.Errorf(atrium.CodeUnavailable,
		"The change was made, but the response cannot be sent right now.").Because(err)
}
