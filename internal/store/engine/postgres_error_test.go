package engine

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// A connection that the system has given up is tried again on another, unlike one
// on which nothing came before the deadline.
func TestTimeoutOfTheSystemIsALostConnection(t *testing.T) {
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{os.NewSyscallError("read", syscall.ETIMEDOUT), true},
		{os.ErrDeadlineExceeded, false},
	} {
		if got := isLost(postgresError(&net.OpError{Op: "read", Net: "tcp", Err: c.err})); got != c.lost {
			t.Errorf("%v: lost is %t", c.err, got)
		}
	}
}
