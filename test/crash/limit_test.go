package crash

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// descriptors are enough for the clients and the database connections, but not for a crowd: SQLite
// has up to 65 connections with two files each, and keeps them.
const descriptors = 192

var acceptWarning = regexp.MustCompile(`level=WARN msg="cannot accept connections, retrying" count=\d+ (error=.*)`)

// A process without free file descriptors accepts no connections, but neither ends nor
// busy-loops. Acknowledged entries are kept, and it recovers once connections are closed.
func TestFileDescriptorExhaustionRecovers(t *testing.T) {
	t.Parallel()
	for name, newDatabase := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			b := startOverload(t, startLimited(t, "-n "+strconv.Itoa(descriptors), db.url), db, true)
			b.crowd(func() { time.Sleep(300 * time.Millisecond) })
			b.waitForService()
			b.stop()
			for _, c := range b.clients {
				c.http.CloseIdleConnections()
			}
			b.crowd(func() {
				before := b.server.cpu()
				time.Sleep(time.Second)
				if spent := b.server.cpu() - before; spent > 700*time.Millisecond { // a busy loop would use all of it
					t.Errorf("a server without work was busy for %s of a second", spent)
				}
			})
			if status := b.server.status("/readyz"); status != http.StatusOK {
				t.Errorf("/readyz: %d", status)
			}
			if line := b.server.waitLog(acceptWarning); !strings.Contains(line, "too many open files") {
				t.Errorf("the server logged %q", line)
			}
			b.resume()
			b.lift()
		})
	}
}

// The soft limit is raised to the hard limit.
func TestSoftLimitOfFileDescriptorsIsRaised(t *testing.T) {
	t.Parallel()
	s := startLimited(t, "-S -n 32", newFile(t).url)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(limits)) {
		if limit, ok := strings.CutPrefix(line, "Max open files"); ok {
			if f := strings.Fields(limit); len(f) < 2 || f[0] == "32" {
				t.Errorf("the soft and the hard limit are %s", limit)
			}
			return
		}
	}
	t.Error("no limit of open files found")
}

// crowd opens connections until the server accepts no more, calls during, and closes them.
func (b *overload) crowd(during func()) {
	b.t.Helper()
	for range 2 * descriptors { // the kernel completes the handshake even if the server does not accept
		c, err := net.Dial("tcp", strings.TrimPrefix(b.server.base, "http://"))
		if err != nil {
			b.t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	waitUntil(b.t, "all descriptors are used", startLimit, func() bool {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.server.cmd.Process.Pid))
		return err != nil || len(open) >= descriptors-1
	})
	during()
}

// cpu returns the CPU time of the server.
func (s *server) cpu() time.Duration {
	s.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	const ticks = 100 // per second, on every Linux
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	if err := errors.Join(errUser, errSystem); err != nil {
		s.t.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / ticks
}
