package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// inProcessURL is the base URL of requests to the handler in this process.
const inProcessURL = "http://database.invalid"

// inProcess is an http.RoundTripper that calls a handler in this process. Like a network transport,
// it returns the response once the headers are written and streams the body. Closing the body
// before its end cancels the request.
type inProcess struct {
	handler http.Handler
	running sync.WaitGroup // requests in flight
}

// RoundTrip calls the handler.
func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	body, written := io.Pipe()
	w := &pipedResponse{header: http.Header{}, body: written, started: make(chan struct{})}
	request := r.Clone(ctx)
	request.RequestURI = r.URL.RequestURI()
	request.Body = untilDone(ctx, r.Body)
	t.running.Go(func() {
		defer cancel(nil)
		err := w.serve(t.handler, request)
		_ = written.CloseWithError(err)
	})
	// A handler may continue after its client has gone: its writes then fail.
	context.AfterFunc(ctx, func() { _ = written.CloseWithError(context.Cause(ctx)) })
	select {
	case <-w.started:
	case <-ctx.Done():
		select {
		case <-w.started: // the handler has finished too
		default:
			_ = body.CloseWithError(context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	response := &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &pipedBody{body, cancel}, ContentLength: -1, Request: r,
	}
	if n, err := strconv.ParseInt(w.sent.Get("Content-Length"), 10, 64); err == nil {
		response.ContentLength = n
	}
	return response, nil
}

// untilDone returns a reader of the body, which may be nil, that fails as soon as ctx is done, even
// while a read of the body blocks, such as on a terminal.
func untilDone(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	if body == nil {
		return http.NoBody
	}
	read, written := io.Pipe()
	context.AfterFunc(ctx, func() { _ = written.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer func() { _ = body.Close() }()
		_, err := io.Copy(written, body)
		_ = written.CloseWithError(err)
	}()
	return read
}

// wait returns when no request is in flight.
func (t *inProcess) wait() { t.running.Wait() }

// A pipedBody is the body of a response. Closing it cancels the request.
type pipedBody struct {
	*io.PipeReader
	cancel context.CancelCauseFunc
}

// Close cancels the request.
func (b *pipedBody) Close() error {
	b.cancel(errors.New("response body closed"))
	return b.PipeReader.Close()
}

// A pipedResponse is the http.ResponseWriter of a request in this process. It accepts flushes and
// deadlines, which have no effect.
type pipedResponse struct {
	header http.Header
	body   *io.PipeWriter

	started chan struct{} // closed when the fields below are set
	sent    http.Header
	status  int
	err     error // why there is no response
}

// serve calls the handler. It returns the error that a reader of the body gets after the data that
// was written: nil for a complete response.
func (w *pipedResponse) serve(handler http.Handler, r *http.Request) (err error) {
	defer func() {
		p := recover()
		switch cause, ok := p.(error); {
		case p == nil:
			w.WriteHeader(http.StatusOK)
			return
		case ok && errors.Is(cause, http.ErrAbortHandler): // the handler aborted the response
			err = io.ErrUnexpectedEOF
		default:
			err = fmt.Errorf("panic: %v", p)
		}
		if w.status == 0 {
			w.err = err
			close(w.started)
		}
	}()
	handler.ServeHTTP(w, r)
	return nil
}

// Header returns the headers that the handler sets.
func (w *pipedResponse) Header() http.Header { return w.header }

// WriteHeader starts the response. Informational statuses and further calls have no effect.
func (w *pipedResponse) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status, w.sent = status, w.header.Clone()
	close(w.started)
}

// Write blocks until the data is read.
func (w *pipedResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// FlushError only starts the response: nothing is buffered.
func (w *pipedResponse) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// SetReadDeadline has no effect: the client is in this process.
func (w *pipedResponse) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline has no effect: the client is in this process.
func (w *pipedResponse) SetWriteDeadline(time.Time) error { return nil }

// EnableFullDuplex has no effect: a response can always start before the body is read.
func (w *pipedResponse) EnableFullDuplex() error { return nil }
