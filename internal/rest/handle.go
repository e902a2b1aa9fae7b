// Package rest is the floor that every HTTP API of Atrium stands on: routing,
// the order in which a request is judged, strict bodies and parameters, problem
// documents, cursors and conditional requests.
//
// A request is judged in one order: its head, path, method, key, rate, scope, media types and
// size, content, existence, state. What a handler does begins with content.
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

// DefaultMaxBody is how large a body may be, in bytes, unless a setting says
// otherwise.
const DefaultMaxBody = 1 << 20

// storageTimeout bounds how long a request waits for storage, once all of it has come.
// Streams have no such limit.
const storageTimeout = 20 * time.Second

// Keys say who holds a key: an *auth.Authenticator.
type Keys interface {
	Authenticate(ctx context.Context, client netip.Addr, key string) (auth.Principal, error)
}

// An API serves routes.
type API struct {
	Keys      Keys
	Tenants   func(context.Context, atrium.TenantID) error // NotFound for one that does not exist; nil if there are no operators
	Log       *slog.Logger
	Limits    Limits
	MaxBody   int64           // in bytes; 0 stands for DefaultMaxBody
	MaxStream int64           // of a body that is streamed, in bytes
	Stopping  context.Context // ends when streams are to end; nil for never

	// Observe is called after every response, with the context of the request; nil for none.
	Observe func(context.Context, *telemetry.Exchange)

	// Begin returns the context of a request, made of its own; nil for that itself.
	Begin func(*http.Request) context.Context
	HSTS  time.Duration // how long browsers take TLS alone; 0 unless it is spoken
}

// Handler returns what serves the routes, for callers with a key, and the open
// ones, for everybody. Every answer, also to what no route serves, has a request
// id, and every error is a problem document.
func (a *API) Handler(routes []Route, open map[string]http.Handler) http.Handler {
	mux := http.NewServeMux()
	nothing := shown(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeProblem(w, r, a.Log, atrium.NotFound()) }))
	patterns := map[string]methods{}
	for _, route := range routes {
		if patterns[route.Pattern] == nil {
			patterns[route.Pattern] = methods{}
		}
		patterns[route.Pattern][route.Method] = a.serve(route)
	}
	for pattern, handler := range open {
		patterns[pattern] = methods{http.MethodGet: shown(handler)}
	}
	for pattern, m := range patterns {
		if get := m[http.MethodGet]; get != nil {
			m[http.MethodHead] = get // net/http leaves the body out
		}
		mux.Handle(pattern, a.dispatch(pattern, m))
		if bare, ok := strings.CutSuffix(pattern, "/{$}"); ok && bare != "" {
			mux.Handle(bare, nothing) // which ServeMux would redirect
		}
	}
	mux.Handle("/", nothing)
	return a.guard(mux, nothing)
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

// guard gives every answer its request id, has nothing answer paths that ServeMux would
// redirect, turns a panic into a problem, and tells the observer.
func (a *API) guard(next, nothing http.Handler) http.Handler {
	transport := hsts(a.HSTS)
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := r.Context() //nolint:contextcheck // the request has no other
		if a.Begin != nil {
			ctx = a.Begin(r)
		}
		w := &recorder{plain, telemetry.Exchange{
			Method: r.Method, RequestID: requestID(r.Header[headerRequestID]),
			Client: a.Limits.Proxies.Client(r.RemoteAddr, r.Header["X-Forwarded-For"]),
		}}
		w.Header()[headerRequestID] = []string{w.RequestID}
		// net/http ends the context of a request when its client sends no more, be it gone
		// or not. Who has sent all of a request waits for its answer.
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
					panic(p) //nolint:forbidigo // net/http ends the connection with it
				}
				writeProblem(w, r, a.Log, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		if err := a.Limits.checkHead(r); err != nil {
			writeProblem(w, r, a.Log, err)
			return
		}
		if p := r.URL.EscapedPath(); p == "" || p[0] != '/' || p == "//" || path.Clean(p) != p && path.Clean(p)+"/" != p {
			nothing.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// lastOfConnection reports whether what follows the request on its connection may not be
// taken for another one. RFC 9112 section 6.1 asks for that when a request has both
// Transfer-Encoding and Content-Length, and when one of HTTP/1.0 has Transfer-Encoding:
// whoever sent it on may have seen its end elsewhere. net/http takes both and does not tell.
func lastOfConnection(r *http.Request) bool {
	inChunks := r.ContentLength < 0
	return r.ProtoMajor == 1 && (inChunks || r.ProtoMinor == 0)
}

// closeAfter ends a connection with the answer, because of what is left of the request on
// it. One of HTTP/2 goes on: the rest of a stream is in the way of no other.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
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
	reads := new(largeReads)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := a.handle(route, reads, w, r)
		if err == nil {
			err = a.writeResponse(w, r, response)
		}
		if err != nil {
			writeProblem(w, r, a.Log, err)
		}
	})
}

func (a *API) handle(route Route, reads *largeReads, w http.ResponseWriter, r *http.Request) (Response, error) {
	ctx := r.Context() //nolint:contextcheck // the request has no other
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
	if !accepts(r.Header["Accept"], route.Answers) {
		return Response{}, atrium.Errorf(atrium.CodeNotAcceptable, "The answer is %s, which the Accept header rules out.", route.Answers)
	}
	exchange := note(w)
	request := &Request{http: r, id: exchange.RequestID, log: a.Log, session: session{limits: &a.Limits, writer: w}}
	request.recheck = func(ctx context.Context) error {
		now, err := a.Keys.Authenticate(ctx, exchange.Client, r.Header.Get(headerKey))
		if err != nil {
			return err
		}
		return authorize(route, now)
	}
	if route.Method != http.MethodGet {
		if err := checkContentType(w, r, route.Takes); err != nil {
			return Response{}, err
		}
	}
	switch {
	case route.Takes == Lines:
		body := a.newUpload(ctx, w, r, request.recheck)
		defer body.end()
		ctx, request.Stream = body.ctx, body
	case route.Method != http.MethodGet:
		body := a.newBody(w, r, who.TenantID)
		defer body.end()
		if request.Body, err = body.read(cmp.Or(route.MaxBody, a.MaxBody, DefaultMaxBody)); err != nil {
			return Response{}, err
		}
	}
	if route.Takes != Lines && route.Answers != Lines {
		sharer := who.TenantID // operators have a share of their own, whichever tenant they name
		if err := admit(ctx, w, a.Limits.InFlight, sharer); err != nil {
			return Response{}, err
		}
		defer a.Limits.InFlight.Release(sharer)
	}
	if route.Takes == JSON && route.Answers == JSON {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, storageTimeout) // not before: how slowly a body comes is its sender's affair
		defer cancel()
	}
	if route.For == OneTenant || route.For == Either {
		if err := a.nameTenant(ctx, route, &who, r); err != nil {
			return Response{}, err
		}
		exchange.TenantID = who.TenantID
	}
	large := route.Method == http.MethodGet && reads.expected(who.TenantID)
	request.tenant = who.TenantID
	if large || route.Heavy {
		if err := request.beginHeavy(ctx); err != nil {
			return Response{}, err
		}
		defer request.endHeavy()
	}
	response, err := route.Handle(ctx, who, request)
	if err == nil && large && response.Body != nil {
		response.Body, err = Encode(response.Body)
	}
	response.recheck = request.recheck
	if route.Method == http.MethodGet {
		response.reads = reads
	}
	return response, err
}
