package app_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// profiled returns the addresses of a service with profiles, and of its metrics. Requests
// have a timeout of two seconds.
func profiled(t *testing.T) (addr, private string) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	log := &output{}
	addr = apptest.Start(t, s, func(c *app.Config) {
		c.Settings.MetricsAddr, c.Settings.Pprof, c.Metrics = "127.0.0.1:0", true, telemetry.NewMetrics("v1")
		c.Settings.ReadTimeout, c.Settings.WriteTimeout = 2*time.Second, 2*time.Second
		c.Log = telemetry.NewLogger(log, "text", "info")
	})
	_, rest, _ := strings.Cut(log.String(), `msg="serving metrics" addr=`)
	private, _, _ = strings.Cut(rest, "\n")
	return addr, private
}

func TestProfilesAreServedOnlyOnTheMetricsListener(t *testing.T) {
	addr, private := profiled(t)
	for _, path := range []string{"", "cmdline", "profile", "symbol", "trace", "heap", "goroutine"} {
		if a := send(t, http.MethodGet, "http://"+addr+"/debug/pprof/"+path+"?seconds=1", ""); a.status != http.StatusNotFound {
			t.Errorf("%s on the API's listener: %d", path, a.status)
		}
	}
	for _, path := range []string{"", "cmdline", "symbol", "heap", "goroutine", "allocs", "block", "mutex", "threadcreate"} {
		if a := send(t, http.MethodGet, "http://"+private+"/debug/pprof/"+path, ""); a.status != http.StatusOK || a.body == "" {
			t.Errorf("%s on the metrics listener: %d", path, a.status)
		}
	}
}

func TestProfilesHaveTheirOwnTimeLimit(t *testing.T) {
	_, private := profiled(t)
	for _, path := range []string{"profile", "trace", "heap"} {
		start := time.Now()
		a := send(t, http.MethodGet, "http://"+private+"/debug/pprof/"+path+"?seconds=3", "")
		if took := time.Since(start); a.status != http.StatusOK || a.body == "" || took < 3*time.Second {
			t.Errorf("%s of 3 s, where a request has 2 s: %d after %s", path, a.status, took)
		}
		if a := send(t, http.MethodGet, "http://"+private+"/debug/pprof/"+path+"?seconds=301", ""); a.status != http.StatusBadRequest {
			t.Errorf("%s of more than 5 minutes: %d", path, a.status)
		}
	}
}
