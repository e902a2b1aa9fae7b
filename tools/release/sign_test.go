package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// openssl runs openssl, which knows nothing of this program, and reports whether it succeeds.
func openssl(t *testing.T, args ...string) bool {
	t.Helper()
	out, err := exec.Command("openssl", args...).CombinedOutput()
	t.Logf("openssl %s: %v %s", strings.Join(args, " "), err, out)
	return err == nil
}

// newKey makes a key with openssl, and returns its text and the path of its public key.
func newKey(t *testing.T, args ...string) (private, public string) {
	t.Helper()
	dir := t.TempDir()
	key, public := filepath.Join(dir, "key"), filepath.Join(dir, "public")
	if !openssl(t, append([]string{"genpkey", "-out", key}, args...)...) || !openssl(t, "pkey", "-in", key, "-pubout", "-out", public) {
		t.Fatal("openssl made no key")
	}
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), public
}

const provenanceText = `{"_type": "https://in-toto.io/Statement/v1"}` + "\n"

// newDist returns a directory with what sign needs.
func newDist(t *testing.T) string {
	t.Helper()
	dist := t.TempDir()
	for name, text := range map[string]string{
		provenanceFile: provenanceText,
		sumsFile:       fmt.Sprintf("%x  atrium.tar.gz\n%x  %s\n", sha256.Sum256(nil), sha256.Sum256([]byte(provenanceText)), provenanceFile),
	} {
		if err := os.WriteFile(filepath.Join(dist, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dist
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestOpenSSLVerifiesTheSignaturesOfTheKeyAndNoOthers(t *testing.T) {
	private, public := newKey(t, "-algorithm", "ed25519")
	_, wrong := newKey(t, "-algorithm", "ed25519")
	dist := newDist(t)
	t.Setenv(keyVariable, private)
	var first [][]byte
	for range 2 {
		if err := sign(dist, t.Output()); err != nil {
			t.Fatal(err)
		}
		files := [][]byte{read(t, filepath.Join(dist, signatureFile)), read(t, filepath.Join(dist, envelopeFile))}
		if first != nil && (!bytes.Equal(first[0], files[0]) || !bytes.Equal(first[1], files[1])) {
			t.Error("the same key signs the same file differently")
		}
		first = files
	}

	var sealed envelope
	if err := json.Unmarshal(first[1], &sealed); err != nil {
		t.Fatal(err)
	}
	if sealed.PayloadType != "application/vnd.in-toto+json" || string(sealed.Payload) != provenanceText || len(sealed.Signatures) != 1 {
		t.Fatalf("the envelope is %s", first[1])
	}
	der, err := exec.Command("openssl", "pkey", "-pubin", "-in", public, "-outform", "DER").Output()
	if err != nil {
		t.Fatal(err)
	}
	if id := fmt.Sprintf("%x", sha256.Sum256(der)); sealed.Signatures[0].KeyID != id {
		t.Errorf("the envelope names the key %s, want %s", sealed.Signatures[0].KeyID, id)
	}
	// The encoding of the specification, by its words instead of by the code.
	authenticated := filepath.Join(t.TempDir(), "authenticated")
	signed := fmt.Sprintf("DSSEv1 28 application/vnd.in-toto+json %d %s", len(provenanceText), provenanceText)
	signature := filepath.Join(t.TempDir(), "signature")
	for path, content := range map[string][]byte{authenticated: []byte(signed), signature: sealed.Signatures[0].Sig} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for _, of := range []struct{ file, signature string }{
		{filepath.Join(dist, sumsFile), filepath.Join(dist, signatureFile)},
		{authenticated, signature},
	} {
		verify := func(key string) bool {
			return openssl(t, "pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin", "-in", of.file, "-sigfile", of.signature)
		}
		if !verify(public) {
			t.Errorf("the signature of %s is not verified", of.file)
		}
		if verify(wrong) {
			t.Errorf("the signature of %s is verified with another key", of.file)
		}
		if err := os.WriteFile(of.file, append(read(t, of.file), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		if verify(public) {
			t.Errorf("the signature of %s is verified after a change", of.file)
		}
	}
}

func TestReleaseWithoutAKeyIsReportedAsUnsigned(t *testing.T) {
	t.Setenv(keyVariable, "")
	dist := newDist(t)
	var report bytes.Buffer
	if err := sign(dist, &report); err != nil {
		t.Fatal(err)
	}
	if err := reportKey(&report); err != nil {
		t.Fatal(err)
	}
	if strings.Count(report.String(), "this release is NOT SIGNED: ATRIUM_SIGNING_KEY is not set") != 2 {
		t.Errorf("it reports %q", report.String())
	}
	for _, name := range []string{signatureFile, envelopeFile} {
		if _, err := os.Stat(filepath.Join(dist, name)); err == nil {
			t.Errorf("%s exists", name)
		}
	}
}

func TestInvalidKeyIsReportedWithoutItsContent(t *testing.T) {
	rsa, _ := newKey(t, "-algorithm", "RSA")
	p256, _ := newKey(t, "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
	encrypted, _ := newKey(t, "-algorithm", "ed25519")
	encrypted = strings.ReplaceAll(encrypted, "PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
	malformed := "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
	for name, key := range map[string]string{"RSA": rsa, "P-256": p256, "encrypted": encrypted, "malformed": malformed, "a path": "/etc/secret-key"} {
		t.Setenv(keyVariable, key)
		var report bytes.Buffer
		for _, err := range []error{sign(newDist(t), &report), reportKey(&report)} {
			if err == nil || !strings.HasPrefix(err.Error(), keyVariable+": ") {
				t.Fatalf("%s: %v", name, err)
			}
			for line := range strings.Lines(key) {
				if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && strings.Contains(err.Error()+report.String(), line) {
					t.Errorf("%s: the error has the key: %v", name, err)
				}
			}
		}
	}
}

func TestChecksumsWithoutThoseOfTheProvenanceAreNotSigned(t *testing.T) {
	private, _ := newKey(t, "-algorithm", "ed25519")
	t.Setenv(keyVariable, private)
	dist := newDist(t)
	if err := os.WriteFile(filepath.Join(dist, provenanceFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sign(dist, t.Output()); err == nil || !strings.Contains(err.Error(), "does not have the checksum of provenance.json") {
		t.Errorf("the result is %v", err)
	}
}
