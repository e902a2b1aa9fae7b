// Package rest is the framework of the HTTP APIs: routing, the checks that all operations
// share, strict bodies and parameters, problem documents, cursors and conditional requests.
//
// Requests are checked in a fixed order: headers, path, method, key, rate, scope, media types
// and size, content, existence, state. Handlers check from content on.
package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

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
)

// DefaultMaxBody is the default maximum size of a body, in bytes.
const DefaultMaxBody = 1 << 20

// storageTimeout bounds how long a request waits for the database once its body has arrived.
// Streams have no such limit.
const storageTimeout = 20 * time.Second

// Keys authenticate callers: an *auth.Authenticator.
type Keys interface {
	Authenticate(ctx context.Context, client netip.Addr, key string) (auth.Principal, error)
}

// An API serves routes.
type API struct {
	Keys      Keys
	Tenants   func(context.Context, atrium.TenantID) error // NotFound for an unknown one; nil without operators
	Log       *slog.Logger
	Limits    Limits
	MaxBody   int64           // maximum size of a JSON body in bytes; 0 means DefaultMaxBody
	MaxStream int64           // maximum size of a streamed body in bytes
	Stopping  context.Context // ends when streams must end; nil for never

	// Observe is called after every response, with the context of the request; nil for none.
	Observe func(context.Context, *telemetry.Exchange)

	// Begin derives the context of a request from its own; nil to use that itself.
	Begin func(*http.Request) context.Context
	HSTS  time.Duration // how long browsers require TLS; 0 without TLS
}

// Handler returns a handler that serves routes to callers with a key, and open handlers to
// everyone. The patterns of open handlers are those of http.ServeMux; without a method, it is GET.
// Every response has a request id, even if no route matches, and every error of a route is a problem
// document.
func (a *API) Handler(routes []Route, open map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	notFound := browserHeaders(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, a.Log, noPath(r))
	}))
	patterns := map[string]methods{}
	for _, route := range routes {
		if patterns[route.Pattern] == nil {
			patterns[route.Pattern] = methods{}
		}
		patterns[route.Pattern][route.Method] = a.serve(route)
		if route.ForSites {
			patterns[route.Pattern][http.MethodOptions] = http.HandlerFunc(preflight)
		}
	}
	for pattern, handler := range open {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = http.MethodGet, pattern
		}
		if patterns[path] == nil {
			patterns[path] = methods{}
		}
		patterns[path][method] = browserHeaders(handler)
	}
	for pattern, m := range patterns {
		if get := m[http.MethodGet]; get != nil {
			m[http.MethodHead] = get // net/http omits the body
		}
		mux.Handle(pattern, a.dispatch(pattern, m))
		if bare, ok := strings.CutSuffix(pattern, "/{$}"); ok && bare != "" {
			mux.Handle(bare, notFound) // ServeMux would redirect it
		}
	}
	mux.Handle("/", startPage(notFound, patterns["/console"] != nil))
	return pauseBusy(a.guard(mux, notFound))
}

// noPath returns the error for a path that no pattern matches. An encoded slash is part of an identifier,
// so a path with one looks like a resource that does not exist.
func noPath(r *http.Request) error {
	if strings.Contains(strings.ToUpper(r.URL.EscapedPath()), "%2F") {
		return atrium.NotFound()
	}
	return atrium.Errorf(atrium.CodeNotFound,
		"This path does not exist. Check its spelling, and that it has no trailing or doubled slash.")
}

// A recorder is a ResponseWriter that records the exchange.
type recorder struct {
	http.ResponseWriter
	telemetry.Exchange
	connection context.Context // ends when the client closes the connection
}

func (w *recorder) WriteHeader(status int) {
	w.Status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.Bytes += n
	return n, err
}

// exchangeOf returns the exchange that w records. Every w in this package is a recorder, because
// guard comes first.
func exchangeOf(w http.ResponseWriter) *telemetry.Exchange {
	if rec, ok := w.(*recorder); ok {
		return &rec.Exchange
	}
	return &telemetry.Exchange{}
}

// ExchangeOf returns the exchange that the response writer of an open handler records.
func ExchangeOf(w http.ResponseWriter) *telemetry.Exchange { return exchangeOf(w) }

// guard gives every response its request id, passes paths that ServeMux would redirect to
// notFound, turns a panic into a problem, and reports to the observer.
func (a *API) guard(next, notFound http.Handler) http.Handler {
	transport := hsts(a.HSTS)
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := r.Context()
		if a.Begin != nil {
			ctx = a.Begin(r) //nolint:contextcheck // derived from that of the request
		}
		w := &recorder{plain, telemetry.Exchange{
			Method: r.Method, RequestID: requestID(r.Header[headerRequestID]),
			Client: a.Limits.Proxies.Client(r.RemoteAddr, r.Header["X-Forwarded-For"]),
		}, ctx}
		w.Header()[headerRequestID] = []string{w.RequestID}
		// net/http cancels the context when the client closes its side of the connection, but
		// the client may still wait for the response.
		r = r.WithContext(context.WithoutCancel(ctx))
		if lastOfConnection(r) {
			w.Header().Set("Connection", "close")
		}
		secure(w.Header(), transport)
		defer func() {
			if a.Observe != nil {
				w.Duration = time.Since(start)
				a.Observe(ctx, &w.Exchange)
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p) //nolint:forbidigo // net/http closes the connection
				}
				writeProblem(w, r, a.Log, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		if err := a.Limits.checkHeaders(r); err != nil {
			closeAfter(w, r) // parsing thousands of fields has taken long
			writeProblem(w, r, a.Log, err)
			return
		}
		if p := r.URL.EscapedPath(); p == "" || p[0] != '/' || p == "//" || path.Clean(p) != p && path.Clean(p)+"/" != p {
			notFound.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// lastOfConnection reports whether the connection must be closed after the response, because a
// proxy may disagree about where the request ended. RFC 9112 section 6.1 requires that for a
// request with both Transfer-Encoding and Content-Length, and for HTTP/1.0 with
// Transfer-Encoding. net/http accepts both, and does not report them.
func lastOfConnection(r *http.Request) bool {
	inChunks := r.ContentLength < 0
	return r.ProtoMajor == 1 && (inChunks || r.ProtoMinor == 0)
}

// closeAfter closes an HTTP/1 connection after the response, as it still carries the rest of
// the request. On HTTP/2, the rest of a stream does not affect others.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// requestID returns the client's request id if it has 1 to 128 visible ASCII characters, and a
// new one otherwise.
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
		exchangeOf(w).Route = pattern
		if h := m[r.Method]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		writeProblem(w, r, a.Log, atrium.Errorf(atrium.CodeMethodNotAllowed, "This path takes %s.", allow))
	})
}

