// Package apptest starts the service for tests, as serve does, on a free port.
package apptest

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/store"
)

// Start serves the store until the test ends, waits until the service is ready, and
// returns its address. change changes the default settings.
func Start(t testing.TB, s *store.Store, change ...func(*app.Config)) (addr string) {
	t.Helper()
	c := app.Config{Settings: config.Default(), Version: "v1.0.0", Store: s}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	loader := config.Bind(flags, &c.Settings)
	if err := flags.Parse([]string{"--addr", "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.Origins, err = loader.Load(func(string) (string, bool) { return "", false }); err != nil {
		t.Fatal(err)
	}
	c.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	for _, f := range change {
		f(&c)
	}
	a, err := app.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("the service stopped with: %v", err)
		}
	})
	base := "http://" + a.Addr()
	if c.Settings.TLSCert != "" {
		base = "https://" + a.Addr()
	}
	for !ready(t, base) {
		time.Sleep(time.Millisecond)
	}
	return a.Addr()
}

func ready(t testing.TB, base string) bool {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // any certificate
	client := http.Client{Transport: transport, Timeout: 30 * time.Second}
	response, err := client.Get(base + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

// Key creates a key for a tenant, or an operator key for atrium.OperatorChain, and returns
// its secret. Without scopes, it has those of the external API.
func Key(t testing.TB, s *store.Store, tenant atrium.TenantID, scopes ...atrium.Scope) (text string, id atrium.KeyID) {
	t.Helper()
	if len(scopes) == 0 {
		scopes = atrium.ExternalScopes()
	}
	id, text, hash := auth.NewKey()
	k := atrium.APIKey{ID: id, TenantID: tenant, Name: "test", Scopes: scopes}
	if _, _, err := s.CreateKey(t.Context(), atrium.CommandLine(tenant), k, hash); err != nil {
		t.Fatal(err)
	}
	return text, id
}
