package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// keyVariable has the private key: Ed25519, PKCS #8, PEM, as openssl genpkey writes it. Only this program
// reads it. Errors never contain it.
const keyVariable = "ATRIUM_SIGNING_KEY"

// Names of files in a release.
const (
	sumsFile      = "SHA256SUMS"
	signatureFile = "SHA256SUMS.sig"          // of the bytes of SHA256SUMS: 64 bytes, as openssl pkeyutl writes and reads it
	envelopeFile  = "provenance.intoto.jsonl" // the provenance in a signed envelope (DSSE)
)

// statementType is the media type of an in-toto statement.
const statementType = "application/vnd.in-toto+json"

// unsigned is reported without a key.
const unsigned = "release: this release is NOT SIGNED: " + keyVariable + " is not set"

// readKey returns the private key in the environment, or nil if there is none.
func readKey() (ed25519.PrivateKey, error) {
	text := os.Getenv(keyVariable)
	if text == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New(keyVariable + ": not an unencrypted PKCS #8 key in PEM: make one with openssl genpkey -algorithm ed25519")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil { // which could quote the key
		return nil, errors.New(keyVariable + ": the PKCS #8 key is malformed")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New(keyVariable + ": not an Ed25519 key: make one with openssl genpkey -algorithm ed25519")
	}
	return key, nil
}

// keyID identifies a public key: the SHA-256 of its DER form, as
// openssl pkey -pubin -in atrium.pub -outform DER | sha256sum prints it.
func keyID(key ed25519.PrivateKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

func reportKey(w io.Writer) error {
	key, err := readKey()
	if err != nil {
		return err
	}
	if key == nil {
		fmt.Fprintln(w, unsigned)
		return nil
	}
	id, err := keyID(key)
	if err == nil {
		fmt.Fprintln(w, "release: signing with the key whose public key has the SHA-256", id)
	}
	return err
}

// sign signs the checksums and the provenance in dist, if there is a key.
func sign(dist string, report io.Writer) error {
	key, err := readKey()
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(dist, sumsFile))
	if err != nil {
		return err
	}
	statement, err := os.ReadFile(filepath.Join(dist, provenanceFile))
	if err != nil {
		return err
	}
	if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(statement), provenanceFile); !strings.Contains("\n"+string(sums), "\n"+line) {
		return fmt.Errorf("%s does not have the checksum of %s", sumsFile, provenanceFile)
	}
	if key == nil {
		fmt.Fprintln(report, unsigned)
		return nil
	}
	envelope, err := seal(key, statement)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dist, signatureFile), ed25519.Sign(key, sums), 0o644),
		os.WriteFile(filepath.Join(dist, envelopeFile), envelope, 0o644),
	)
}

// An envelope is a Dead Simple Signing Envelope:
// https://github.com/secure-systems-lab/dsse/blob/v1.0.0/envelope.md.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// seal returns a line with the statement in a signed envelope.
func seal(key ed25519.PrivateKey, statement []byte) ([]byte, error) {
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(envelope{statementType, statement, []signature{{id, ed25519.Sign(key, encode(statementType, statement))}}})
	return append(line, '\n'), err
}

// encode returns what the signature of an envelope is made over, the pre-authentication encoding:
// https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md.
func encode(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}