// serve adapts a route to net/http.
func (a *API) serve(route Route) http.Handler {
	reads := new(recentReads)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := &memory{quota: a.Limits.Bodies}
		defer held.release()
		handle := a.handle
		if route.ForSites {
			handle = a.handleSite
		}
		response, err := handle(route, reads, held, w, r)
		if err == nil {
			err = a.writeResponse(w, r, held, response)
		}
		if err != nil {
			writeProblem(w, r, a.Log, err)
		}
		if route.ForSites && len(r.Header[headerKey]) == 0 {
			a.countResponse(w)
		}
	})
}

func (a *API) handle(route Route, reads *recentReads, held *memory, w http.ResponseWriter, r *http.Request) (Response, error) {
	ctx := r.Context() //nolint:contextcheck // the request has no other
	checked := time.Now()
	who, err := a.authenticate(ctx, w, r)
	if err != nil {
		return Response{}, err
	}
	if err := a.Limits.Rates.check(who, w); err != nil {
		return Response{}, err
	}
	if err := authorize(route, who); err != nil {
		return Response{}, err
	}
	if !accepts(r.Header["Accept"], route.Produces) {
		return Response{}, notAcceptable(route)
	}
	exchange := exchangeOf(w)
	held.tenant = who.TenantID
	request := &Request{http: r, id: exchange.RequestID, log: a.Log, requestLimits: requestLimits{limits: &a.Limits, writer: w, memory: held, checked: checked}}
	request.recheck = func(ctx context.Context) error {
		now, err := a.Keys.Authenticate(ctx, exchange.Client, r.Header.Get(headerKey))
		if err != nil {
			return err
		}
		return authorize(route, now)
	}
	if a.Stopping != nil {
		request.stopping = a.Stopping.Done()
	}
	if route.Method != http.MethodGet {
		if err := checkContentType(w, r, route.Consumes); err != nil {
			return Response{}, err
		}
	}
	switch {
	case route.Consumes == Lines:
		body := a.newUpload(ctx, w, r, request.recheck)
		defer body.end()
		ctx, request.Stream = body.ctx, body
	case route.Method != http.MethodGet:
		if request.Body, err = newBody(w, r, held).read(cmp.Or(route.MaxBody, a.MaxBody, DefaultMaxBody)); err != nil {
			return Response{}, err
		}
	}
	if route.Consumes != Lines && route.Produces != Lines {
		sharer := who.TenantID // operators share one, whichever tenant they name
		if err := admit(ctx, w, a.Limits.InFlight, sharer); err != nil {
			return Response{}, err
		}
		defer a.Limits.InFlight.Release(sharer)
	}
	if route.Consumes == JSON && route.Produces == JSON {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, storageTimeout+route.Wait) // only now: a body may arrive slowly
		defer cancel()
	}
	if request.Stream == nil { // a stream checks its key itself
		if err := request.recheckLate(ctx); err != nil {
			return Response{}, err
		}
	}
	if route.For == OneTenant || route.For == Either {
		if err := a.nameTenant(ctx, route, &who, r); err != nil {
			return Response{}, err
		}
		exchange.TenantID = who.TenantID
	}
	request.tenant = who.TenantID
	expected := smallRead
	if route.Method == http.MethodGet && route.Wait == 0 { // a handler that waits acquires what it needs itself
		expected = reads.expected(who.TenantID)
	}
	admitAs := expected
	if route.Heavy {
		admitAs = largeRead
	}
	release, err := request.admitRead(ctx, admitAs)
	if err != nil {
		return Response{}, err
	}
	defer release()
	response, err := route.Handle(ctx, who, request)
	if errors.Is(err, atrium.ErrNoTenant) && who.KeyID != "" && !who.Operator { // its key was cached
		err = auth.Unauthenticated()
	}
	if route.ReportIgnored {
		request.reportIgnored()
	}
	if err == nil && route.Reads != "" {
		exchange.Read, exchange.Subject = route.Reads, request.PathValue(route.Subject)
	}
	if err == nil && expected != smallRead && response.Body != nil {
		response.Body, err = Encode(response.Body)
	}
	response.limits, response.reader = &request.requestLimits, exchange.TenantID
	if route.Method == http.MethodGet {
		response.reads = reads
	}
	return response, err
}
