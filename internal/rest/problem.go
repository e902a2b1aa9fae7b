package rest

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"atrium"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// retryAfter is the default of Retry-After, which responses with temporary errors have.
const retryAfter = time.Second

// A CodeInfo describes a code: its HTTP status and title, and for its page, what it means and
// what to do.
type CodeInfo struct {
	Code    atrium.Code
	Status  int
	Title   string
	Meaning string
	Remedy  string
}

// Codes lists all codes by status.
var Codes = []CodeInfo{
	{
		atrium.CodeInvalidRequest, http.StatusBadRequest, "The request is not valid",
		"The body is not strict JSON, a member, parameter or header breaks its constraint, or a cursor is not one that this list gave out.",
		"Look at the member errors: it names every fault and where it is, 50 at most. The same request will fail again.",
	},
	{
		atrium.CodeUnauthenticated, http.StatusUnauthorized, "A valid API key is needed",
		"The x-api-key header is missing, is there more than once, or holds a key that is malformed, unknown, expired or revoked. The answer is the same for all of these.",
		"Send one x-api-key header with a key that an operator gave you.",
	},
	{
		atrium.CodeForbidden, http.StatusForbidden, "The key lacks the scope",
		"The key is valid, but it was made without the scope that this operation needs.",
		"Ask an operator for a key with the scope that the description of the operation names.",
	},
	{
		atrium.CodeNotFound, http.StatusNotFound, "Not found",
		"There is no such path, or nothing with this identifier that belongs to the tenant of the key. What another tenant has looks exactly like what nobody has.",
		"Check the path (there are no redirects: a trailing slash or a doubled one is another path) and the identifier.",
	},
	{
		atrium.CodeMethodNotAllowed, http.StatusMethodNotAllowed, "The method is not allowed here",
		"The path exists, but not with this method.",
		"Use one of the methods in the Allow header.",
	},
	{
		atrium.CodeNotAcceptable, http.StatusNotAcceptable, "JSON is all there is",
		"The Accept header rules out application/json.",
		"Accept application/json, or send no Accept header.",
	},
	{
		atrium.CodeConflict, http.StatusConflict, "The state does not allow it",
		"The request was understood, but what it is about is in a state that does not allow it, or a name is taken.",
		"Read the current state, then decide.",
	},
	{
		atrium.CodePreconditionFailed, http.StatusPreconditionFailed, "The precondition does not hold",
		"The If-Match header names a state that is not the current one: somebody changed it since you read it.",
		"Read it again, and repeat the change if it still makes sense.",
	},
	{
		atrium.CodePayloadTooLarge, http.StatusRequestEntityTooLarge, "The body is too large",
		"The body is larger than the server takes. Nothing of it was kept.",
		"Send less in one request, or ask the operator for a higher limit.",
	},
	{
		atrium.CodeURITooLong, http.StatusRequestURITooLong, "The target of the request is too long",
		"The path and the query together are longer, or the query has more parameters, than the server takes.",
		"Send a shorter query. No request that the API describes needs such a long one.",
	},
	{
		atrium.CodeUnsupportedMediaType, http.StatusUnsupportedMediaType, "The body must be JSON",
		"The Content-Type is not application/json in UTF-8, or the body has a content coding.",
		"Send Content-Type: application/json and an uncompressed body.",
	},
	{
		atrium.CodeIdempotencyKeyReused, http.StatusUnprocessableEntity, "The idempotency key was used for another request",
		"An entry with this idempotency key exists, and what was sent then is not what is sent now.",
		"Use a new key for a new entry. To retry, send exactly what you sent first.",
	},
	{
		atrium.CodePreconditionRequired, http.StatusPreconditionRequired, "The change must say what it is based on",
		"The request has no If-Match header. Without one, the change could undo what somebody else did a moment ago.",
		"Read what you are about to change, and send its ETag in If-Match.",
	},
	{
		atrium.CodeRateLimited, http.StatusTooManyRequests, "Too many requests",
		"More requests came than the server takes with this key or for this tenant, or too many from this address had a key that is not valid.",
		"Wait as long as the Retry-After header says.",
	},
	{
		atrium.CodeHeaderTooLarge, http.StatusRequestHeaderFieldsTooLarge, "There are too many header fields",
		"The request has more header fields than the server takes.",
		"Send fewer. Often it is a proxy or a client that adds the same ones again and again.",
	},
	{
		atrium.CodeInternal, http.StatusInternalServerError, "A fault in the server",
		"Something happened that should not. It is in the server's log under the request id.",
		"Retry with the same idempotency key. If it stays, give the operator the request id.",
	},
	{
		atrium.CodeUnavailable, http.StatusServiceUnavailable, "Not available right now",
		"The storage is away or more is waiting to be written than the server takes. Nothing was half done.",
		"Wait as long as the Retry-After header says, then retry with the same idempotency key.",
	},
}

