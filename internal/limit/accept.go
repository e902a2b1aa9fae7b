package limit

import (
	"errors"
	"net"
	"syscall"
)

// ReportAccept returns a listener that accepts from inner and calls failed with every error
// of Accept, unless inner is closed. net/http retries temporary errors after up to a second,
// so failed is called about once a second while they last.
//
// It marks ENOBUFS and ENOMEM as temporary. The net package does not, and net/http stops serving
// after an error that is not temporary.
func ReportAccept(inner net.Listener, failed func(error)) net.Listener {
	return &reportingListener{inner, failed}
}

type reportingListener struct {
	net.Listener
	failed func(error)
}

func (l *reportingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil || errors.Is(err, net.ErrClosed) {
		return c, err
	}
	l.failed(err)
	if errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) {
		err = temporary{err}
	}
	return nil, err
}

// A temporary is an error that net/http retries.
type temporary struct{ error }

func (temporary) Timeout() bool   { return false }
func (temporary) Temporary() bool { return true }
func (e temporary) Unwrap() error { return e.error }
