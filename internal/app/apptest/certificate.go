package apptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A Pair is a self-signed certificate for this machine, with its key.
type Pair struct {
	Chain, Key []byte // PEM
	Serial     *big.Int
	Trust      *x509.CertPool // has the certificate
}

// NewPair creates a pair that is valid from an hour ago until an instant.
func NewPair(t testing.TB, until time.Time) Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "atrium.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"atrium.test", "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p := Pair{
		Chain: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		Serial: serial, Trust: x509.NewCertPool(),
	}
	p.Trust.AppendCertsFromPEM(p.Chain)
	return p
}

// Write writes the pair into a directory, replaces an existing one, and returns the names
// of its files.
func (p Pair) Write(t testing.TB, dir string) (chainFile, keyFile string) {
	t.Helper()
	chainFile, keyFile = filepath.Join(dir, "chain.pem"), filepath.Join(dir, "key.pem")
	for name, content := range map[string][]byte{chainFile: p.Chain, keyFile: p.Key} {
		if err := os.WriteFile(name+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	return chainFile, keyFile
}
