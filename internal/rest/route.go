package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
)

// A Route is one operation.
type Route struct {
	Method   string
	Pattern  string // of http.ServeMux, without the method
	Scope    atrium.Scope
	Or       atrium.Scope // an alternative to Scope; "" for none
	For      Tenancy
	Consumes Media         // of the request body
	Produces Media         // of the response body
	MaxBody  int64         // maximum size of a JSON body in bytes; 0 for that of the API
	Heavy    bool          // the handler reads or compares much and does not wait for a commit: it runs as heavy work
	Wait     time.Duration // how long the handler may wait for something to happen, in addition to the storage
	ForSites bool          // browsers on other sites may call it, without a key too: see site.go
	Handle   Handler

	// Reads is the personal data that responses have, "" for none. Subject is the parameter of the path that
	// names it, "" for none. Requests of users are recorded, and those of keys if it is an export.
	Reads   atrium.ReadKind
	Subject string

	// ReportIgnored reports members and parameters that have no effect in the header Atrium-Ignored.
	ReportIgnored bool
}

// A Media is the media type of a body.
type Media int

// The media types.
const (
	JSON  Media = iota // one JSON text
	Lines              // NDJSON, which is streamed
)

func (m Media) String() string {
	if m == Lines {
		return "application/x-ndjson"
	}
	return "application/json"
}

// A Tenancy is the tenant that an operation concerns.
type Tenancy int

// The tenancies.
const (
	KeyTenant Tenancy = iota // the tenant of the key; not for operators
	OneTenant                // the tenant of the key, or the one that an operator names
	AnyTenant                // no tenant; only for operators
	Either                   // OneTenant or AnyTenant
)

// A Handler runs an operation for an authenticated caller. An error that is not an
// *atrium.Error is a bug.
type Handler func(ctx context.Context, who auth.Principal, r *Request) (Response, error)

// A Request is a request as a handler sees it.
type Request struct {
	http *http.Request
	id   string // the request id
	log  *slog.Logger
	Body []byte // empty unless the method has a body and the route consumes JSON

	// Stream is the body if the route consumes Lines. It may be read slowly. Reading fails if
	// the client sends nothing for a while, or more than the maximum.
	Stream io.Reader

	query   *Query        // nil if the handler has not called Query
	ignored ignoredFields // members of the body
	token   bool          // see UseToken

	stopping <-chan struct{} // see Stopping

	requestLimits
}

// Stopping returns a channel that is closed when the server stops, for handlers that wait. It is nil if it never is.
func (r *Request) Stopping() <-chan struct{} { return r.stopping }

// ID returns the identifier of the request.
func (r *Request) ID() string { return r.id }

// LogEntry adds the entry that the request stored or replays, and its account, to the log of the
// request.
func (r *Request) LogEntry(id atrium.EntryID, account atrium.AccountID) {
	x := exchangeOf(r.writer)
	x.EntryID, x.AccountID = id, account
}

// Client returns the address of the client; the zero Addr if it is unknown.
func (r *Request) Client() netip.Addr { return exchangeOf(r.writer).Client }

// PathValue returns a decoded segment of the path.
func (r *Request) PathValue(name string) string { return r.http.PathValue(name) }

// PathID returns a segment of the path as an identifier. The error of a malformed one has the
// code atrium.CodeNotFound.
func PathID[T atrium.Identifier](r *Request, name string) (T, error) {
	id, ok := atrium.ParseID[T](r.PathValue(name))
	if !ok {
		return id, atrium.NotFound()
	}
	return id, nil
}

// Header returns the values of a header, in order.
func (r *Request) Header(name string) []string { return r.http.Header.Values(name) }

// A Response is a successful response.
type Response struct {
	Status int                   // 0 means 200
	Body   any                   // encoded as JSON, unless it is an Encoded; ignored with 204
	Stream func(io.Writer) error // writes the response of a route that produces Lines, instead of Body
	ETag   string                // without quotes; "" means a hash of the body
	Tagged bool                  // send the entity tag with every method: the body is the state of a resource
	Header http.Header

	// Open limits the concurrent Streams of a tenant; nil for no limit. A Stream that waits for a slot does
	// no heavy work: those that hold one need that to continue.
	Open *limit.Semaphore[atrium.TenantID]

	Document Document // a JSON body that is too large to hold in memory, instead of Body

	// MaxAge makes the response public: any cache may store it for this long, and any site may read
	// it. nil for a private response.
	MaxAge *time.Duration

	// Rows is the number of stored rows that Body was encoded from. Handlers set it only if it can be large.
	Rows int

	// Search exempts a Stream from the minimum rate that includes the time of the server: it may search for
	// long and find little. It must open no snapshot, and call Write often, with no bytes if there are none.
	// A call takes as long as the work since the last one, so that a search occupies half of a processor.
	Search bool

	limits *requestLimits  // of the request, for a Stream
	reads  *recentReads    // of the route; nil unless the request reads
	reader atrium.TenantID // for whom limits count the response
}

// NoContent is the response to a deletion.
var NoContent = Response{Status: http.StatusNoContent}

// A Document opens a snapshot of the database, calls send once with a function that writes
// JSON from it, and returns the error of send. The snapshot stays open until send returns, or
// ctx ends.
type Document func(ctx context.Context, send func(DocumentWriter) error) error

// A DocumentWriter writes a document and returns its entity tag, without quotes. It is called
// twice, because the tag and the length are sent before the body, and must write the same
// bytes both times. Its writes are not buffered.
type DocumentWriter func(io.Writer) (tag string, err error)
