package postgres

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"atrium/internal/store/engine"
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
		if got := isLost(classified(&net.OpError{Op: "read", Net: "tcp", Err: c.err})); got != c.lost {
			t.Errorf("%v: lost is %t", c.err, got)
		}
	}
}

func TestFullDiskOfAServerIsUnavailable(t *testing.T) {
	if class := engine.ClassOf(classified(&pgconn.PgError{Code: "53100"})); class != engine.Unavailable {
		t.Errorf("disk_full is of class %d", class)
	}
}
