package app

import (
	"net"
	"path/filepath"
	"testing"

	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

func TestAListenerThatFailsStopsTheWholeService(t *testing.T) {
	for name, listener := range map[string]func(*App) net.Listener{
		"the API":     func(a *App) net.Listener { return a.listener },
		"the metrics": func(a *App) net.Listener { return a.measured },
	} {
		s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Settings: config.Default(), Store: s, Log: telemetry.NewLogger(t.Output(), "text", "warn"), Metrics: telemetry.NewMetrics("v1")}
		c.Settings.Addr, c.Settings.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0"
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
		for _, addr := range []string{a.Addr(), a.MetricsAddr()} {
			free, err := net.Listen("tcp", addr)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			_ = free.Close()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
