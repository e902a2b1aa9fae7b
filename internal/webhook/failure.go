package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"atrium"
)

// details has the text of each failure for the tenant. The text of the cause could name addresses that
// only the administrator of the server should know.
var details = map[Failure]string{
	DNS:      "The host name could not be resolved.",
	Blocked:  "The host has an address that may not be called.",
	Connect:  "No connection could be made.",
	TLS:      "The TLS handshake failed.",
	Timeout:  "There was no response in time.",
	Closed:   "The connection was closed before the response.",
	Protocol: "The response is not valid, or its headers are too large.",
	Unsigned: "There is no secret to sign the request with.",
}

// statusDetail describes a failure with an HTTP status.
func statusDetail(f Failure, status int) string {
	if f == Redirect {
		return fmt.Sprintf("The endpoint redirects with status %d. Redirects are not followed: change the URL.", status)
	}
	text := http.StatusText(status)
	if text != "" {
		text = " " + text
	}
	return fmt.Sprintf("The endpoint returned status %d%s.", status, text)
}

// maxDetail is the maximum number of bytes of a detail that the endpoint has a part in.
const maxDetail = 300

// failed returns the attempt that an error ended.
func failed(f Failure, err error, took time.Duration) Attempt {
	a := Attempt{Result: Retry, Failure: f, Detail: details[f], Duration: took, Cause: err}
	if certificate, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		a.Detail = "The certificate is not valid: " + atrium.ShortLine(maxDetail, certificate.Err.Error()) + "."
	}
	return a
}

// failureOf returns the failure for the error of a request without a response.
func failureOf(err error, handshakeFailed bool) Failure {
	_, isDNS := errors.AsType[*net.DNSError](err)
	dial, isOp := errors.AsType[*net.OpError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errBlocked):
		return Blocked
	case isDNS:
		return DNS
	case errors.Is(err, context.DeadlineExceeded), isNet && timeout.Timeout():
		return Timeout
	case handshakeFailed:
		return TLS
	case isOp && dial.Op == "dial":
		return Connect
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), isOp:
		return Closed
	}
	return Protocol
}
