package rest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/telemetry"
)

// encoding does not validate JSON from tenants again: it was parsed strictly when it arrived.
var encoding = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true), json.FormatNilSliceAsNull(false))

// Header values that responses share: do not modify. Unless a response says otherwise, caches must be
// private and revalidate.
var (
	typeJSON     = []string{"application/json"}
	typeProblem  = []string{"application/problem+json"}
	privateCache = []string{"private, no-cache"}
	noStore      = []string{"no-store"}
)

// Header names in canonical form.
const (
	headerType   = "Content-Type"
	headerCache  = "Cache-Control"
	headerLength = "Content-Length"
	headerETag   = "Etag"
)

// An Encoded is JSON that is sent unchanged. As part of another body, it would lose its white
// space.
type Encoded []byte

// Encode returns the JSON of a body.
func Encode(body any) (Encoded, error) {
	if encoded, ok := body.(Encoded); ok {
		return encoded, nil
	}
	b, err := json.Marshal(body, encoding)
	if err != nil {
		return nil, fmt.Errorf("encode a response: %w", err)
	}
	return b, nil
}

func (a *API) writeResponse(w http.ResponseWriter, r *http.Request, held *memory, response Response) error {
	if response.Stream != nil {
		return a.writeStream(w, r, response)
	}
	if response.Document != nil {
		return a.writeDocument(w, r, response)
	}
	if response.Status == http.StatusNoContent {
		w.Header()[headerCache] = privateCache
		w.WriteHeader(response.Status)
		return nil
	}
	body, err := Encode(response.Body)
	if err != nil {
		return err
	}
	reader := response.reader
	response.reads.record(reader, len(body), response.Rows)
	switch r.Method {
	case http.MethodGet:
		taken, err := a.takeMemory(w, reader, len(body))
		if err != nil {
			return err
		}
		defer a.Limits.Bodies.Return(reader, taken)
	case http.MethodHead: // has no body
	default: // is not refused, as the change was made; a large change has reserved memory before
		_ = held.holdResponse(len(body))
	}
	h := w.Header()
	for name, values := range response.Header {
		h[name] = values
	}
	if response.MaxAge != nil {
		publish(h, *response.MaxAge)
	}
	status := cmp.Or(response.Status, http.StatusOK)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reads || response.Tagged || response.ETag != "" {
		if setTag(w, r, cmp.Or(response.ETag, hashTag(body))) {
			return nil
		}
	}
	Write(w, r, status, typeJSON, body)
	return nil
}

// setTag sets the entity tag of a response. If If-None-Match names it, setTag sends 304 and returns
// true.
func setTag(w http.ResponseWriter, r *http.Request, tag string) (done bool) {
	h := w.Header()
	h[headerETag] = []string{`"` + tag + `"`}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !reads || !noneMatch(r.Header["If-None-Match"], tag) {
		return false
	}
	cachePrivately(h)
	w.WriteHeader(http.StatusNotModified)
	return true
}

// takeMemory takes the memory of a response from the quota of bodies until the client has read it.
// It takes at most half of what one tenant may hold alone, so that any response can fit.
func (a *API) takeMemory(w http.ResponseWriter, reader atrium.TenantID, size int) (taken int64, err error) {
	if size <= smallBody {
		return 0, nil
	}
	taken = min(int64(size-smallBody), a.Limits.Bodies.Alone()/2)
	if !a.Limits.Bodies.Take(reader, taken) {
		exchangeOf(w).Refused = telemetry.ByBodyMemory
		return 0, atrium.Unavailable(errBodies)
	}
	return taken, nil
}

// JSON returns a handler that responds with body unless check returns an error.
func (a *API) JSON(body string, check func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			writeProblem(w, r, a.Log, err)
			return
		}
		Write(w, r, http.StatusOK, typeJSON, []byte(body))
	})
}

// Write sends a whole response, in one system call if it can. An error of the connection is the client's concern.
func Write(w http.ResponseWriter, r *http.Request, status int, contentType []string, body []byte) {
	h := w.Header()
	cachePrivately(h)
	h[headerType] = contentType
	h[headerLength] = []string{strconv.Itoa(len(body))}
	if len(body) > maxSingleWrite {
		defer cork(w, r)()
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// cachePrivately sets the default Cache-Control of a response that has none.
func cachePrivately(h http.Header) {
	if h[headerCache] == nil {
		h[headerCache] = privateCache
	}
}

// maxSingleWrite is the size of a body that net/http sends together with the headers: it
// buffers 4 KiB.
const maxSingleWrite = 3 << 10

// A corker is a connection that can combine two writes: that of a *limit.Listener.
type corker interface {
	Cork()
	Uncork() error
}

type corkerKey struct{}

// ConnContext makes the connection available to cork and pauseBusy. It is for http.Server.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	ctx = withArrivals(ctx, c)
	if c, ok := c.(corker); ok { // a TLS connection is not a corker: it writes records
		return context.WithValue(ctx, corkerKey{}, c)
	}
	return ctx
}

// cork combines the writes of a response, so that one system call sends a large body together with
// the headers and wakes the client once. The returned function flushes them.
func cork(w http.ResponseWriter, r *http.Request) (flush func()) {
	c, ok := r.Context().Value(corkerKey{}).(corker)
	if !ok {
		return func() {}
	}
	c.Cork()
	return func() {
		_ = http.NewResponseController(w).Flush()
		_ = c.Uncork()
	}
}
