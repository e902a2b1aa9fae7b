package rest

import (
	"cmp"
	"context"
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

// retryAfter is the default Retry-After of responses with 429 and 503.
const retryAfter = time.Second

// A CodeInfo describes a code: its HTTP status and title, and the meaning and remedy on its page.
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
		"The body is not strict JSON; a field, parameter or header is invalid; or a cursor does not belong to this list.",
		"Read the field errors: it has up to 50 faults and their locations. The same request will fail again.",
	},
	{
		atrium.CodeUnauthenticated, http.StatusUnauthorized, "A valid API key is needed",
		"The x-api-key header is missing or repeated, or its key is malformed, unknown, expired or revoked. Or the preview token of a request for content is not valid. The response does not say which.",
		"Send one x-api-key header with a valid key from an operator. For a preview, ask an operator for a new token.",
	},
	{
		atrium.CodeUnverified, http.StatusUnauthorized, "The request is not verified",
		"A request to a receiver does not have the signature or the secret that the receiver expects, the receiver is disabled, or there is no such receiver. The response does not say which.",
		"Compare the address and the secret of the receiver with those at the sender. Operators see the reason in the list of refused requests.",
	},
	{
		atrium.CodeForbidden, http.StatusForbidden, "The key does not allow this",
		"The key is valid, but it has no scope for this operation, or it is of the wrong kind: the key of an operator instead of a tenant, or the reverse. Or the key does not name the origin of the site.",
		"The field detail says which it is. Ask an operator for a key with the scope, or of the kind, that it names. For an origin, ask for a key with that origin.",
	},
	{
		atrium.CodeNotFound, http.StatusNotFound, "Not found",
		"The path does not exist, as the field detail then says. Or the tenant of the key has no resource with the identifier in the path, or with the accountId of the body. Another tenant's resources return the same response as those that do not exist. Without a key, only public pages exist in the content API.",
		"Check the path: a trailing or doubled slash makes it a different path, and the server does not redirect. Check the identifier: complete, with its prefix, in lower case. Check that the key belongs to the right tenant.",
	},
	{
		atrium.CodeMethodNotAllowed, http.StatusMethodNotAllowed, "The method is not allowed here",
		"The path exists, but does not support this method.",
		"Use one of the methods in the Allow header.",
	},
	{
		atrium.CodeNotAcceptable, http.StatusNotAcceptable, "Only JSON is available",
		"The Accept header excludes the media type of the response: application/json, or application/x-ndjson for a stream such as an export.",
		"Accept that media type, or send no Accept header.",
	},
	{
		atrium.CodeConflict, http.StatusConflict, "The state does not allow it",
		"The state of the resource does not allow the operation, or a name is taken.",
		"Read the current state, then decide.",
	},
	{
		atrium.CodeGone, http.StatusGone, "It has expired",
		"The events that the request asks for are no longer stored.",
		"Continue where the field detail says, and find out what you have missed in another way.",
	},
	{
		atrium.CodePreconditionFailed, http.StatusPreconditionFailed, "The precondition does not hold",
		"The tag in If-Match does not match the current state: the resource changed after you read it.",
		"Read it again, and repeat the change if it still makes sense.",
	},
	{
		atrium.CodePayloadTooLarge, http.StatusRequestEntityTooLarge, "The body is too large",
		"The body is larger than the limit. Nothing was stored, except by an import: the field detail says where to resume.",
		"Send less in one request, or ask the operator for a higher limit.",
	},
	{
		atrium.CodeURITooLong, http.StatusRequestURITooLong, "The target of the request is too long",
		"The path and query are too long, or the query has too many parameters.",
		"Send a shorter query. No documented operation needs one this long.",
	},
	{
		atrium.CodeUnsupportedMediaType, http.StatusUnsupportedMediaType, "The body must be JSON",
		"The Content-Type is not application/json (application/x-ndjson for an import) in UTF-8, or the body is compressed.",
		"Send the right Content-Type and an uncompressed body.",
	},
	{
		atrium.CodeIdempotencyKeyReused, http.StatusUnprocessableEntity, "The idempotency key was used for another request",
		"A different request with this idempotency key was recorded. Nothing was stored.",
		"Use a new key for a new request. To retry, send exactly what you sent first. An operator can find the entry that has the key: atrium entries list --idempotency-key KEY, or GET /manage/v0/account_logs?idempotencyKey=KEY.",
	},
	{
		atrium.CodePreconditionRequired, http.StatusPreconditionRequired, "The change must say what it is based on",
		"The request has no If-Match header. Without one, it could overwrite a change that you have not seen.",
		"Read the resource, and send its ETag in If-Match.",
	},
	{
		atrium.CodeRateLimited, http.StatusTooManyRequests, "Too many requests",
		"The key or its tenant exceeded the rate that the operator set, as the field detail and the headers RateLimit-Policy and RateLimit then say. Or this address sent too many requests without a key, to the content API or for pages under /docs, or with an invalid key or preview token. Valid keys still work from that address; preview tokens do not until the limit allows them again.",
		"Wait as long as the Retry-After header says. For the rate of a key or tenant, send fewer requests or ask the operator for a higher rate. For invalid keys or tokens, fix or stop their senders.",
	},
	{
		atrium.CodeHeaderTooLarge, http.StatusRequestHeaderFieldsTooLarge, "There are too many header fields",
		"The request has more header fields than the limit.",
		"Send fewer. A common cause is a proxy or client that adds the same fields repeatedly.",
	},
	{
		atrium.CodeInternal, http.StatusInternalServerError, "A fault in the server",
		"An unexpected error occurred. The server logged it with the request ID.",
		"Retry with the same idempotency key. If the error persists, send the request ID to the operator.",
	},
	{
		atrium.CodeUnavailable, http.StatusServiceUnavailable, "Not available right now",
		"The server is overloaded, or its database is unavailable. A change is applied completely or not at all, except for an import.",
		"Wait as long as the Retry-After header says, then retry with the same idempotency key.",
	},
}

