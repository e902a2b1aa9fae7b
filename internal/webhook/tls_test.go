package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// certificateFor returns a certificate for a name, and the pool that trusts it.
func certificateFor(t *testing.T, name string, from, to time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLSFaults(t *testing.T) {
	now := time.Now()
	valid, trusted := certificateFor(t, "good.example", now.Add(-time.Hour), now.Add(time.Hour))
	expired, trustedExpired := certificateFor(t, "good.example", now.Add(-2*time.Hour), now.Add(-time.Hour))
	_, others := certificateFor(t, "good.example", now.Add(-time.Hour), now.Add(time.Hour))
	resolver := newDNS(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	for name, c := range map[string]struct {
		host    string
		config  *tls.Config
		roots   *x509.CertPool
		failure Failure
		detail  string
	}{
		"valid":             {"good.example", &tls.Config{Certificates: []tls.Certificate{valid}}, trusted, NoFailure, ""},
		"another name":      {"bad.example", &tls.Config{Certificates: []tls.Certificate{valid}}, trusted, TLS, "good.example, not bad.example"},
		"expired":           {"good.example", &tls.Config{Certificates: []tls.Certificate{expired}}, trustedExpired, TLS, "expired"},
		"unknown authority": {"good.example", &tls.Config{Certificates: []tls.Certificate{valid}}, others, TLS, "unknown authority"},
		"old version":       {"good.example", &tls.Config{Certificates: []tls.Certificate{valid}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, trusted, TLS, "handshake failed"},
		"client certificate": {"good.example", &tls.Config{Certificates: []tls.Certificate{valid}, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, trusted, TLS,
			"handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var called atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if called.Add(1); r.ProtoMajor != 1 {
					t.Errorf("%s is used", r.Proto)
				}
			}))
			server.TLS, server.EnableHTTP2 = c.config, true
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			t.Cleanup(server.Close)
			_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
			s := newTestSender(t, Config{Allow: loopback, Resolver: resolver, RootCAs: c.roots})
			a := s.Send(t.Context(), endpoint("https://"+c.host+":"+port), message, time.Now())
			if a.Failure != c.failure || !strings.Contains(a.Detail, c.detail) || strings.Contains(a.Detail, "127.0.0.1") || (called.Load() == 1) != (c.failure == NoFailure) {
				t.Errorf("%+v after %d requests", a, called.Load())
			}
		})
	}
}

// An authority issues certificates in a test.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	return a.issue("root", true)
}

// issue returns an authority with a certificate of this one, or with one that it has signed itself.
func (a *authority) issue(name string, ca bool) *authority {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{CommonName: name}, IsCA: ca, BasicConstraintsValid: true,
	}
	if !ca {
		of.DNSNames = []string{name}
	}
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = of, key
	}
	der, err := x509.CreateCertificate(rand.Reader, of, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return &authority{a.t, parsed, key}
}

func TestCertificatesAreVerifiedInLinearTime(t *testing.T) {
	root := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(root.certificate)
	first, second := root.issue("intermediate", true), root.issue("intermediate", true)
	lower := first.issue("lower", true)
	var others []*x509.Certificate
	for i := range maxCertificates {
		others = append(others, root.issue(fmt.Sprint("other", i), true).certificate)
	}
	leaf := lower.issue("good.example", false).certificate
	chain := func(all ...*x509.Certificate) []*x509.Certificate { return all }
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		host  string
		fault string
	}{
		"in order":                            {chain(leaf, lower.certificate, first.certificate), "good.example", ""},
		"in another order, with the root":     {chain(leaf, root.certificate, first.certificate, lower.certificate), "good.example", ""},
		"with as many as allowed":             {append(chain(leaf, lower.certificate, first.certificate), others[:maxCertificates-3]...), "good.example", ""},
		"with too many":                       {append(chain(leaf, lower.certificate, first.certificate), others[:maxCertificates-2]...), "good.example", "more than 10 certificates"},
		"with the same name after it":         {chain(leaf, lower.certificate, first.certificate, second.certificate), "good.example", ""},
		"with the same name before it":        {chain(leaf, lower.certificate, second.certificate, first.certificate), "good.example", "unknown authority"},
		"without an intermediate":             {chain(leaf, lower.certificate), "good.example", "unknown authority"},
		"of another name":                     {chain(leaf, lower.certificate, first.certificate), "bad.example", "not bad.example"},
		"of an authority that is no server's": {chain(first.certificate), "intermediate", "Common Name"},
	} {
		err := verify(c.chain, c.host, roots)
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); (err != nil) != (c.fault != "") || err != nil && (!ok || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHandshakeThatDoesNotEndIsClosed(t *testing.T) {
	closed := make(chan struct{}, 1)
	url := listen(t, func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c) // until the client closes it
		closed <- struct{}{}
	})
	for name, c := range map[string]struct{ timeout, request time.Duration }{
		"after the timeout": {200 * time.Millisecond, time.Hour},
		"after the request": {time.Hour, 200 * time.Millisecond},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.request)
		a := newTestSender(t, Config{Allow: loopback, Timeout: c.timeout}).Send(ctx, endpoint(strings.Replace(url, "http:", "https:", 1)), message, time.Now())
		cancel()
		if a.Result == Succeeded || !a.Handshake {
			t.Errorf("%s: %+v", name, a)
		}
		select {
		case <-closed:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the connection stays open", name)
		}
	}
}

