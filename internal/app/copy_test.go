package app_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

func TestNoServerStartsOnAnUnfinishedCopy(t *testing.T) {
	open := func(name string) *store.Store {
		t.Helper()
		s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), name), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	from, to := open("from.db"), open("to.db")
	if _, _, err := from.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant"); err != nil {
		t.Fatal(err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	if _, err := from.CopyTo(interrupted, to, store.CopyOptions{Progress: func(int64) { interrupt() }}); err == nil {
		t.Fatal("the copy was not interrupted")
	}
	serve := func() error {
		settings := config.Default()
		settings.Addr = "127.0.0.1:0"
		a, err := app.New(t.Context(), app.Config{Settings: settings, Store: to, Log: telemetry.NewLogger(&output{}, "text", "error")})
		if err != nil {
			return err
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		return a.Run(stopped)
	}
	if err := serve(); err == nil || !strings.Contains(err.Error(), "atrium copy") {
		t.Errorf("a server started on an unfinished copy: %v", err)
	}
	if report, err := from.CopyTo(t.Context(), to, store.CopyOptions{}); err != nil || report.Different() {
		t.Fatalf("copy: %+v, %v", report, err)
	}
	if err := serve(); err != nil {
		t.Errorf("on the complete copy: %v", err)
	}
}
