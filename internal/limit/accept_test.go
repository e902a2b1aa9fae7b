package limit_test

import (
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"atrium/internal/limit"
)

// A failingListener fails to accept with each of its errors before it accepts.
type failingListener struct {
	net.Listener
	mu   sync.Mutex
	errs []syscall.Errno // guarded by mu
}

func (l *failingListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	if len(l.errs) > 0 {
		defer l.mu.Unlock()
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: os.NewSyscallError("accept4", err)}
	}
	l.mu.Unlock()
	return l.Listener.Accept()
}

func TestServerSurvivesTemporaryAcceptErrorsAndReportsThem(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	want := []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}
	var reported []error
	l := limit.ReportAccept(&failingListener{Listener: inner, errs: slices.Clone(want)}, func(err error) { reported = append(reported, err) })
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	response, err := http.Get("http://" + inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed { //nolint:errorlint // as net/http returns it
		t.Errorf("the server ended with %v", err)
	}
	if len(reported) != len(want) { // closing the listener is not reported
		t.Fatalf("reported %q, want %q", reported, want)
	}
	for i, err := range reported {
		if op, ok := err.(*net.OpError); !ok || op.Unwrap().(*os.SyscallError).Err != want[i] { //nolint:errorlint // as net returns them
			t.Errorf("reported %q, want %q", err, want[i])
		}
	}
}
