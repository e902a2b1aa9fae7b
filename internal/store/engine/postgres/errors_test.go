package postgres

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"atrium/internal/store/engine"
)

// A read that the operating system timed out is retried on another connection, unlike one that
// exceeded our deadline.
func TestATimeoutOfTheOperatingSystemIsALostConnection(t *testing.T) {
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{os.NewSyscallError("read", syscall.ETIMEDOUT), true},
		{os.ErrDeadlineExceeded, false},
	} {
		if got := isLost(classify(&net.OpError{Op: "read", Net: "tcp", Err: c.err})); got != c.lost {
			t.Errorf("%v: lost is %t", c.err, got)
		}
	}
}

func TestAFullDiskOfTheServerIsUnavailable(t *testing.T) {
	if class := engine.ClassOf(classify(&pgconn.PgError{Code: "53100"})); class != engine.Unavailable {
		t.Errorf("disk_full has class %d", class)
	}
}
