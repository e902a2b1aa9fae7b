// Package rest is the floor that every HTTP API of Atrium stands on: routing,
// the order in which a request is judged, strict bodies and parameters, problem
// documents, cursors and conditional requests.
//
// A request is judged in one order: path, method, key, scope, media types and
// size, content, existence, state. What a handler does begins with content.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/telemetry"
)

const (
	headerRequestID = "X-Request-Id"
	headerKey       = "X-Api-Key"
	headerTenant    = "Atrium-Tenant"

	headerIdempotency = "Idempotency-Key"
	maxRequestID      = 128

	// An answer is for its caller alone, and is asked for again before it is
	// used again.
	cacheControl = "private, no-cache"
)

// DefaultMaxBody is how large a body may be, in bytes, unless a setting says
// otherwise.
const DefaultMaxBody = 1 << 20

// trustedLength is how much of a body's stated length gets memory before any of
// it has come.
const trustedLength = 64 << 10

// writeTimeout bounds how long a request with a body waits for storage.
const writeTimeout = 20 * time.Second

// A Route is one operation.
type Route struct {
	Method  string
	Pattern string // as http.ServeMux has it, without the method
	Scope   atrium.Scope
	Or      atrium.Scope // another one that is enough; "" for none
	For     Tenancy
	Takes   Media // of the body; JSON unless it says otherwise
	Answers Media
	MaxBody int64 // in bytes, of a body that is JSON; 0 for that of the API
	Handle  Handler
}

// A Media is the form of a body.
type Media int

// The forms.
const (
	JSON  Media = iota // one text
	Lines              // JSON texts of any number, one on a line, that are streamed
)

func (m Media) String() string {
	if m == Lines {
		return "application/x-ndjson"
	}
	return "application/json"
}

// A Tenancy says what an operation is about.
type Tenancy int

// The tenancies.
const (
	OneTenant Tenancy = iota // the tenant of the key, or the one that an operator names
	AnyTenant                // an operator's operation, that names none
	Either                   // one of these
)

// A Handler does what an operation does, for the caller who was identified. An
// error that is not an *atrium.Error is a bug.
type Handler func(ctx context.Context, who auth.Principal, r *Request) (Response, error)

// A Request is what a handler sees of a request.
type Request struct {
	http *http.Request
	id   string // the request id
	log  *slog.Logger
	Body []byte // empty unless the method has one, and the route takes JSON

	// Stream is the body if the route takes lines. It may be read as slowly as one
	// likes, and ends with an error when the client has sent nothing for a while or more
	// than it may.
	Stream io.Reader
}

// ID returns the identifier of the request.
func (r *Request) ID() string { return r.id }

// PathValue returns a segment of the path, decoded.
func (r *Request) PathValue(name string) string { return r.http.PathValue(name) }

// PathID returns a segment of the path as an identifier. What has not the form of
// one names nothing.
func PathID[T atrium.Identifier](r *Request, name string) (T, error) {
	id, ok := atrium.ParseID[T](r.PathValue(name))
	if !ok {
		return id, atrium.NotFound()
	}
	return id, nil
}

// Header returns the values of a header, in order.
func (r *Request) Header(name string) []string { return r.http.Header.Values(name) }

// A Response is a successful answer.
type Response struct {
	Status int                   // 0 stands for 200
	Body   any                   // encoded as JSON, unless it is an Encoded; with 204 there is none
	Stream func(io.Writer) error // writes the answer of a route that answers with lines, instead of Body
	ETag   string                // without quotes; "" stands for a hash of the body
	Tagged bool                  // the answer has its entity tag whatever the method: it is the state of a thing
	Header http.Header
}

// NoContent is the answer to a deletion.
var NoContent = Response{Status: http.StatusNoContent}

// Keys say who holds a key: an *auth.Authenticator.
type Keys interface {
	Authenticate(ctx context.Context, key string) (auth.Principal, error)
}

// An API serves routes.
type API struct {
	Keys      Keys
	Tenants   func(context.Context, atrium.TenantID) error // NotFound for one that does not exist; nil if there are no operators
	Log       *slog.Logger
	MaxBody   int64                     // in bytes; 0 stands for DefaultMaxBody
	MaxStream int64                     // of a body that is streamed, in bytes
	Stopping  context.Context           // ends when streams are to end; nil for never
	Observe   func(*telemetry.Exchange) // is called after every answer; nil for nobody
}