// Info returns the description of a code, or that of CodeInternal if the code is unknown.
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
	Errors    []Fault     `json:"errors,omitempty"`
}

// A Fault is an element of errors. It has one of pointer, parameter and header.
type Fault struct {
	Pointer   *string `json:"pointer,omitzero"` // "" is the whole body
	Parameter *string `json:"parameter,omitzero"`
	Header    *string `json:"header,omitzero"`
	Detail    string  `json:"detail"`
}

// public returns the public form of an error. An error that is not an *atrium.Error is a bug:
// its text is only logged. All server errors are logged, except refusals because the server is busy or has no room, and
// requests that were canceled because the client closed the connection: an operator can do nothing about these.
func public(w http.ResponseWriter, r *http.Request, id string, log *slog.Logger, err error) (*atrium.Error, CodeInfo) {
	e, ok := errors.AsType[*atrium.Error](err)
	if !ok {
		e = atrium.Errorf(atrium.CodeInternal,
			"An internal error occurred. The operator can find it by the request id.").Because(err)
	}
	info := Info(e.Code)
	expected := errors.Is(err, limit.ErrBusy) || e.Code == atrium.CodeUnavailable && e.Unwrap() == nil ||
		errors.Is(err, context.Canceled) && hasClosed(w)
	if info.Status >= http.StatusInternalServerError && !expected {
		log.ErrorContext(r.Context(), "request failed", "requestId", id, "error", e)
	}
	return e, info
}

// Faults returns the public form of the faults of an error.
func Faults(faults []atrium.Fault) (all []Fault) {
	for _, f := range faults {
		shown := Fault{Detail: f.Detail}
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

// A Refusal is the error of one item of a batch, in the response to the batch.
type Refusal struct {
	Status int         `json:"status"`
	Code   atrium.Code `json:"code"`
	Detail string      `json:"detail"`
	Errors []Fault     `json:"errors,omitempty"`
}

// Refusal returns the Refusal for an error.
func (r *Request) Refusal(err error) Refusal {
	e, info := public(r.writer, r.http, r.id, r.log, err)
	return Refusal{info.Status, info.Code, e.Detail, Faults(e.Faults)}
}

// logProblem adds an error to the log of refused requests.
func logProblem(x *telemetry.Exchange, r *http.Request, e *atrium.Error) {
	x.Code, x.Detail, x.Faults, x.UserAgent = Info(e.Code).Code, e.Detail, e.Faults, r.UserAgent()
}

// LogProblem adds an error to the log of refused requests, although the response is not a problem document:
// that of a batch, some of whose items were refused.
func (r *Request) LogProblem(e *atrium.Error) { logProblem(exchangeOf(r.writer), r.http, e) }

// WriteProblem sends an error of an open handler as a problem document.
func (a *API) WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, r, a.Log, err)
}

// SetRetryAfter sets the header Retry-After of the response to an error if the same request can succeed later.
func SetRetryAfter(h http.Header, e *atrium.Error) {
	if e.Code == atrium.CodeUnavailable || e.Code == atrium.CodeRateLimited {
		h.Set("Retry-After", strconv.Itoa(seconds(cmp.Or(e.Retry, retryAfter))))
	}
}

// writeProblem sends an error as a problem document.
func writeProblem(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	if errors.Is(err, ErrStreams) {
		exchangeOf(w).Refused = telemetry.ByStreams
	}
	id := w.Header().Get(headerRequestID)
	e, info := public(w, r, id, log, err)
	logProblem(exchangeOf(w), r, e)
	p := problem{"/errors/" + string(info.Code), info.Title, info.Status, e.Detail, info.Code, id, Faults(e.Faults)}
	switch info.Code {
	case atrium.CodeUnauthenticated:
		w.Header().Set("WWW-Authenticate", `ApiKey realm="atrium"`)
	case atrium.CodeUnverified: // a 401 must have a challenge (RFC 9110 section 15.5.2), and this one must not tell the kind of the receiver
		w.Header().Set("WWW-Authenticate", `Webhook realm="atrium"`)
	}
	SetRetryAfter(w.Header(), e)
	body, err := json.Marshal(p)
	if err != nil { // cannot happen: a problem can always be encoded
		log.ErrorContext(r.Context(), "encode a problem", "requestId", id, "error", err)
	}
	Write(w, r, info.Status, typeProblem, body)
}
