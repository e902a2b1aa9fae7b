package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"atrium"
	"atrium/internal/limit"
)

// streamPatience is how long a stream waits for the other side to send or to take
// its next part. Streams have no other limit in time.
const streamPatience = time.Minute

// An upload is a body that is read as it comes.
type upload struct {
	rechecker
	body    io.Reader
	w       http.ResponseWriter
	r       *http.Request
	done    bool // the body has come to its end
	control *http.ResponseController
	ctx     context.Context
	stop    func() bool
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	stopped bool // guarded by mu; nothing more is read
}

// ErrStreams says that too many imports or exports are open, in all or of one tenant.
var ErrStreams = fmt.Errorf("imports and exports: %w", limit.ErrBusy)

// ErrStopping ends streams when the server does.
var ErrStopping = errors.New("the server is stopping")

func (a *API) newUpload(ctx context.Context, w http.ResponseWriter, r *http.Request, recheck func(context.Context) error) *upload {
	u := &upload{rechecker: rechecker{recheck, time.Now()}, w: w, r: r, body: http.MaxBytesReader(w, r.Body, a.MaxStream), control: http.NewResponseController(w)}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.stop = a.whenStopping(func() {
		u.cancel(ErrStopping)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.stopped = true
		_ = u.control.SetReadDeadline(time.Now()) // who is in Read returns
	})
	return u
}

// UntilClosed returns ctx with an end when the client closes its connection or its side of it,
// which net/http reports alike once it has read the body: for work that is of no use without its
// response. Other work goes on (see guard).
func (r *Request) UntilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(note(r.writer).Context, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// whenStopping calls f when streams are to end. What it returns takes that back.
func (a *API) whenStopping(f func()) (stop func() bool) {
	if a.Stopping == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(a.Stopping, f)
}

// Read reads what comes next, and gives the answer time until after it.
func (u *upload) Read(b []byte) (int, error) {
	if err := u.check(u.ctx); err != nil {
		return 0, err
	}
	u.mu.Lock()
	if u.stopped {
		u.mu.Unlock()
		return 0, ErrStopping
	}
	err := errors.Join(u.control.SetReadDeadline(time.Now().Add(streamPatience)), u.control.SetWriteDeadline(time.Now().Add(2*streamPatience)))
	u.mu.Unlock()
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := u.body.Read(b)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = atrium.Errorf(atrium.CodePayloadTooLarge, "The body may have %d bytes at most.", large.Limit)
	}
	u.done = errors.Is(err, io.EOF)
	if u.mu.Lock(); u.stopped && err != nil && !u.done {
		err = ErrStopping
	}
	u.mu.Unlock()
	return n, err
}

// end releases what the upload has. What was not read of the body is not waited for:
// the connection ends with the answer.
func (u *upload) end() {
	if !u.done {
		closeAfter(u.w, u.r)
		_ = u.control.SetReadDeadline(time.Now().Add(time.Second)) // net/http reads on, to learn whether it ends soon
	}
	u.stop()
	u.cancel(nil)
}

// A download is an answer that is sent as it is made.
type download struct {
	rechecker
	w       http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context
	begun   bool

	mu sync.Mutex // held while a deadline is set, so that stop sets the last one
}

// stop ends the download, also while it waits for its client.
func (d *download) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.control.SetWriteDeadline(time.Now())
}

func (d *download) begin() {
	h := d.w.Header()
	h.Set(headerType, Lines.String())
	h[headerCache] = forItsCaller
	d.w.WriteHeader(http.StatusOK)
	d.begun = true
}

// Write sends b.
func (d *download) Write(b []byte) (int, error) {
	if err := context.Cause(d.ctx); err != nil {
		return 0, err
	}
	if err := d.check(d.ctx); err != nil {
		return 0, err
	}
	if !d.begun {
		d.begin()
	}
	d.mu.Lock()
	err := context.Cause(d.ctx)
	if err == nil {
		err = d.control.SetWriteDeadline(time.Now().Add(streamPatience))
	}
	d.mu.Unlock()
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return d.w.Write(b)
}

// writeStream sends what the response streams. An error before the first byte is
// answered like any; after it, the connection is ended before the end of the answer, so
// that nobody takes what came for all of it.
func (a *API) writeStream(w http.ResponseWriter, r *http.Request, response Response) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	d := &download{rechecker: rechecker{response.recheck, time.Now()}, w: w, control: http.NewResponseController(w), ctx: ctx}
	defer a.whenStopping(func() {
		cancel(ErrStopping)
		d.stop()
	})()
	if r.Method == http.MethodHead {
		d.begin()
		return nil
	}
	err := response.Stream(d)
	switch {
	case err != nil && d.begun:
		a.Log.WarnContext(ctx, "an answer was cut off", "requestId", note(w).RequestID, "error", err)
		panic(http.ErrAbortHandler) //nolint:forbidigo // the one way to end the connection
	case errors.Is(err, ErrStopping):
		return atrium.Unavailable(err)
	case err != nil:
		return fmt.Errorf("stream an answer: %w", err)
	case !d.begun:
		d.begin()
	}
	return nil
}
