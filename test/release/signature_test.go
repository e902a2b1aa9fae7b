//go:build release

package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A signingKey is an Ed25519 key that openssl has made.
type signingKey struct {
	private string // PEM
	public  string // the path of a file
}

func newKey(t *testing.T) signingKey {
	t.Helper()
	private := run(t, ".", nil, "openssl", "genpkey", "-algorithm", "ed25519")
	public := filepath.Join(t.TempDir(), "atrium.pub")
	cmd := exec.Command("openssl", "pkey", "-pubout", "-out", public)
	cmd.Stdin = strings.NewReader(private)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("openssl pkey: %v\n%s", err, out)
	}
	return signingKey{private, public}
}

// testSignatures follows docs/install.md. output is what scripts/dist has printed, and temporary its
// directory for temporary files.
func testSignatures(t *testing.T, dist, temporary string, key signingKey, output string) {
	if strings.Contains(output, "NOT SIGNED") || !strings.Contains(output, "release: signing with the key whose public key has the SHA-256") {
		t.Error("scripts/dist does not say that it signs")
	}
	if !strings.Contains(output, "+ ") {
		t.Fatal("scripts/dist was not traced")
	}
	secret := strings.Split(key.private, "\n")[1]
	if strings.Contains(output, secret) {
		t.Error("the key is in the output or the arguments of a command")
	}
	for _, dir := range []string{filepath.Dir(dist), temporary} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has the key", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	name := filepath.Base(dist)
	verify := func(t *testing.T, key signingKey, change string) error {
		t.Helper()
		dir := filepath.Join(t.TempDir(), name)
		run(t, ".", nil, "cp", "-r", dist, dir)
		run(t, ".", nil, "cp", key.public, filepath.Join(dir, "atrium.pub"))
		if change != "" {
			path := filepath.Join(dir, change)
			if err := os.WriteFile(path, append(readFile(t, path), '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, script := range commands(t, "install.md", "Verify a release") {
			cmd := exec.Command("sh", "-eu", "-c", script)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", script, err, out)
			}
		}
		return nil
	}
	if err := verify(t, key, ""); err != nil {
		t.Error(err)
	}
	if err := verify(t, newKey(t), ""); err == nil || !strings.Contains(err.Error(), "Signature Verification Failure") {
		t.Errorf("with another key: %v", err)
	}
	for change, want := range map[string]string{
		"SHA256SUMS":              "Signature Verification Failure",
		"SHA256SUMS.sig":          "Signature Verification Failure",
		"atrium-image.tar":        "atrium-image.tar: FAILED",
		"provenance.json":         "provenance.json: FAILED",
		"provenance.intoto.jsonl": "",
	} {
		err := verify(t, key, change)
		if change == "provenance.intoto.jsonl" { // a line more
			err = verifyEnvelope(t, dist, key, "other")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after a change of %s: %v", change, err)
		}
	}
	if err := verifyEnvelope(t, dist, key, ""); err != nil {
		t.Error(err)
	}
}

// verifyEnvelope verifies the signature of the provenance, with a suffix, by openssl.
func verifyEnvelope(t *testing.T, dist string, key signingKey, suffix string) error {
	t.Helper()
	var envelope struct {
		PayloadType string
		Payload     []byte
		Signatures  []struct{ Sig []byte }
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(dist, "provenance.intoto.jsonl")), &envelope); err != nil || len(envelope.Signatures) != 1 {
		t.Fatalf("the envelope has %d signatures, %v", len(envelope.Signatures), err)
	}
	payload := string(envelope.Payload) + suffix
	dir := t.TempDir()
	for name, content := range map[string]string{
		"signed":    fmt.Sprintf("DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(payload), payload),
		"signature": string(envelope.Signatures[0].Sig),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", key.public, "-rawin",
		"-in", filepath.Join(dir, "signed"), "-sigfile", filepath.Join(dir, "signature")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// testProvenance checks the provenance against the files, the commit and a second run.
func testProvenance(t *testing.T, source, dist string) {
	text := readFile(t, filepath.Join(dist, "provenance.json"))
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters struct {
					Source    struct{ Digest map[string]string }
					Platforms []string
				}
			}
		}
	}
	if err := json.Unmarshal(text, &statement); err != nil {
		t.Fatal(err)
	}
	subjects := map[string]string{}
	for _, s := range statement.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	files, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() || strings.HasPrefix(f.Name(), "SHA256SUMS") || strings.HasPrefix(f.Name(), "provenance.") {
			continue
		}
		if want := fmt.Sprintf("%x", sha256.Sum256(readFile(t, filepath.Join(dist, f.Name())))); subjects[f.Name()] != want {
			t.Errorf("the subject %s is %q, want %s", f.Name(), subjects[f.Name()], want)
		}
		delete(subjects, f.Name())
	}
	if len(subjects) > 0 {
		t.Errorf("the subjects %v are no files of the release", subjects)
	}
	parameters := statement.Predicate.BuildDefinition.ExternalParameters
	commit := strings.TrimSpace(run(t, source, nil, "git", "rev-parse", "HEAD"))
	if parameters.Source.Digest["gitCommit"] != commit || len(parameters.Platforms) != 1 || parameters.Platforms[0] != platform {
		t.Errorf("the parameters are %+v, want commit %s and %s", parameters, commit, platform)
	}
	run(t, filepath.Join(source, "tools", "release"), nil, "go", "run", ".", "provenance", dist)
	if again := readFile(t, filepath.Join(dist, "provenance.json")); !bytes.Equal(again, text) {
		t.Errorf("a second run gives %s", again)
	}
}
