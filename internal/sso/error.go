package sso

import (
	"context"
	"errors"
	"net"
	"net/url"

	"atrium"
)

// A Reason says what to do about a failed sign-in. Its text is a label of metrics.
type Reason string

// The reasons.
const (
	Denied      Reason = "denied"      // the person or the provider refused
	Stale       Reason = "stale"       // the sign-in expired, was finished before, or began in another browser
	Invalid     Reason = "invalid"     // the provider's response is not valid
	Unavailable Reason = "unavailable" // the provider does not respond
)

// An Error is a failed sign-in. Its text has no token, code or secret.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return shorten(e.Err.Error()) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// reasonOf returns the reason for an error of a request to the provider.
func reasonOf(err error) Reason {
	if _, ok := errors.AsType[net.Error](err); ok {
		return Unavailable
	}
	if _, ok := errors.AsType[*url.Error](err); ok || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Unavailable
	}
	return Invalid
}

// maxLogged is the maximum length in bytes of what is logged of texts of the provider.
const maxLogged = 300

// shorten returns the beginning of a text as one line.
func shorten(text string) string {
	return atrium.ShortLine(maxLogged, text)
}