// Info returns the description of a code; that of CodeInternal if it is unknown.
func Info(code atrium.Code) CodeInfo {
	internal := 0
	for i := range Codes {
		switch Codes[i].Code {
		case code:
			return Codes[i]
		case atrium.CodeInternal:
			internal = i
		}
	}
	return Codes[internal]
}

// A problem is the body of an error response (RFC 9457).
type problem struct {
	Type      string      `json:"type"`
	Title     string      `json:"title"`
	Status    int         `json:"status"`
	Detail    string      `json:"detail"`
	Code      atrium.Code `json:"code"`
	RequestID string      `json:"requestId"`
	Errors    []fault     `json:"errors,omitempty"`
}

// A fault is an element of errors: one of pointer, parameter and header, and what is wrong
// there.
type fault struct {
	Pointer   *string `json:"pointer,omitzero"` // "" is the whole body
	Parameter *string `json:"parameter,omitzero"`
	Header    *string `json:"header,omitzero"`
	Detail    string  `json:"detail"`
}

// public returns the public form of an error. An error that is not an *atrium.Error is a bug:
// its text is only logged. All errors of the server are logged, except that it is busy: a line
// for each refusal would add load.
func public(r *http.Request, id string, log *slog.Logger, err error) (*atrium.Error, CodeInfo) {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		e = atrium.Errorf(atrium.CodeInternal,
			"Something went wrong here. The request id leads the operator to it.").Because(err)
	}
	info := Info(e.Code)
	if info.Status >= http.StatusInternalServerError && !errors.Is(err, limit.ErrBusy) {
		log.ErrorContext(r.Context(), "request failed", "requestId", id, "error", e)
	}
	return e, info
}

func publicFaults(e *atrium.Error) (all []fault) {
	for _, f := range e.Faults {
		shown := fault{Detail: f.Detail}
		switch f.In {
		case atrium.InBody:
			shown.Pointer = &f.Where
		case atrium.InQuery:
			shown.Parameter = &f.Where
		case atrium.InHeader:
			shown.Header = &f.Where
		}
		all = append(all, shown)
	}
	return all
}

// A Refusal is the error of one part of a request, in the response to all of it.
type Refusal struct {
	Status int         `json:"status"`
	Code   atrium.Code `json:"code"`
	Detail string      `json:"detail"`
	Errors []fault     `json:"errors,omitempty"`
}

// Refusal returns the Refusal for an error.
func (r *Request) Refusal(err error) Refusal {
	e, info := public(r.http, r.id, r.log, err)
	return Refusal{info.Status, info.Code, e.Detail, publicFaults(e)}
}

// writeProblem sends an error as a problem document.
func writeProblem(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	if errors.Is(err, ErrStreams) {
		note(w).Refused = telemetry.ByStreams
	}
	id := w.Header().Get(headerRequestID)
	e, info := public(r, id, log, err)
	p := problem{"/errors/" + string(info.Code), info.Title, info.Status, e.Detail, info.Code, id, publicFaults(e)}
	switch info.Code {
	case atrium.CodeUnauthenticated:
		w.Header().Set("WWW-Authenticate", `ApiKey realm="atrium"`)
	case atrium.CodeUnavailable, atrium.CodeRateLimited:
		w.Header().Set("Retry-After", strconv.Itoa(seconds(cmp.Or(e.Retry, retryAfter))))
	}
	body, err := json.Marshal(p)
	if err != nil { // cannot happen: a problem can always be encoded
		log.ErrorContext(r.Context(), "encode a problem", "requestId", id, "error", err)
	}
	write(w, r, info.Status, typeProblem, body)
}
