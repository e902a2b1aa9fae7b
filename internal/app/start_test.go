package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"atrium"
	"atrium/internal/app"
	"atrium/internal/app/apptest"
	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/store"
	"atrium/internal/telemetry"
)

// A service runs with metrics on a new database.
type service struct {
	addr        string
	metricsAddr string
	file        string // path of the database
	store       *store.Store
	metrics     *telemetry.Metrics
	log         *output
	tenant      atrium.TenantID
	key         string // with every scope
	pages       string // with only the scope pages:read
}

// An output collects the output of a logger. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(t *testing.T, change ...func(*config.Config)) *service {
	t.Helper()
	s := &service{log: &output{}, metrics: telemetry.NewMetrics("v1.2.3"), file: filepath.Join(t.TempDir(), "atrium.db")}
	var err error
	if s.store, err = store.Open(t.Context(), "sqlite:"+s.file, store.Options{Observer: s.metrics}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	s.addr = apptest.Start(t, s.store, func(c *app.Config) {
		c.Settings.MetricsAddr, c.Metrics = "127.0.0.1:0", s.metrics
		c.Log = telemetry.NewLogger(s.log, "json", "debug")
		for _, f := range change {
			f(&c.Settings)
		}
	})
	for line := range strings.Lines(s.log.String()) {
		var told struct{ Msg, Addr string }
		if err := json.Unmarshal([]byte(line), &told); err != nil {
			t.Fatal(err)
		}
		if told.Msg == "serving metrics" {
			s.metricsAddr = told.Addr
		}
	}
	tenant, _, err := s.store.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	s.tenant = tenant.ID
	s.key, s.pages = s.newKey(t, atrium.ExternalScopes()), s.newKey(t, atrium.Scopes{atrium.ScopePagesRead})
	return s
}

func (s *service) newKey(t *testing.T, scopes atrium.Scopes) string {
	t.Helper()
	id, text, hash := auth.NewKey()
	if _, _, err := s.store.CreateKey(t.Context(), atrium.CommandLine(s.tenant), atrium.APIKey{ID: id, Name: "key", Scopes: scopes}, hash); err != nil {
		t.Fatal(err)
	}
	return text
}

type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request. Each header is "name:value".
func send(t *testing.T, method, url, body string, header ...string) response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ":")
		r.Header.Add(name, strings.TrimSpace(value))
	}
	res, err := http.DefaultTransport.RoundTrip(r) // follows no redirects
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, string(b)}
}

func (s *service) send(t *testing.T, method, target, key, body string, header ...string) response {
	t.Helper()
	if key != "" {
		header = append(header, "x-api-key: "+key)
	}
	return send(t, method, "http://"+s.addr+target, body, header...)
}

func (s *service) get(t *testing.T, target, key string) response {
	t.Helper()
	return s.send(t, http.MethodGet, target, key, "")
}

// post records an entry and returns its account.
func (s *service) post(t *testing.T, body string) string {
	t.Helper()
	a := s.send(t, http.MethodPost, "/v0/account_logs", s.key, body)
	var entry struct{ AccountID string }
	if err := json.Unmarshal([]byte(a.body), &entry); err != nil || a.status != http.StatusCreated {
		t.Fatalf("%d: %s", a.status, a.body)
	}
	return entry.AccountID
}