func TestLargeCertificatesAreNotRead(t *testing.T) {
	now := time.Now()
	certificate, trusted := certificateFor(t, "good.example", now.Add(-time.Hour), now.Add(time.Hour))
	resolver := newDNS(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	for bytes, failure := range map[int]Failure{maxHandshake / 2: NoFailure, maxHandshake: TLS} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		large := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "large"}}
		for range bytes / 100 {
			large.DNSNames = append(large.DNSNames, strings.Repeat("a", 60)+"."+strings.Repeat("b", 37))
		}
		der, err := x509.CreateCertificate(rand.Reader, large, large, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		sent := certificate
		sent.Certificate = [][]byte{certificate.Certificate[0], der}
		var called atomic.Int32
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{sent}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
		a := newTestSender(t, Config{Allow: loopback, Resolver: resolver, RootCAs: trusted}).Send(t.Context(), endpoint("https://good.example:"+port), message, time.Now())
		server.Close()
		if a.Failure != failure || (called.Load() == 1) != (failure == NoFailure) {
			t.Errorf("%d bytes of certificates: %+v", bytes, a)
		}
	}
}

func TestHandshakeIsHeavyWork(t *testing.T) {
	now := time.Now()
	certificate, trusted := certificateFor(t, "good.example", now.Add(-time.Hour), now.Add(time.Hour))
	resolver := newDNS(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	s := newTestSender(t, Config{Allow: loopback, Resolver: resolver, RootCAs: trusted})
	e := endpoint("https://good.example:" + port)
	var acquired, released int
	var busy error
	e.AcquireHeavy = func(context.Context) (func(), error) { acquired++; return func() { released++ }, busy }
	for i := range 2 {
		if a := s.Send(t.Context(), e, message, time.Now()); a.Result != Succeeded || a.Handshake != (i == 0) || acquired != 1 || released != 1 {
			t.Errorf("request %d: %+v, acquired %d, released %d", i, a, acquired, released)
		}
	}
	s.Close()
	busy = errors.New("busy")
	if a := s.Send(t.Context(), e, message, time.Now()); a.Result != Canceled || !a.Handshake || acquired != 2 || released != 1 {
		t.Errorf("without a processor: %+v, acquired %d, released %d", a, acquired, released)
	}
}

func TestServerThatDoesNotSpeakTLS(t *testing.T) {
	plain := raw(t, func(net.Conn) { t.Error("the request was sent without TLS") })
	for name, url := range map[string]string{
		"plain HTTP": plain,
		"closed":     listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }),
	} {
		a := newTestSender(t, Config{Allow: loopback}).Send(t.Context(), endpoint(strings.Replace(url, "http:", "https:", 1)), message, time.Now())
		if a.Failure != TLS || a.Result != Retry || a.Detail != details[TLS] {
			t.Errorf("%s: %+v", name, a)
		}
	}
	url := listen(t, untilClosed)
	a := newTestSender(t, Config{Allow: loopback, Timeout: 200 * time.Millisecond}).Send(t.Context(), endpoint(strings.Replace(url, "http:", "https:", 1)), message, time.Now())
	if a.Failure != Timeout || a.Result != Retry {
		t.Errorf("silent: %+v", a)
	}
}
