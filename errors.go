package atrium

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Code identifies a kind of failure. Codes are part of the API: each is documented
// under /errors/, and its meaning never changes.
type Code string

// The codes. Package rest maps each to one HTTP status.
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeUnverified           Code = "unverified"
	CodeForbidden            Code = "forbidden"
	CodeNotFound             Code = "not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeNotAcceptable        Code = "not_acceptable"
	CodeConflict             Code = "conflict"
	CodeGone                 Code = "gone"
	CodePreconditionFailed   Code = "precondition_failed"
	CodePreconditionRequired Code = "precondition_required"
	CodePayloadTooLarge      Code = "payload_too_large"
	CodeURITooLong           Code = "uri_too_long"
	CodeHeaderTooLarge       Code = "header_too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeIdempotencyKeyReused Code = "idempotency_key_reused"
	CodeRateLimited          Code = "rate_limited"
	CodeInternal             Code = "internal"
	CodeUnavailable          Code = "unavailable"
)

// An Error is a failure that is reported to the client. Detail and Faults are public:
// they never contain values or identifiers from the request. The cause, if any, is only
// logged.
type Error struct {
	Code   Code
	Detail string
	Faults []Fault       // for invalid input: the first MaxFaults faults
	Retry  time.Duration // for transient failures: when to retry; 0 for the default
	cause  error
}

// MaxFaults is the maximum number of faults of an error. Decoders stop collecting there,
// because an input may have millions.
const MaxFaults = 50

// A Fault is one problem of a request or a line of input.
type Fault struct {
	In     FaultPlace
	Where  string // a JSON Pointer (RFC 6901), or the name of a parameter or header
	Detail string
}

// A FaultPlace is the part of a request that Fault.Where refers to.
type FaultPlace string

// The parts of a request that can have faults.
const (
	InBody   FaultPlace = "pointer"
	InQuery  FaultPlace = "parameter"
	InHeader FaultPlace = "header"
)

// Errorf returns an Error with a formatted detail, which is public.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Because returns a copy of e with a cause, which is logged but never sent to the client.
func (e *Error) Because(cause error) *Error {
	with := *e
	with.cause = cause
	return &with
}

// Invalid returns the Error for invalid input with the first MaxFaults of the given faults.
func Invalid(faults ...Fault) *Error {
	faults = faults[:min(len(faults), MaxFaults)]
	return &Error{Code: CodeInvalidRequest, Detail: "The request is not valid; see errors for each fault.", Faults: faults}
}

// NotFound returns the Error for a resource that the tenant does not have. It is the same
// whether or not another tenant has it.
func NotFound() *Error {
	return &Error{Code: CodeNotFound, Detail: "This does not exist, or this key cannot see it."}
}

// ErrNoTenant is the cause of the error for a tenant that does not exist or is being deleted.
var ErrNoTenant = errors.New("the tenant does not exist or is being deleted")

// NoTenant returns NotFound with the cause ErrNoTenant.
func NoTenant() *Error { return NotFound().Because(ErrNoTenant) }

// ErrDeferred is the outcome of a draft that was not stored, because the transaction had become
// large. It can be stored in another one.
var ErrDeferred = errors.New("the transaction has become large")

// ErrLocked means that an operation did not wait for a lock that another transaction holds. Nothing
// was changed, unless the error also is Uncertain.
var ErrLocked = errors.New("another transaction holds the lock")

// Unavailable returns the Error for an operation that failed for a transient reason. It
// has changed nothing and can be retried.
func Unavailable(cause error) *Error {
	return &Error{Code: CodeUnavailable, Detail: "The service cannot do this right now. Nothing was changed; try again.", cause: cause}
}

// Uncertain returns the Error for an operation with an unknown outcome, such as a commit
// whose response was lost. A retry with the same idempotency key does not repeat it.
func Uncertain(cause error) *Error {
	return &Error{Code: CodeUnavailable, Detail: "It is not known whether this was done. Try again with the same idempotency key.", cause: cause}
}

// Error returns the code, the detail, the faults and the cause, for a log or a terminal.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Code, e.Detail)
	for _, f := range e.Faults {
		fmt.Fprintf(&b, " [%s %q: %s]", f.In, f.Where, f.Detail)
	}
	if e.cause != nil {
		fmt.Fprintf(&b, " (%v)", e.cause)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf returns the code of the first Error in the tree of err, or CodeInternal if there
// is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
