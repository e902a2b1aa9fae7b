// Package webhook sends events to the endpoints of tenants: it signs them, decides to which addresses
// connections may go, limits what an endpoint can cost, and classifies the result. It stores nothing: its
// callers decide when to send what.
package webhook

import (
	"context"
	"net/http"
	"time"
)

// A Format is the form of the request that carries an event.
type Format string

// The formats.
const (
	Standard    Format = "standard"    // our body, signed as Standard Webhooks describes
	Legacy      Format = "legacy"      // the body and headers of the hosted service whose API Atrium implements
	CloudEvents Format = "cloudevents" // CloudEvents 1.0 in structured JSON, signed as Standard
)

// Formats returns all formats.
func Formats() []Format { return []Format{Standard, Legacy, CloudEvents} }

// An Endpoint is where events are sent.
type Endpoint struct {
	URL     string // see CheckURL
	Format  Format
	Secrets [][]byte // the keys of signatures, newest first; at least one
	Headers []Header // of the tenant, added to each request; see CheckHeaders

	// AcquireHeavy waits until the tenant may use a processor: verifying the certificates of an endpoint costs more than a small request.
	// If it fails, the attempt is Canceled. nil for no limit.
	AcquireHeavy func(context.Context) (release func(), err error)
}

// A Header is a header field.
type Header struct {
	Name, Value string
}

// A Message is an event in the form of an Endpoint. Both fields are the same on every attempt.
type Message struct {
	ID   string // of the event
	Body []byte // see Body
}

// A Result says what follows from an attempt.
type Result int

// The results.
const (
	Succeeded Result = iota + 1 // a status from 200 to 299
	Retry                       // try again later
	Gone                        // 410: the endpoint wants no more events
	Canceled                    // the context ended, or no processor was free for the handshake: it does not count as an attempt
)

// A Failure is why an attempt did not succeed. Its text is a label of metrics.
type Failure string

// The failures.
const (
	NoFailure Failure = ""
	DNS       Failure = "dns"      // the name of the host was not resolved
	Blocked   Failure = "blocked"  // the address may not be called
	Connect   Failure = "connect"  // no connection
	TLS       Failure = "tls"      // the handshake failed, or the certificate is not valid
	Timeout   Failure = "timeout"  // no response in time
	Closed    Failure = "closed"   // the connection ended before the response
	Protocol  Failure = "protocol" // the response is not HTTP, or its headers are too large
	Redirect  Failure = "redirect" // a status from 300 to 399
	Status    Failure = "status"   // any other status but 200 to 299
	Unsigned  Failure = "unsigned" // the endpoint has no secret; nothing was sent
)

// Failures returns all failures.
func Failures() []Failure {
	return []Failure{DNS, Blocked, Connect, TLS, Timeout, Closed, Protocol, Redirect, Status, Unsigned}
}

// An Attempt is the result of sending a message once.
type Attempt struct {
	Result     Result
	Status     int           // of the response; 0 without one
	Duration   time.Duration // until the response was read, or the attempt failed
	Failure    Failure
	Detail     string        // of the failure, for the tenant: it has no address that the tenant did not choose
	BodyPrefix []byte        // the first MaxBodyPrefix bytes of the body of the response
	RetryAfter time.Duration // that the endpoint asked for, up to MaxRetryAfter; 0 for none
	Handshake  bool          // a TLS handshake was begun
	Received   int64         // bytes read, with those of TLS; each read counts as at least 64
	Cause      error         // of the failure, for logs only: it may name addresses of the network; may be nil
}

// ThrottledFor returns for how long the endpoint wants no requests at all. Retry-After is about all requests only if the status is
// 429 or 503 (RFC 6585 section 4, RFC 9110 section 15.6.4).
func (a *Attempt) ThrottledFor() time.Duration {
	if a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable {
		return a.RetryAfter
	}
	return 0
}

// Limits.
const (
	MaxURL                 = 2048     // characters of a URL
	MaxHeaders             = 20       // headers of an endpoint
	MaxHeaderValue         = 4 << 10  // bytes of the value of one
	MaxHeaderBytes         = 8 << 10  // of all names and values of an endpoint
	MaxBodyPrefix          = 4 << 10  // bytes of the body of a response that are stored
	maxDrainedBytes        = 64 << 10 // further bytes that are read so that the connection can be reused
	maxResponseHeaderBytes = 16 << 10 // bytes of the headers of a response

	// MaxRetryAfter is the longest time that an endpoint can ask for.
	MaxRetryAfter = 24 * time.Hour
)
