package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/rest"
)

// apiPrefix is the common prefix of the paths of all operations.
const apiPrefix = "/manage/v0"

// A call is a request for an operation of the management API.
type call struct {
	method  string
	path    string // escaped, relative to apiPrefix
	query   url.Values
	ifMatch string    // an entity tag with quotes; "" for none
	key     string    // idempotency key; "" for none
	body    any       // encoded as JSON; nil for none
	discard bool      // the body of the response is not needed
	lines   io.Reader // sent as NDJSON while it is read; nil for none
}

// An answer is a successful response.
type answer struct {
	tag  string // the entity tag, with quotes
	body []byte
}

// largeBody is the size in bytes above which a response is decoded as heavy work.
const largeBody = 4 << 10

// get reads a resource of the tenant of the page into v.
func (r *request) get(v any, path string, query url.Values) (tag string, err error) {
	a, err := r.call(call{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return "", err
	}
	decode := func() error { return json.Unmarshal(a.body, v) }
	if len(a.body) > largeBody {
		err = r.heavily(decode)
	} else {
		err = decode()
	}
	if err != nil {
		return "", fmt.Errorf("decode %s: %w", path, err)
	}
	return a.tag, nil
}

// remove deletes what a path names, if it is as the user has seen it, and shows a page with a message that names it.
func remove[T interface{ Title() string }](r *request, path, to, message string) error {
	var gone T
	if _, err := r.get(&gone, path, nil); err != nil {
		return err
	}
	if _, err := r.call(call{method: http.MethodDelete, path: path, ifMatch: r.form("tag")}); err != nil {
		return err
	}
	return r.redirect(to, message, gone.Title())
}

// call calls an operation as the user, for the tenant of the page.
func (r *request) call(c call) (answer, error) {
	inner, err := r.newCall(c)
	if err != nil {
		return answer{}, err
	}
	w := &recorder{header: http.Header{}, discard: c.discard}
	r.console.API.ServeHTTP(w, inner)
	switch {
	case w.status >= http.StatusBadRequest:
		return answer{}, problemOf(w)
	case w.tooLarge:
		return answer{}, atrium.Errorf(atrium.CodePayloadTooLarge, "This is too large for the console. Use the command line.")
	}
	return answer{w.header.Get("ETag"), w.body.Bytes()}, nil
}

// newCall returns the request of a call.
func (r *request) newCall(c call) (*http.Request, error) {
	var body io.Reader = http.NoBody // as in requests from a network
	if c.body != nil {
		b, err := json.Marshal(c.body)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", c.path, err)
		}
		body = bytes.NewReader(b)
	}
	if c.lines != nil {
		body = c.lines
	}
	inner, err := http.NewRequestWithContext(r.http.Context(), c.method, apiPrefix+c.path, body)
	if err != nil {
		return nil, err
	}
	if c.lines != nil {
		inner.ContentLength = -1
	}
	if len(c.query) > 0 {
		inner.URL.RawQuery = c.query.Encode()
	}
	inner.Proto, inner.ProtoMajor, inner.ProtoMinor = "HTTP/2.0", 2, 0 // one of several on a connection
	inner.RequestURI, inner.RemoteAddr = inner.URL.RequestURI(), r.http.RemoteAddr
	h := inner.Header
	h.Set("X-Api-Key", r.token)
	h.Set("X-Request-Id", rest.ExchangeOf(r.w).RequestID)
	if forwarded := r.http.Header["X-Forwarded-For"]; forwarded != nil {
		h["X-Forwarded-For"] = forwarded
	}
	if r.tenant != "" {
		h.Set("Atrium-Tenant", string(r.tenant))
	}
	if c.body != nil {
		h.Set("Content-Type", "application/json")
	}
	if c.lines != nil {
		h.Set("Content-Type", "application/x-ndjson")
	}
	if c.ifMatch != "" {
		h.Set("If-Match", c.ifMatch)
	}
	if c.key != "" {
		h.Set("Idempotency-Key", c.key)
	}
	return inner, nil
}

// maxAnswer is the maximum size of a response of the API in bytes. Pages of lists have about 1 MiB.
const maxAnswer = 8 << 20

// A recorder is the http.ResponseWriter of a call. It keeps the response, of at most maxAnswer, or discards it if
// it is not an error.
type recorder struct {
	header   http.Header
	status   int
	body     bytes.Buffer
	discard  bool
	tooLarge bool
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.discard && w.status < http.StatusBadRequest:
		return len(b), nil
	case w.body.Len()+len(b) > maxAnswer:
		w.tooLarge = true
		return 0, errTooLarge
	}
	return w.body.Write(b)
}

// errTooLarge ends a response that a recorder cannot keep.
var errTooLarge = errors.New("the response is too large for the console")

// Flush and the deadlines have no effect: the whole response is kept.
func (w *recorder) Flush() {}

func (w *recorder) SetReadDeadline(time.Time) error { return nil }

func (w *recorder) SetWriteDeadline(time.Time) error { return nil }

// notFoundDetail is what people read about what is missing, or of another tenant.
const notFoundDetail = "This does not exist, or you may not see it."

// problemOf returns the error that a problem document describes.
func problemOf(w *recorder) error {
	var p struct {
		Detail string      `json:"detail"`
		Code   atrium.Code `json:"code"`
		Errors []struct {
			Pointer   *string `json:"pointer"`
			Parameter *string `json:"parameter"`
			Detail    string  `json:"detail"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(w.body.Bytes(), &p); err != nil || p.Code == "" {
		return fmt.Errorf("management API: status %d without a problem document", w.status)
	}
	e := &atrium.Error{Code: p.Code, Detail: p.Detail}
	if e.Code == atrium.CodeNotFound && e.Detail == atrium.NotFound().Detail { // speaks of a key
		e.Detail = notFoundDetail
	}
	for _, f := range p.Errors {
		switch {
		case f.Pointer != nil:
			e.Faults = append(e.Faults, atrium.Fault{In: atrium.InBody, Where: *f.Pointer, Detail: f.Detail})
		case f.Parameter != nil:
			e.Faults = append(e.Faults, atrium.Fault{In: atrium.InQuery, Where: *f.Parameter, Detail: f.Detail})
		}
	}
	return e
}
