package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"atrium/internal/config"
	"atrium/internal/doctor"
)

// certificatePause is the time between two checks for a changed certificate.
const certificatePause = 5 * time.Second

// Flow-control windows of an HTTP/2 connection. The window of a stream is a part of that of
// the connection, so that a request that waits does not block the others.
const (
	maxFrame            = 64 << 10
	maxAheadOfStream    = 256 << 10
	maxAheadOfConnected = 1 << 20
)

// ErrCertificate says that the TLS certificate or its key cannot be used.
var ErrCertificate = errors.New("tls-cert and tls-key")

// A certificate is the last valid state of the files of a TLS certificate and its private key.
// It is safe for concurrent use.
type certificate struct {
	chainFile, keyFile string
	log                *slog.Logger
	now                func() time.Time
	current            atomic.Pointer[tls.Certificate]

	mu         sync.Mutex
	chain, key []byte    // guarded by mu; contents of the files when last read
	warned     time.Time // guarded by mu; of the expiry
}

// openCertificate reads the pair, which must be valid but may have expired: an expired
// certificate is better than no service.
func openCertificate(chainFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{chainFile: chainFile, keyFile: keyFile, log: log, now: time.Now}
	if info, err := os.Stat(keyFile); err == nil && othersMayUse(info) {
		log.Warn("other users can read the private key: run chmod 600", "file", keyFile, "mode", info.Mode().Perm().String())
	}
	if _, err := c.read(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	c.notice()
	return c, nil
}

// othersMayUse reports whether users other than the owner and group may access a file.
func othersMayUse(info fs.FileInfo) bool { return info.Mode().Perm()&0o007 != 0 }

// read loads the pair of the files if they have changed since the last call and are valid.
func (c *certificate) read() (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	chain, err := os.ReadFile(c.chainFile)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, err
	}
	if c.chain != nil && bytes.Equal(chain, c.chain) && bytes.Equal(key, c.key) { // an empty file is not unread
		return false, nil
	}
	c.chain, c.key = chain, key
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", c.chainFile, c.keyFile, err)
	}
	before := c.current.Load()
	if now := c.now(); before != nil && now.After(pair.Leaf.NotAfter) && now.Before(before.Leaf.NotAfter) {
		return false, errors.New("it has expired, and the current one has not")
	}
	c.current.Store(&pair)
	c.warned = time.Time{}
	c.log.Info("loaded a certificate", "names", names(pair.Leaf), "serial", pair.Leaf.SerialNumber.Text(16), "notAfter", pair.Leaf.NotAfter)
	return true, nil
}

// reload reads the pair again, changed or not, and logs the result. Open connections keep
// theirs; new ones get the new pair, or the current one if the new one is invalid.
func (c *certificate) reload() {
	c.mu.Lock()
	c.chain, c.key = nil, nil
	c.mu.Unlock()
	if _, err := c.read(); err != nil {
		c.log.Error("the new certificate cannot be loaded; the current one stays in use", "error", err)
	}
	c.notice()
}

// names returns the host names and addresses of a certificate.
func names(leaf *x509.Certificate) []string {
	all := slices.Concat([]string{}, leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// notice logs a warning before the certificate expires, once a day: when doctor.ExpiryNotice remains, or a sixth of
// the validity of the certificate if that is less.
func (c *certificate) notice() {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf, now := c.current.Load().Leaf, c.now()
	left := leaf.NotAfter.Sub(now)
	if left < min(doctor.ExpiryNotice, leaf.NotAfter.Sub(leaf.NotBefore)/6) && now.Sub(c.warned) >= 24*time.Hour {
		c.warned = now
		if left <= 0 {
			c.log.Error("the certificate has expired", "notAfter", leaf.NotAfter)
		} else {
			c.log.Warn("the certificate expires soon", "notAfter", leaf.NotAfter)
		}
	}
}

// watch reloads the pair when it has changed, until ctx ends. It compares contents, because
// modification times do not show that a directory or a symbolic link was replaced. An error is
// logged once.
func (c *certificate) watch(ctx context.Context) {
	var logged string
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(certificatePause):
		}
		changed, err := c.read()
		switch {
		case changed:
			logged = ""
		case err != nil && err.Error() != logged:
			c.log.Error("the new certificate cannot be loaded; the current one stays in use", "error", err)
			logged = err.Error()
		}
		c.notice()
	}
}

// expiry returns when the certificate expires, in seconds since 1970; +Inf without one.
func (c *certificate) expiry() float64 {
	if c == nil {
		return math.Inf(1)
	}
	return float64(c.current.Load().Leaf.NotAfter.Unix())
}

// config allows TLS 1.3, and 1.2 with the cipher suites that have forward secrecy and
// authenticated encryption (RFC 9325, section 4.2), which HTTP/2 allows (RFC 9113, section
// 9.2.2). Go selects the order.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// secure opens the certificate, if the settings have one.
func (a *App) secure() (err error) {
	if a.settings.TLSCert != "" {
		a.certificate, err = openCertificate(a.settings.TLSCert, a.settings.TLSKey, a.log)
	}
	return err
}

// serve serves the connections of the listener, until it fails or is closed. Without TLS
// there is no HTTP/2: proxies speak HTTP/1.1, and a connection with many requests would
// count as one.
func (a *App) serve() error {
	if a.certificate == nil {
		return a.server.Serve(a.listener)
	}
	go func() { _ = a.http2.server.Serve(a.http2) }() // until the server of the API is shut down
	return a.server.ServeTLS(a.listener, "", "")
}

// secureServer configures TLS and HTTP/2 on the server of the API if there is a
// certificate.
func (a *App) secureServer(settings config.Config, limits http2Limits) {
	if a.certificate == nil {
		return
	}
	a.server.TLSConfig = a.certificate.config()
	a.http2 = newHTTP2Server(a.server, a.listener.Addr(), &http.HTTP2Config{
		MaxConcurrentStreams:          settings.HTTP2Streams,
		MaxReadFrameSize:              maxFrame,
		MaxReceiveBufferPerStream:     maxAheadOfStream,
		MaxReceiveBufferPerConnection: maxAheadOfConnected,
		WriteByteTimeout:              settings.WriteTimeout,
	}, limits)
}

// ReloadCertificate reloads the certificate and its key. It logs and ignores an invalid pair. Without
// TLS, it only logs that there is nothing to reload.
func (a *App) ReloadCertificate() {
	if a.certificate == nil {
		a.log.Info("no certificate to reload: TLS is off")
		return
	}
	a.certificate.reload()
}
