package app_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// With a separate address, the console is served only there, and nothing else is; with TLS also over HTTP/2.
func TestTheConsoleIsServedOnlyOnItsAddress(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			c := app.Config{Settings: config.Default(), Store: s, Log: telemetry.NewLogger(t.Output(), "text", "warn")}
			c.Settings.Addr, c.Settings.ConsoleAddr = "127.0.0.1:0", "127.0.0.1:0"
			transport := &http.Transport{ForceAttemptHTTP2: true}
			if scheme == "https" {
				pair := apptest.NewPair(t, time.Now().Add(time.Hour))
				c.Settings.TLSCert, c.Settings.TLSKey = pair.Write(t, t.TempDir())
				transport.TLSClientConfig = &tls.Config{RootCAs: pair.Trust}
			}
			a, err := app.New(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			stopped := make(chan error, 1)
			go func() { stopped <- a.Run(ctx) }()
			client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			for url, want := range map[string]int{
				a.Addr() + "/healthz":                http.StatusOK,
				a.Addr() + "/v0/pages":               http.StatusUnauthorized,
				a.Addr() + "/console":                http.StatusNotFound,
				a.Addr() + "/console/login":          http.StatusNotFound,
				a.ConsoleAddr() + "/":                http.StatusSeeOther,
				a.ConsoleAddr() + "/console":         http.StatusSeeOther,
				a.ConsoleAddr() + "/console/login":   http.StatusOK,
				a.ConsoleAddr() + "/v0/pages":        http.StatusNotFound,
				a.ConsoleAddr() + "/manage/v0/keys":  http.StatusNotFound,
				a.ConsoleAddr() + "/manage/v0/users": http.StatusNotFound,
			} {
				response, err := client.Get(scheme + "://" + url)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				if response.StatusCode != want || response.ProtoMajor == 2 != (scheme == "https") {
					t.Errorf("%s: %s %s, want %d", url, response.Proto, response.Status, want)
				}
			}
			stop()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}
