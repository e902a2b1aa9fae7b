package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"atrium"
	"atrium/internal/auth"
)

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
	Heavy   bool  // the handler reads or compares much, and waits for no commit: it runs as heavy work
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
	KeyTenant Tenancy = iota // the tenant of the key; nothing for an operator's
	OneTenant                // the tenant of the key, or the one that an operator names
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

	session
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

	Document Document // a JSON body that is too large to hold in memory, instead of Body

	recheck func(context.Context) error // of the request; set for a Stream
	reads   *largeReads                 // of the route; nil unless the request reads
}

// NoContent is the answer to a deletion.
var NoContent = Response{Status: http.StatusNoContent}

// A Document opens a snapshot of what is stored, calls send once with a function that
// writes the JSON of it, and returns the error of send. The snapshot is open until send
// returns. It ends with ctx.
type Document func(ctx context.Context, send func(DocumentWriter) error) error

// A DocumentWriter writes a document and returns its entity tag, without quotes. It is
// called twice, as the tag and the length of a body are sent before it. It must write the
// same bytes both times, in writes of some size: they are not buffered.
type DocumentWriter func(io.Writer) (tag string, err error)
