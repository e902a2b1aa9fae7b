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

// inThisProcess is what stands for the server where there is none.
const inThisProcess = "http://database.invalid"

// inProcess is an http.RoundTripper to a handler in this process, as a server is to
// its clients: the answer is there when its header is, and its body is read while it
// is written. To close a body before its end calls the request off, as the end of its
// context does.
type inProcess struct {
	handler http.Handler
	running sync.WaitGroup // the requests that are being answered
}

// RoundTrip asks the handler.
func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	body, written := io.Pipe()
	w := &pipedAnswer{header: http.Header{}, body: written, begun: make(chan struct{})}
	request := r.Clone(ctx)
	request.RequestURI = r.URL.RequestURI()
	request.Body = untilDone(ctx, r.Body)
	t.running.Go(func() {
		defer cancel(nil)
		err := w.answer(t.handler, request)
		_ = written.CloseWithError(err)
	})
	// A handler goes on when its client has left, but nobody takes what it writes.
	context.AfterFunc(ctx, func() { _ = written.CloseWithError(context.Cause(ctx)) })
	select {
	case <-w.begun:
	case <-ctx.Done():
		select {
		case <-w.begun: // and ended
		default:
			_ = body.CloseWithError(context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
	if w.failure != nil {
		return nil, w.failure
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

// untilDone returns what reads from a body, nil for an empty one, until ctx is done.
// Then it returns an error, even while the body itself waits for somebody to type.
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

// wait returns when no request is being answered any more.
func (t *inProcess) wait() { t.running.Wait() }

// A pipedBody is the body of an answer. Closing it ends the request.
type pipedBody struct {
	*io.PipeReader
	cancel context.CancelCauseFunc
}

// Close ends the request.
func (b *pipedBody) Close() error {
	b.cancel(errors.New("response body closed"))
	return b.PipeReader.Close()
}

// A pipedAnswer is the http.ResponseWriter of a request in this process. A handler
// may flush it and set deadlines, which it has no use for.
type pipedAnswer struct {
	header http.Header
	body   *io.PipeWriter

	begun   chan struct{} // closed when what follows is set
	sent    http.Header
	status  int
	failure error // why there is no answer
}

// answer calls the handler, and returns the error that a reader of the body gets
// after what was written: nil, which is the end, or why that is not all.
func (w *pipedAnswer) answer(handler http.Handler, r *http.Request) (err error) {
	defer func() {
		p := recover()
		switch cause, ok := p.(error); {
		case p == nil:
			w.WriteHeader(http.StatusOK)
			return
		case ok && errors.Is(cause, http.ErrAbortHandler): // with which a handler breaks off
			err = io.ErrUnexpectedEOF
		default:
			err = fmt.Errorf("panic: %v", p)
		}
		if w.status == 0 {
			w.failure = err
			close(w.begun)
		}
	}()
	handler.ServeHTTP(w, r)
	return nil
}

// Header returns the header as the handler has set it.
func (w *pipedAnswer) Header() http.Header { return w.header }

// WriteHeader begins the answer, the first time. An informational status is not one.
func (w *pipedAnswer) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status, w.sent = status, w.header.Clone()
	close(w.begun)
}

// Write blocks until what it writes is read.
func (w *pipedAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// FlushError has nothing to do: nothing is buffered.
func (w *pipedAnswer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// SetReadDeadline does nothing: what is read comes from this process.
func (w *pipedAnswer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: what is written is read by this process.
func (w *pipedAnswer) SetWriteDeadline(time.Time) error { return nil }

// EnableFullDuplex has nothing to do: an answer may begin while the body is read.
func (w *pipedAnswer) EnableFullDuplex() error { return nil }
