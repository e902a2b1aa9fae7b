package app_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"atrium/internal/telemetry"
)

// systemd returns the states that a process tells systemd from now on.
func systemd(t *testing.T) <-chan string {
	t.Helper()
	dir, err := os.MkdirTemp("", "systemd") // a socket's path has at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan string, 100)
	go func() {
		defer close(states)
		for message := make([]byte, 4096); ; {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			states <- string(message[:n])
		}
	}()
	t.Cleanup(func() { _ = socket.Close(); _ = os.RemoveAll(dir) })
	t.Setenv("NOTIFY_SOCKET", path)
	return states
}

func TestSystemdIsToldWhenTheServiceIsReadyAndStops(t *testing.T) {
	states := systemd(t)
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", "20000")
	a, err := newApp(t, "127.0.0.1:0", "", telemetry.NewMetrics("v1"))
	if err != nil {
		t.Fatal(err)
	}
	if len(states) != 0 {
		t.Errorf("before it serves, it tells %q", <-states)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	next := func() string {
		select {
		case state := <-states:
			return state
		case <-time.After(time.Minute):
			t.Fatal("no state for a minute")
			return ""
		}
	}
	if state := next(); state != "READY=1" {
		t.Errorf("first it tells %q", state)
	}
	for range 3 {
		if state := next(); state != "WATCHDOG=1" {
			t.Errorf("while it serves, it tells %q", state)
		}
	}
	stop()
	state := next()
	for state == "WATCHDOG=1" {
		state = next()
	}
	if state != "STOPPING=1" {
		t.Errorf("when it stops, it tells %q", state)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
