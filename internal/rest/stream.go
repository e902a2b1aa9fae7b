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

// streamTimeout is the maximum time that a read or write of a stream waits for the client. The
// total time of an upload is not limited; downloads have minimum rates.
const streamTimeout = time.Minute

// minDownloadRate is the minimum average rate of the client of a download in bytes per second,
// after streamTimeout and without the time that the server needs. A download holds a snapshot of
// the database, which keeps VACUUM on PostgreSQL from removing rows of any tenant.
const minDownloadRate = 1 << 20

// minOverallRate is the minimum average rate over the whole download, in bytes per second, after
// overallGrace. It includes the time that the server needs, which a tenant can prolong with other
// requests.
const (
	minOverallRate = 256 << 10
	overallGrace   = 5 * time.Minute
)

// errSlow is the error of a download that is below one of these rates.
var errSlow = fmt.Errorf(
	"the download is too slow: less than %d bytes per second while sending, or %d overall", minDownloadRate, minOverallRate)

// An upload is a body that is read while it arrives.
type upload struct {
	rechecker
	body    io.Reader
	w       http.ResponseWriter
	r       *http.Request
	done    bool // the end of the body was read
	control *http.ResponseController
	ctx     context.Context
	stop    func() bool
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	stopped bool // guarded by mu; nothing more is read
}

// ErrStreams is the cause when too many imports or exports are open, in all or of one tenant.
var ErrStreams = fmt.Errorf("imports and exports: %w", limit.ErrBusy)

// ErrStopping ends streams when the server stops.
var ErrStopping = errors.New("the server is stopping")

func (a *API) newUpload(
	ctx context.Context, w http.ResponseWriter, r *http.Request, recheck func(context.Context) error,
) *upload {
	u := &upload{
		rechecker: rechecker{recheck, time.Now()}, w: w, r: r,
		body: http.MaxBytesReader(w, r.Body, a.MaxStream), control: http.NewResponseController(w),
	}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.stop = a.whenStopping(func() {
		u.cancel(ErrStopping)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.stopped = true
		_ = u.control.SetReadDeadline(time.Now()) // unblocks Read
	})
	return u
}

// UntilClosed returns a context that also ends when the client closes its connection, or its
// writing side: net/http does not distinguish them, and reports them after it has read the body.
// Use it for work that is useless without its response; other work continues (see guard).
func (r *Request) UntilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	return UntilClosed(ctx, r.writer)
}

// UntilClosed is Request.UntilClosed for an open handler.
func UntilClosed(ctx context.Context, w http.ResponseWriter) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	rec, ok := w.(*recorder)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(rec.connection, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// hasClosed reports whether the client has closed its connection, or its writing side.
func hasClosed(w http.ResponseWriter) bool {
	rec, ok := w.(*recorder)
	return ok && rec.connection.Err() != nil
}

// whenStopping calls f when streams must end, unless stop is called first.
func (a *API) whenStopping(f func()) (stop func() bool) {
	if a.Stopping == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(a.Stopping, f)
}

// Read reads from the client. It extends the deadlines of the stream.
func (u *upload) Read(b []byte) (int, error) {
	if err := u.check(u.ctx); err != nil {
		return 0, err
	}
	u.mu.Lock()
	if u.stopped {
		u.mu.Unlock()
		return 0, ErrStopping
	}
	now := time.Now()
	err := errors.Join(
		u.control.SetReadDeadline(now.Add(streamTimeout)), u.control.SetWriteDeadline(now.Add(2*streamTimeout)))
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

// end releases the upload. It does not wait for the unread rest of the body: the connection is
// closed after the response.
func (u *upload) end() {
	if !u.done {
		closeAfter(u.w, u.r)
		_ = u.control.SetReadDeadline(time.Now().Add(time.Second)) // net/http tries to read the rest
	}
	u.stop()
	u.cancel(nil)
}

// A download is a response that is sent while it is generated.
type download struct {
	rechecker
	w       http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context
	begun   bool
	began   time.Time
	sent    int64         // bytes
	waited  time.Duration // for the client
	search  bool          // Response.Search
	work    *heavyWork    // paused while waiting for the client

	mu sync.Mutex // held while a deadline is set, so that stop sets the last one
}

// stop ends the download, even while it waits for the client.
func (d *download) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.control.SetWriteDeadline(time.Now())
}

func (d *download) begin() {
	h := d.w.Header()
	h.Set(headerType, Lines.String())
	h[headerCache] = privateCache
	d.w.WriteHeader(http.StatusOK)
	d.begun = true
}

// Write sends b. With no bytes, it only lets other requests work, and ends the download if it must end.
func (d *download) Write(b []byte) (n int, err error) {
	if d.search {
		if err := d.work.rest(); err != nil {
			return 0, err
		}
	}
	d.work.pause()
	defer func() {
		if err == nil {
			err = d.work.resume()
		}
	}()
	if err := context.Cause(d.ctx); err != nil {
		return 0, err
	}
	if err := d.check(d.ctx); err != nil {
		return 0, err
	}
	if !d.begun && len(b) > 0 {
		d.begin()
	}
	left := streamTimeout + time.Duration(d.sent/minDownloadRate)*time.Second - d.waited
	began := time.Now()
	if left <= 0 || !d.search && began.Sub(d.began) > overallGrace+time.Duration(d.sent/minOverallRate)*time.Second {
		return 0, errSlow
	}
	d.mu.Lock()
	if err = context.Cause(d.ctx); err == nil {
		err = d.control.SetWriteDeadline(began.Add(min(left, streamTimeout)))
	}
	d.mu.Unlock()
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	if err != nil || len(b) == 0 {
		return 0, err
	}
	n, err = d.w.Write(b)
	d.sent += int64(n)
	d.waited += time.Since(began)
	return n, err
}

// writeStream sends a streamed response, which is heavy work except while it waits for the client. An
// error before the first byte becomes a problem. After it, the connection is closed before the end of
// the response, so that the client cannot mistake a part for the whole.
func (a *API) writeStream(w http.ResponseWriter, r *http.Request, response Response) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	d := &download{
		rechecker: rechecker{response.limits.recheck, time.Now()}, w: w, control: http.NewResponseController(w), ctx: ctx,
		began: time.Now(), search: response.Search, work: &heavyWork{ctx: ctx, w: w, slots: a.Limits.Heavy, tenant: exchangeOf(w).TenantID},
	}
	response.limits.stream = d.work
	defer a.whenStopping(func() {
		cancel(ErrStopping)
		d.stop()
	})()
	if r.Method == http.MethodHead {
		d.begin()
		return nil
	}
	tenant := exchangeOf(w).TenantID
	if response.Open.Acquire(ctx, tenant) != nil {
		return atrium.Unavailable(ErrStreams)
	}
	defer response.Open.Release(tenant)
	err := d.work.resume()
	if err != nil {
		return err
	}
	defer d.work.pause()
	err = response.Stream(d)
	switch {
	case err != nil && d.begun:
		a.Log.WarnContext(ctx, "response aborted", "requestId", exchangeOf(w).RequestID, "error", err)
		panic(http.ErrAbortHandler) //nolint:forbidigo // the only way to close the connection
	case errors.Is(err, ErrStopping):
		return atrium.Unavailable(err)
	case err != nil:
		return fmt.Errorf("stream a response: %w", err)
	case !d.begun:
		d.begin()
	}
	return nil
}
