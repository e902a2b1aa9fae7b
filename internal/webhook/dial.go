package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// What an endpoint, and the name server of its domain, can make a connection cost.
const (
	// maxRecords is the maximum number of records in the response of a name server. A connection takes two
	// sockets for each address: to sort the addresses, and to try them.
	maxRecords = 32
	maxDNS     = 4 << 10 // bytes of a response over TCP

	// maxCertificates is the maximum number of certificates of an endpoint. Usual are two to four.
	maxCertificates = 10

	dialGracePeriod = time.Second // for dialing to continue after its request has ended
)

// errBlocked is the error of a connection to an address that may not be called.
var errBlocked = errors.New("the address may not be called")

// errBusy is the error of a connection for whose handshake no processor was free.
var errBusy = errors.New("no processor for the TLS handshake")

// newDialer returns a dialer that connects only to the addresses that may be called. It checks each address when it
// connects, after the name was resolved: a name that was harmless before can resolve to another address now.
func newDialer(c Config, may func(netip.Addr, []netip.Prefix) bool) *net.Dialer {
	return &net.Dialer{
		Timeout: c.Timeout, Resolver: guarded(c.Resolver),
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !may(to.Addr(), c.Allow) {
				return errBlocked
			}
			return nil
		},
	}
}

// dialHooks connect the dialing of a connection with its request. The transport dials with a context that has the values of the
// request's context, but does not end with it.
type dialHooks struct {
	request           context.Context
	acquire           func(context.Context) (release func(), err error) // Endpoint.AcquireHeavy
	onHandshake       func()                                            // called before the handshake
	onHandshakeFailed func()                                            // called after a handshake that failed
}

// dialHooksKey is the key of *dialHooks in a context.
type dialHooksKey struct{}

// dialPlain connects without TLS.
func dialPlain(ctx context.Context, dialer *net.Dialer, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newMeter(conn, maxIdle), nil
}

// dialTLS connects and completes the TLS handshake. If its request ends first, dialing continues for up to dialGracePeriod,
// because another request may use the connection.
func dialTLS(ctx context.Context, dialer *net.Dialer, address string, roots *x509.CertPool) (net.Conn, error) {
	hooks, ok := ctx.Value(dialHooksKey{}).(*dialHooks)
	if !ok {
		return nil, errors.New("a connection without a request")
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialer.Timeout)
	defer cancel()
	stop := context.AfterFunc(hooks.request, func() { time.AfterFunc(dialGracePeriod, cancel) }) //nolint:contextcheck // that of the request
	defer stop()
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(newMeter(conn, maxHandshake), &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: host,
		InsecureSkipVerify: true, // VerifyConnection verifies instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if hooks.acquire != nil {
				release, err := hooks.acquire(ctx)
				if err != nil {
					return fmt.Errorf("%w: %w", errBusy, err)
				}
				defer release()
			}
			return verify(state.PeerCertificates, host, roots)
		},
	})
	hooks.onHandshake()
	if err := secure.HandshakeContext(ctx); err != nil {
		hooks.onHandshakeFailed()
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// verify verifies the certificates of an endpoint as crypto/tls does, in time that is linear in their number. crypto/tls checks
// up to 100 signatures: it tries each certificate that has the name of an issuer. So only the first one with each name
// is an intermediate.
func verify(certificates []*x509.Certificate, host string, roots *x509.CertPool) error {
	invalid := func(err error) error {
		return &tls.CertificateVerificationError{UnverifiedCertificates: certificates, Err: err}
	}
	if len(certificates) > maxCertificates {
		return invalid(fmt.Errorf("the endpoint sends more than %d certificates", maxCertificates))
	}
	o := x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: x509.NewCertPool()}
	named := map[string]bool{}
	for _, c := range certificates[1:] {
		if name := string(c.RawSubject); !named[name] {
			named[name] = true
			o.Intermediates.AddCert(c)
		}
	}
	if _, err := certificates[0].Verify(o); err != nil {
		return invalid(err)
	}
	return nil
}

// guarded returns a resolver like r, which may be nil for that of the system, that refuses large responses. It is the
// one of Go: the system's could not be limited.
func guarded(r *net.Resolver) *net.Resolver {
	dial := new(net.Dialer).DialContext
	if r != nil && r.Dial != nil {
		dial = r.Dial
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if packets, ok := conn.(*net.UDPConn); ok {
			return packetDNS{packets}, nil
		}
		return &streamDNS{Conn: conn}, nil
	}}
}

// errRecords is the error of a response of a name server that is too large.
var errRecords = fmt.Errorf("the response of the name server has more than %d records or %d bytes", maxRecords, maxDNS)

// tooManyRecords reports whether a message, which may be incomplete, has more than maxRecords in its section of answers
// (RFC 1035 section 4.1.1).
func tooManyRecords(message []byte) bool {
	return len(message) >= 8 && binary.BigEndian.Uint16(message[6:]) > maxRecords
}

// packetDNS is a connection to a name server over UDP. Each Read returns one message.
type packetDNS struct{ *net.UDPConn }

func (c packetDNS) Read(to []byte) (int, error) {
	n, err := c.UDPConn.Read(to)
	if err == nil && tooManyRecords(to[:n]) {
		return 0, errRecords
	}
	return n, err
}

// streamDNS is a connection to a name server over TCP. Only its first message is checked: Go's resolver sends one query per TCP
// connection. The length of a message precedes it, in two bytes.
type streamDNS struct {
	net.Conn
	size int      // bytes read
	head [10]byte // the first of them
}

func (c *streamDNS) Read(to []byte) (int, error) {
	n, err := c.Conn.Read(to)
	if c.size < len(c.head) {
		copy(c.head[c.size:], to[:n])
	}
	c.size += n
	if c.size > maxDNS || c.size >= len(c.head) && tooManyRecords(c.head[2:]) {
		return 0, errRecords
	}
	return n, err
}
