package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// secret returns a secret of equal bytes.
func secret(b byte) []byte { return bytes.Repeat([]byte{b}, newSecretBytes) }

func TestOfficialLibraryVerifiesSignatures(t *testing.T) {
	now := time.Now() // the library compares with its clock
	m := Message{ID: "event_00000000000000000000000001", Body: []byte(`{"id":"event_00000000000000000000000001","data":"ü"}`)}
	for _, format := range []Format{Standard, CloudEvents} {
		for name, secrets := range map[string][][]byte{"one": {secret(1)}, "rotated": {secret(2), secret(1)}} {
			h := http.Header{}
			sign(h, &Endpoint{Format: format, Secrets: secrets}, &m, now)
			for _, s := range secrets {
				verifier, err := standardwebhooks.NewWebhook(FormatSecret(s))
				if err != nil {
					t.Fatal(err)
				}
				if err := verifier.Verify(m.Body, h); err != nil {
					t.Errorf("%s, %s: %v", format, name, err)
				}
				if verifier.Verify(append([]byte(" "), m.Body...), h) == nil {
					t.Errorf("%s, %s: another body has the same signature", format, name)
				}
			}
			other, err := standardwebhooks.NewWebhook(FormatSecret(secret(3)))
			if err != nil {
				t.Fatal(err)
			}
			if other.Verify(m.Body, h) == nil {
				t.Errorf("%s, %s: another secret verifies", format, name)
			}
		}
	}
}

// The vector is that of the specification's example: its secret, message and signature.
func TestSignatureMatchesTheVectorOfTheSpecification(t *testing.T) {
	key, ok := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if !ok {
		t.Fatal("the secret is not valid")
	}
	h := http.Header{}
	sign(h, &Endpoint{Format: Standard, Secrets: [][]byte{key}},
		&Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Body: []byte(`{"test": 2432232314}`)}, time.Unix(1614265330, 0))
	if got, want := h.Get("webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := h.Get("webhook-timestamp"); got != "1614265330" {
		t.Errorf("timestamp %s", got)
	}
}

func TestLegacySignatureUsesTheOldestSecret(t *testing.T) {
	m := Message{ID: "event_1", Body: []byte(`{"eventId":"event_1"}`)}
	h := http.Header{}
	sign(h, &Endpoint{Format: Legacy, Secrets: [][]byte{secret(2), secret(1)}}, &m, time.UnixMilli(1750000000123))
	mac := hmac.New(sha256.New, []byte("whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="))
	mac.Write(m.Body)
	if got, want := h.Get("X-Webhook-Signature-256"), "sha256="+hex.EncodeToString(mac.Sum(nil)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := h.Get("X-Webhook-Timestamp"); got != "1750000000123" {
		t.Errorf("timestamp %s, want milliseconds", got)
	}
	if h.Get("webhook-signature") != "" {
		t.Error("both signatures are sent")
	}
}

func TestSecretsHaveOneText(t *testing.T) {
	s := NewSecret()
	if got, ok := ParseSecret(FormatSecret(s)); !ok || !bytes.Equal(got, s) || bytes.Equal(s, NewSecret()) {
		t.Errorf("%x, %t", got, ok)
	}
	for _, text := range []string{
		"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw=", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZI\no2LaLaSw",
		FormatSecret(make([]byte, MinSecretBytes-1)), FormatSecret(make([]byte, MaxSecretBytes+1)), "WHSEC_" + strings.Repeat("A", 44),
	} {
		if _, ok := ParseSecret(text); ok {
			t.Errorf("%q is a secret", text)
		}
	}
}
