// Package secure tests protection against eavesdroppers and leaks: TLS, HTTP/2, and
// secrets in any output. The tests talk to processes of atrium serve.
package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/app/apptest"
	"atrium/internal/store"
	"atrium/test/nodes"
)

func TestMain(m *testing.M) { os.Exit(nodes.Main(m)) }

// exchangeTimeout bounds every exchange and every wait. No result depends on it.
const exchangeTimeout = 30 * time.Second

// A server is a process with TLS and a tenant, on a new database.
type server struct {
	*nodes.Node
	dir    string // of the certificate
	pair   apptest.Pair
	trust  *x509.CertPool
	key    string // with all scopes of the external API
	tenant atrium.TenantID
}

// start starts a server with TLS.
func start(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{dir: t.TempDir(), pair: apptest.NewPair(t, time.Now().Add(90*24*time.Hour)), trust: x509.NewCertPool()}
	chain, key := s.put(t, s.pair)
	database := "sqlite:" + filepath.Join(t.TempDir(), "atrium.db")
	s.tenant, s.key = newTenant(t, database)
	s.Node = nodes.Start(t, 1, database, append([]string{"--tls-cert", chain, "--tls-key", key}, flags...)...)[0]
	return s
}

// put writes a key pair and trusts it.
func (s *server) put(t *testing.T, p apptest.Pair) (chainFile, keyFile string) {
	t.Helper()
	s.pair = p
	s.trust.AppendCertsFromPEM(p.Chain)
	return p.Write(t, s.dir)
}

// newTenant creates a tenant and a key directly in the database.
func newTenant(t *testing.T, database string) (id atrium.TenantID, key string) {
	t.Helper()
	st, err := store.Open(t.Context(), database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, _, err := st.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "tenant")
	if err != nil {
		t.Fatal(err)
	}
	key, _ = apptest.Key(t, st, made.ID)
	return made.ID, key
}

// client returns a client that trusts the server's certificates, with or without HTTP/2.
func (s *server) client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.trust.Clone()}, ForceAttemptHTTP2: http2, MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: exchangeTimeout}
}

// An response is a response.
type response struct {
	status int
	proto  string
	header http.Header
	body   string
	serial string // of the certificate
}

func (s *server) send(ctx context.Context, c *http.Client, method, path, body string) (a response, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+s.Addr+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("x-api-key", s.key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := c.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return a, fmt.Errorf("read the response: %w", err)
	}
	return response{res.StatusCode, res.Proto, res.Header, string(b), res.TLS.PeerCertificates[0].SerialNumber.Text(16)}, nil
}

func (s *server) must(t *testing.T, c *http.Client, method, path, body string) response {
	t.Helper()
	a, err := s.send(t.Context(), c, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}
