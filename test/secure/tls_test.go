package secure

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"atrium/internal/app/apptest"
	"atrium/test/nodes"
)

func TestTLSRequiresForwardSecrecyAndAEAD(t *testing.T) {
	s := start(t)
	dial := func(change func(*tls.Config)) (tls.ConnectionState, error) {
		c := &tls.Config{RootCAs: s.trust, ServerName: "atrium.test", NextProtos: []string{"h2", "http/1.1"}}
		change(c)
		conn, err := tls.Dial("tcp", s.Addr, c)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState(), nil
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		if _, err := dial(func(c *tls.Config) { c.MinVersion, c.MaxVersion = version, version }); err == nil {
			t.Errorf("%s is spoken", tls.VersionName(version))
		}
	}
	if state, err := dial(func(*tls.Config) {}); err != nil || state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
		t.Errorf("a new client speaks %s and %q, %v", tls.VersionName(state.Version), state.NegotiatedProtocol, err)
	}
	spoken := 0
	for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if suite.SupportedVersions[0] == tls.VersionTLS13 {
			continue
		}
		state, err := dial(func(c *tls.Config) {
			c.MinVersion, c.MaxVersion, c.CipherSuites = tls.VersionTLS12, tls.VersionTLS12, []uint16{suite.ID}
		})
		good := strings.HasPrefix(suite.Name, "TLS_ECDHE_") && (strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "_POLY1305_"))
		switch {
		case err == nil && !good:
			t.Errorf("%s is spoken", suite.Name)
		case err == nil && state.NegotiatedProtocol != "h2":
			t.Errorf("%s has no HTTP/2", suite.Name)
		case err == nil:
			spoken++
		case good && strings.Contains(suite.Name, "ECDSA"): // matches the key of the certificate
			t.Errorf("%s: %v", suite.Name, err)
		}
	}
	if spoken != 3 {
		t.Errorf("%d suites of TLS 1.2 are spoken, want 3", spoken)
	}
}

// Three kinds of clients send requests continuously while the certificate is renewed,
// broken and renewed again. No request may fail.
func TestCertificateRenewalLosesNoRequest(t *testing.T) {
	s := start(t)
	next := []apptest.Pair{}
	for range 3 {
		p := apptest.NewPair(t, time.Now().Add(90*24*time.Hour))
		s.trust.AppendCertsFromPEM(p.Chain)
		next = append(next, p)
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	var answered atomic.Int64
	for name, c := range map[string]*http.Client{"HTTP/1.1": s.client(t, false), "HTTP/2": s.client(t, true), "new connections": s.client(t, false)} {
		c.Transport.(*http.Transport).DisableKeepAlives = name == "new connections"
		asking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				a, err := s.send(t.Context(), c, http.MethodPost, "/v0/account_logs", fmt.Sprintf(`{"source":"crm","domain":"acme.example","payload":{},"idempotencyKey":"%s %d"}`, name, n))
				if err != nil || a.status != http.StatusCreated {
					t.Errorf("%s: request %d: %d %s %v", name, n, a.status, a.body, err)
					return
				}
				answered.Add(1)
				time.Sleep(2 * time.Millisecond) // leave CPU time for the server
			}
		})
	}
	fresh := s.client(t, true)
	fresh.Transport.(*http.Transport).DisableKeepAlives = true
	shown := func() string { return s.must(t, fresh, http.MethodGet, "/healthz", "").serial }
	becomes := func(how string, p apptest.Pair) {
		t.Helper()
		nodes.Until(t, "the certificate of "+how, exchangeTimeout, func() bool { return shown() == p.Serial.Text(16) })
	}
	becomes("the start", s.pair)

	s.put(t, next[0])
	s.Signal(t, syscall.SIGHUP)
	becomes("a SIGHUP", next[0])

	broken := next[1]
	broken.Key = next[2].Key // the key of another certificate
	broken.Write(t, s.dir)
	s.Signal(t, syscall.SIGHUP)
	nodes.Until(t, "the invalid pair to be logged", exchangeTimeout, func() bool { return strings.Contains(s.Log(), "private key does not match public key") })
	becomes("before the broken pair", next[0])
	if err := os.Remove(filepath.Join(s.dir, "key.pem")); err != nil {
		t.Fatal(err)
	}
	nodes.Until(t, "the missing file to be logged", exchangeTimeout, func() bool { return strings.Contains(s.Log(), "no such file") })
	becomes("before the missing file", next[0])

	s.put(t, next[2]) // without a signal
	becomes("the file itself", next[2])
	close(stop)
	asking.Wait()
	if answered.Load() < 30 {
		t.Errorf("%d requests succeeded", answered.Load())
	}
	s.Stop(t)
}

