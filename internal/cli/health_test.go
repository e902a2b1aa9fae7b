package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"atrium/internal/config"
)

func TestHealthAsksTheServerOnThisMachine(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", "192.0.2.1:80": "192.0.2.1:80", "host.example:80": "host.example:80",
		":8080": "127.0.0.1:8080", "0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "[::1]:8080", "[::1]:80": "[::1]:80",
	} {
		if got, err := localAddr(addr); err != nil || got != want {
			t.Errorf("%s is asked at %s, %v, want %s", addr, got, err, want)
		}
	}
}

func TestHealthAcceptsAnyCertificateAndReportsWhatIsWrong(t *testing.T) {
	status, body := http.StatusOK, `{"status":"ok"}`
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("%s is requested", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	settings := config.Config{Addr: server.Listener.Addr().String(), TLSCert: "cert.pem"}
	if err := askReady(t.Context(), settings); err != nil {
		t.Error(err)
	}
	status, body = http.StatusServiceUnavailable, `{"code":"unavailable","detail":"The database does not respond.","requestId":"r1"}`
	if err := askReady(t.Context(), settings); err == nil || !strings.Contains(err.Error(), "is not ready: ") || !strings.Contains(err.Error(), "The database does not respond.") {
		t.Errorf("not ready: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := askReady(ctx, settings); err == nil {
		t.Error("canceled: no error")
	}
	settings.TLSCert = "" // the server expects TLS
	if err := askReady(t.Context(), settings); err == nil {
		t.Error("without TLS: no error")
	}
}
