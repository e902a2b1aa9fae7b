package atrium

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Code names a kind of failure. It is part of the API: every code has a page
// under /errors/ and never changes its meaning.
type Code string

// The codes, each with the one HTTP status that carries it (internal/rest).
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeForbidden            Code = "forbidden"
	CodeNotFound             Code = "not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeNotAcceptable        Code = "not_acceptable"
	CodeConflict             Code = "conflict"
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

// An Error is a failure that a caller is told about. Detail and Faults are
// public: they never hold a value or an identifier that somebody sent. The
// cause, if any, is for the log alone.
type Error struct {
	Code   Code
	Detail string
	Faults []Fault       // for invalid input: the first faults that were found, MaxFaults at most
	Retry  time.Duration // for the codes that may pass by themselves: how long to wait, 0 for as long as usual
	cause  error
}

// MaxFaults is how many faults one error names. Decoders make no more of them: input may
// have millions.
const MaxFaults = 50

// A Fault is one thing wrong with a request or a line of input.
type Fault struct {
	In     FaultPlace
	Where  string // a JSON Pointer (RFC 6901), a parameter's name or a header's
	Detail string
}

// A FaultPlace tells which part of a request Fault.Where is a name in.
type FaultPlace string

// The places of a request that can be at fault.
const (
	InBody   FaultPlace = "pointer"
	InQuery  FaultPlace = "parameter"
	InHeader FaultPlace = "header"
)

// Errorf returns an Error of the code with a public detail.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Because returns e with a cause, which is logged and never shown.
func (e *Error) Because(cause error) *Error {
	with := *e
	with.cause = cause
	return &with
}

// Invalid returns the Error for input with the first of the given faults.
func Invalid(faults ...Fault) *Error {
	faults = faults[:min(len(faults), MaxFaults)]
	return &Error{Code: CodeInvalidRequest, Detail: "The request is not valid; see errors for each fault.", Faults: faults}
}

// NotFound returns the Error for what does not exist for a tenant. It is the
// same whether another tenant has it or nobody does.
func NotFound() *Error {
	return &Error{Code: CodeNotFound, Detail: "There is nothing here for this key."}
}

// ErrLocked says that nothing was done, because another transaction held a lock for long.
var ErrLocked = errors.New("another transaction holds a lock on what this one needs")

// Unavailable returns the Error for work that could not be done now, was not
// half done, and may be tried again.
func Unavailable(cause error) *Error {
	return &Error{Code: CodeUnavailable, Detail: "The service cannot do this right now. Nothing was changed; try again.", cause: cause}
}

// Uncertain returns the Error for work of which nobody can tell yet whether it was
// done. Trying again with the same idempotency key does it once.
func Uncertain(cause error) *Error {
	return &Error{Code: CodeUnavailable, Detail: "It is not known whether this was done. Try again with the same idempotency key.", cause: cause}
}

// Error returns the code, the detail, the faults and the cause: it is text for
// a log or a terminal.
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

// CodeOf returns the code of the first Error in err's tree, and
// CodeInternal if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
