package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

func TestFailedListenerStopsTheService(t *testing.T) {
	for name, listener := range map[string]func(*App) net.Listener{
		"the API":     func(a *App) net.Listener { return a.listener },
		"the console": func(a *App) net.Listener { return a.console },
		"the metrics": func(a *App) net.Listener { return a.measured },
	} {
		s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Settings: config.Default(), Store: s, Log: telemetry.NewLogger(t.Output(), "text", "warn"), Metrics: telemetry.NewMetrics("v1")}
		c.Settings.Addr, c.Settings.MetricsAddr, c.Settings.ConsoleAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		a, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := listener(a).Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); err == nil {
			t.Errorf("%s: the service stopped as if it had been asked to", name)
		}
		for _, l := range []net.Listener{a.listener, a.console, a.measured} {
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %s is still open (%v)", name, l.Addr(), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestShutdownDelayServesButIsNotReady(t *testing.T) {
	const delay = 2 * time.Second
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := Config{Settings: config.Default(), Store: s, Log: telemetry.NewLogger(t.Output(), "text", "warn")}
	c.Settings.Addr, c.Settings.ShutdownDelay = "127.0.0.1:0", delay
	a, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	get := func(path string) (status int, last bool) {
		t.Helper()
		response, err := client.Get("http://" + a.Addr() + path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_ = response.Body.Close()
		return response.StatusCode, response.Close
	}
	for status, _ := get("/readyz"); status != http.StatusOK; status, _ = get("/readyz") {
		time.Sleep(time.Millisecond)
	}
	if status, last := get("/healthz"); status != http.StatusOK || last {
		t.Errorf("before the stop: %d, connection closed: %v", status, last)
	}
	told := time.Now()
	stop()
	for status, _ := get("/readyz"); status != http.StatusServiceUnavailable; status, _ = get("/readyz") {
		time.Sleep(time.Millisecond)
	}
	if status, last := get("/healthz"); status != http.StatusOK || !last {
		t.Errorf("within the delay: %d, and the connection is closed: %v", status, last)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if after := time.Since(told); after < delay {
		t.Errorf("it stopped after %s", after)
	}
}