// Handler returns what serves the routes, for callers with a key, and the open
// ones, for everybody. Every answer, also to what no route serves, has a request
// id, and every error is a problem document.
func (a *API) Handler(routes []Route, open map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	nothing := func(w http.ResponseWriter, r *http.Request) { writeProblem(w, r, a.Log, atrium.NotFound()) }
	patterns := map[string]methods{}
	for _, route := range routes {
		if patterns[route.Pattern] == nil {
			patterns[route.Pattern] = methods{}
		}
		patterns[route.Pattern][route.Method] = a.serve(route)
	}
	for pattern, handler := range open {
		patterns[pattern] = methods{http.MethodGet: handler}
	}
	for pattern, m := range patterns {
		if get := m[http.MethodGet]; get != nil {
			m[http.MethodHead] = get // net/http leaves the body out
		}
		mux.Handle(pattern, a.dispatch(pattern, m))
		if bare, ok := strings.CutSuffix(pattern, "/{$}"); ok && bare != "" {
			mux.HandleFunc(bare, nothing) // which ServeMux would redirect
		}
	}
	mux.HandleFunc("/", nothing)
	return a.guard(mux)
}

// A recorder is a ResponseWriter that notes what is answered, and to whom.
type recorder struct {
	http.ResponseWriter
	telemetry.Exchange
}

func (w *recorder) WriteHeader(status int) {
	w.Status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController what it controls.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.Bytes += n
	return n, err
}

// note returns what is noted of the answer that w writes. Every w in this
// package is a recorder, because guard comes first.
func note(w http.ResponseWriter) *telemetry.Exchange {
	if rec, ok := w.(*recorder); ok {
		return &rec.Exchange
	}
	return &telemetry.Exchange{}
}

// guard gives every answer its request id, answers paths that ServeMux would
// redirect, turns a panic into a problem, and tells the observer.
func (a *API) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		start := time.Now()
		w := &recorder{plain, telemetry.Exchange{
			Context: r.Context(), Method: r.Method, RequestID: requestID(r.Header[headerRequestID]),
		}}
		w.Header().Set(headerRequestID, w.RequestID)
		defer func() {
			if a.Observe != nil {
				w.Duration = time.Since(start)
				a.Observe(&w.Exchange)
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p) //nolint:forbidigo // net/http ends the connection with it
				}
				writeProblem(w, r, a.Log, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		if p := r.URL.EscapedPath(); p == "" || p[0] != '/' || p == "//" || path.Clean(p) != p && path.Clean(p)+"/" != p {
			writeProblem(w, r, a.Log, atrium.NotFound())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// requestID returns the caller's own identifier for the request if it is 1 to
// 128 visible ASCII characters, and else a new one.
func requestID(given []string) string {
	if len(given) == 1 && given[0] != "" && len(given[0]) <= maxRequestID &&
		strings.IndexFunc(given[0], func(c rune) bool { return c <= ' ' || c > '~' }) < 0 {
		return given[0]
	}
	return string(atrium.NewID[atrium.RequestID]())
}

// methods are the handlers of one path.
type methods map[string]http.Handler

func (a *API) dispatch(pattern string, m methods) http.Handler {
	allowed := make([]string, 0, len(m))
	for method := range m {
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(w).Route = pattern
		if h := m[r.Method]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		writeProblem(w, r, a.Log, atrium.Errorf(atrium.CodeMethodNotAllowed, "This path takes %s.", allow))
	})
}

// serve is the one adapter between HTTP and a handler.
func (a *API) serve(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := a.handle(route, w, r)
		if err == nil {
			err = a.writeResponse(w, r, response)
		}
		if err != nil {
			writeProblem(w, r, a.Log, err)
		}
	})
}

func (a *API) handle(route Route, w http.ResponseWriter, r *http.Request) (Response, error) {
	ctx := r.Context() //nolint:contextcheck // the request has no other
	who, err := a.authenticate(ctx, r)
	if err != nil {
		return Response{}, err
	}
	exchange := note(w)
	exchange.TenantID, exchange.KeyID = who.TenantID, who.KeyID
	if err := authorize(route, who); err != nil {
		return Response{}, err
	}
	if !accepts(r.Header["Accept"], route.Answers) {
		return Response{}, atrium.Errorf(atrium.CodeNotAcceptable, "The answer is %s, which the Accept header rules out.", route.Answers)
	}
	request := &Request{http: r, id: exchange.RequestID, log: a.Log}
	if route.Method != http.MethodGet {
		if err := checkContentType(w, r, route.Takes); err != nil {
			return Response{}, err
		}
	}
	switch {
	case route.Takes == Lines:
		body := a.newUpload(ctx, w, r)
		defer body.end()
		ctx, request.Stream = body.ctx, body
	case route.Method != http.MethodGet:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		if request.Body, err = a.readBody(w, r, cmp.Or(route.MaxBody, a.MaxBody, DefaultMaxBody)); err != nil {
			return Response{}, err
		}
	}
	if route.For != AnyTenant {
		if err := a.nameTenant(ctx, route, &who, r); err != nil {
			return Response{}, err
		}
		exchange.TenantID = who.TenantID
	}
	return route.Handle(ctx, who, request)
}