func TestStartFailsWithoutAValidKeyPair(t *testing.T) {
	dir := t.TempDir()
	one, other := apptest.NewPair(t, time.Now().Add(time.Hour)), apptest.NewPair(t, time.Now().Add(time.Hour))
	one.Key = other.Key
	chain, key := one.Write(t, dir)
	for _, c := range []struct {
		flags []string
		code  int
		why   string
	}{
		{[]string{"--tls-cert", chain}, 2, "tls-cert and tls-key must be set together"},
		{[]string{"--tls-key", key}, 2, "tls-cert and tls-key must be set together"},
		{[]string{"--tls-cert", chain, "--tls-key", key}, 2, chain + " and " + key + ": tls: private key does not match public key"},
		{[]string{"--tls-cert", key, "--tls-key", key}, 2, "tls-cert and tls-key: "},
		{[]string{"--tls-cert", chain, "--tls-key", filepath.Join(dir, "none.pem")}, 2, "none.pem: no such file"},
	} {
		_, stderr, code := nodes.Command(t, append([]string{"serve", "--addr", "127.0.0.1:0", "--database", "sqlite:" + filepath.Join(dir, "atrium.db")}, c.flags...)...)
		if code != c.code || !strings.Contains(stderr, c.why) {
			t.Errorf("%v: exit code %d and %q, want %d and %q", c.flags, code, stderr, c.code, c.why)
		}
	}
}

func TestReadablePrivateKeyLogsAWarning(t *testing.T) {
	dir := t.TempDir()
	chain, key := apptest.NewPair(t, time.Now().Add(10*time.Minute)).Write(t, dir) // 10 of 70 minutes remain
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	n := nodes.Start(t, 1, "sqlite:"+filepath.Join(dir, "atrium.db"), "--tls-cert", chain, "--tls-key", key)[0]
	for _, warning := range []string{"other users can read the private key", "the certificate expires soon"} {
		if !strings.Contains(n.Log(), warning) {
			t.Errorf("the log does not say %q:\n%s", warning, n.Log())
		}
	}
	if log := start(t).Log(); strings.Contains(log, "WARN") {
		t.Errorf("a good pair is warned of:\n%s", log)
	}
}

func TestCommandLineTrustsSSL_CERT_FILE(t *testing.T) {
	s := start(t)
	t.Setenv("ATRIUM_KEY", s.key)
	t.Setenv("SSL_CERT_DIR", t.TempDir())
	t.Setenv("SSL_CERT_FILE", filepath.Join(s.dir, "chain.pem"))
	args := []string{"pages", "list", "--server", "https://" + s.Addr}
	if _, stderr, _ := nodes.Command(t, args...); !strings.Contains(stderr, "forbidden") && !strings.Contains(stderr, "scope") {
		t.Errorf("a server with a trusted certificate: %s", stderr) // the key has only the scopes of the external API
	}
	t.Setenv("SSL_CERT_FILE", filepath.Join(s.dir, "none.pem"))
	if _, stderr, code := nodes.Command(t, args...); code != 1 || !strings.Contains(stderr, "certificate") {
		t.Errorf("a server with an untrusted certificate: exit code %d, %s", code, stderr)
	}
}
