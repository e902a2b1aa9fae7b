package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"time"
)

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 15 * time.Second

// Limits of connections that are open and not in use.
const (
	idleConnections = 256
	idlePerHost     = 8
	idleTimeout     = 30 * time.Second
)

// Config has the settings of a Sender. The zero value is valid.
type Config struct {
	Allow     []netip.Prefix // networks that may be called although they are not public, and without TLS
	UserAgent string         // "" for Atrium
	Resolver  *net.Resolver  // nil for that of the system
	RootCAs   *x509.CertPool // nil for those of the system
	Timeout   time.Duration  // of an attempt; 0 for DefaultTimeout
}

// A Sender sends messages. It is safe for concurrent use. It does not limit how many messages are sent at once:
// its callers do.
type Sender struct {
	config     Config
	client     *http.Client
	transports [2]*http.Transport
}

// NewSender returns a Sender.
func NewSender(c Config) *Sender {
	c.UserAgent, c.Timeout = cmp.Or(c.UserAgent, "Atrium"), cmp.Or(c.Timeout, DefaultTimeout)
	s := &Sender{config: c}
	secure := newTransport(c, allowedWithTLS)
	plain := newTransport(c, allowedWithoutTLS)
	s.transports = [2]*http.Transport{secure, plain}
	s.client = &http.Client{
		Transport:     byScheme{secure, plain},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// Close closes the connections that are not in use.
func (s *Sender) Close() {
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
}

// byScheme sends requests with TLS and without it through different transports, because fewer addresses are
// allowed without it.
type byScheme struct{ secure, plain http.RoundTripper }

func (t byScheme) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.secure.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

// newTransport returns a transport that connects only to the addresses that may be called. It uses HTTP/1.1, so that what an
// endpoint does to a connection concerns one message, and no proxy, which would resolve the name itself.
func newTransport(c Config, may func(netip.Addr, []netip.Prefix) bool) *http.Transport {
	dialer := newDialer(c, may)
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dialPlain(ctx, dialer, address) },
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dialTLS(ctx, dialer, address, c.RootCAs)
		},
		MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		DisableCompression:     true, // a small response could become a large one
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// Send sends a message once and returns the result. now is the time in the signature. It returns after
// Config.Timeout at the latest.
func (s *Sender) Send(ctx context.Context, e Endpoint, m Message, now time.Time) Attempt {
	if len(e.Secrets) == 0 {
		return Attempt{Result: Retry, Failure: Unsigned, Detail: details[Unsigned]}
	}
	if faults := CheckURL(e.URL, s.config.Allow); len(faults) > 0 { // the settings may have changed
		return Attempt{Result: Retry, Failure: Blocked, Detail: "The URL " + faults[0].Detail + "."}
	}
	limited, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	var handshake, handshakeFailed atomic.Bool
	dialed := context.WithValue(limited, dialHooksKey{}, &dialHooks{
		request: limited, acquire: e.AcquireHeavy,
		onHandshake:       func() { handshake.Store(true) },
		onHandshakeFailed: func() { handshakeFailed.Store(true) },
	})
	var used usage
	traced := httptrace.WithClientTrace(dialed, used.trace())
	start := time.Now()
	r, err := http.NewRequestWithContext(traced, http.MethodPost, e.URL, bytes.NewReader(m.Body))
	if err != nil {
		return failed(Protocol, err, time.Since(start))
	}
	s.setHeaders(r, &e, &m, now)
	response, err := s.client.Do(r)
	if err != nil {
		a := failed(failureOf(err, handshakeFailed.Load()), err, time.Since(start))
		if ctx.Err() != nil || errors.Is(err, errBusy) {
			a = Attempt{Result: Canceled, Duration: a.Duration, Cause: err}
		}
		a.Handshake, a.Received = handshake.Load(), used.end()
		return a
	}
	a := resultOf(response, now)
	a.Handshake = handshake.Load()
	if response.StatusCode != http.StatusSwitchingProtocols { // its body is the connection, which no timeout ends
		a.BodyPrefix = readBody(response.Body, s.config.Timeout/bodyShare, cancel)
	}
	a.Duration, a.Received = time.Since(start), used.end()
	_ = response.Body.Close()
	return a
}

// bodyShare is the part of the timeout that the body of a response may take.
const bodyShare = 5

// readBody reads the body of a response and returns its first MaxBodyPrefix bytes. Errors are ignored: the status has decided the
// result. After the timeout, it cancels the request: a slow body should not occupy the caller for the request's whole timeout.
func readBody(body io.Reader, timeout time.Duration, cancel func()) []byte {
	slow := time.AfterFunc(timeout, cancel)
	defer slow.Stop()
	prefix, _ := io.ReadAll(io.LimitReader(body, MaxBodyPrefix))
	_, _ = io.CopyN(io.Discard, body, maxDrainedBytes)
	return prefix
}

// setHeaders sets the headers of a request. Those of the tenant come first, so that they replace no others.
func (s *Sender) setHeaders(r *http.Request, e *Endpoint, m *Message, now time.Time) {
	for _, h := range e.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	r.Header.Set("Content-Type", e.Format.contentType())
	r.Header.Set("User-Agent", s.config.UserAgent)
	// The transport may send the request again on another connection if the endpoint has closed an idle one. An
	// empty value says so, and is not sent.
	r.Header["Idempotency-Key"] = nil
	sign(r.Header, e, m, now)
}

// resultOf returns the result of a response, without its body.
func resultOf(r *http.Response, now time.Time) Attempt {
	a := Attempt{Status: r.StatusCode}
	switch {
	case r.StatusCode >= 200 && r.StatusCode < 300:
		a.Result = Succeeded
		return a
	case r.StatusCode >= 300 && r.StatusCode < 400:
		a.Result, a.Failure = Retry, Redirect
	case r.StatusCode == http.StatusGone:
		a.Result, a.Failure = Gone, Status
	default:
		a.Result, a.Failure = Retry, Status
	}
	a.Detail = statusDetail(a.Failure, a.Status)
	a.RetryAfter = retryAfter(r.Header.Get("Retry-After"), now)
	return a
}