// authorize returns nil if the principal may ask for the operation.
func authorize(route Route, who auth.Principal) error {
	switch {
	case route.For == AnyTenant && !who.Operator:
		return atrium.Errorf(atrium.CodeForbidden, "The key must be an operator's.")
	case who.Scopes.Has(route.Scope) || route.Or != "" && who.Scopes.Has(route.Or):
		return nil
	case route.Or != "":
		return atrium.Errorf(atrium.CodeForbidden, "The key needs the scope %s or %s.", route.Scope, route.Or)
	}
	return atrium.Errorf(atrium.CodeForbidden, "The key needs the scope %s.", route.Scope)
}

// nameTenant gives an operator the tenant that the request names. Any other key has
// its own, and may name it.
func (a *API) nameTenant(ctx context.Context, route Route, who *auth.Principal, r *http.Request) error {
	named := r.Header[headerTenant]
	if len(named) == 0 {
		if who.Operator && route.For == OneTenant {
			return tenantFault("is required with an operator's key")
		}
		return nil
	}
	id, ok := atrium.ParseID[atrium.TenantID](named[0])
	switch {
	case len(named) > 1:
		return tenantFault("must be there once")
	case !ok:
		return tenantFault("must match ^tenant_[a-z0-9]{26}$")
	case !who.Operator && id != who.TenantID:
		return atrium.NotFound()
	case who.Operator:
		who.TenantID = id
		return a.Tenants(ctx, id)
	}
	return nil
}

func tenantFault(detail string) error {
	return atrium.Invalid(atrium.Fault{In: atrium.InHeader, Where: "Atrium-Tenant", Detail: detail})
}

func (a *API) authenticate(ctx context.Context, r *http.Request) (auth.Principal, error) {
	key := ""
	if values := r.Header[headerKey]; len(values) == 1 {
		key = values[0]
	}
	return a.Keys.Authenticate(ctx, key)
}

// readBody returns the whole body, or an error as soon as it is known to be too
// large. It never holds more than the limit.
func (a *API) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := atrium.Errorf(atrium.CodePayloadTooLarge, "The body may have %d bytes at most.", limit)
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), trustedLength)) + bytes.MinRead)
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	if err != nil {
		w.Header().Set("Connection", "close")
		return nil, atrium.Invalid(atrium.Fault{In: atrium.InBody, Detail: "ended before it was complete"}).Because(err)
	}
	return b.Bytes(), nil
}

// encoding leaves JSON that tenants gave us as it is: it was read strictly when
// it came.
var encoding = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true), json.FormatNilSliceAsNull(false))

// An Encoded is a JSON text that is sent as it is. To encode it as part of something
// else would take the white space out of it.
type Encoded []byte

// Encode returns a body as it would be sent.
func Encode(body any) (Encoded, error) {
	if e, ok := body.(Encoded); ok {
		return e, nil
	}
	b, err := json.Marshal(body, encoding)
	if err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return b, nil
}

func (a *API) writeResponse(w http.ResponseWriter, r *http.Request, response Response) error {
	if response.Stream != nil {
		return a.writeStream(w, r, response)
	}
	if response.Status == http.StatusNoContent {
		w.Header().Set("Cache-Control", cacheControl)
		w.WriteHeader(response.Status)
		return nil
	}
	body, err := Encode(response.Body)
	if err != nil {
		return err
	}
	h := w.Header()
	for name, values := range response.Header {
		h[name] = values
	}
	status := cmp.Or(response.Status, http.StatusOK)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if reads || response.Tagged || response.ETag != "" {
		tag := cmp.Or(response.ETag, hashTag(body))
		h.Set("ETag", `"`+tag+`"`)
		if reads && noneMatch(r.Header["If-None-Match"], tag) {
			h.Set("Cache-Control", cacheControl)
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	write(w, status, "application/json", body)
	return nil
}

// JSON returns a handler that answers every request with one JSON text, unless
// check returns an error.
func (a *API) JSON(body string, check func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			writeProblem(w, r, a.Log, err)
			return
		}
		write(w, http.StatusOK, "application/json", []byte(body))
	})
}

// write sends a whole answer. A client that has gone is nobody's fault.
func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", cacheControl)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
