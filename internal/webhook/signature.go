package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Lengths of a secret in bytes, as Standard Webhooks requires.
const (
	MinSecretBytes = 24
	MaxSecretBytes = 64
	newSecretBytes = 32
)

// secretPrefix begins the text of a secret.
const secretPrefix = "whsec_"

// NewSecret returns a random secret.
func NewSecret() []byte {
	secret := make([]byte, newSecretBytes)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// FormatSecret returns the text of a secret: whsec_ and base64.
func FormatSecret(secret []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// ParseSecret parses text as FormatSecret writes it. ok is false if the encoding is not canonical or the length is out of range.
func ParseSecret(text string) (secret []byte, ok bool) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, false
	}
	secret, err := base64.StdEncoding.Strict().DecodeString(encoded)
	return secret, err == nil && len(secret) >= MinSecretBytes && len(secret) <= MaxSecretBytes && FormatSecret(secret) == text
}

// sign adds the headers that authenticate a message at the time of an attempt.
func sign(h http.Header, e *Endpoint, m *Message, now time.Time) {
	if e.Format == Legacy {
		// The header has room for one signature. The oldest valid secret signs, so that the endpoint can be updated in the
		// meantime. As in the hosted service, the key is the encoded secret, with its prefix.
		mac := hmac.New(sha256.New, []byte(FormatSecret(e.Secrets[len(e.Secrets)-1])))
		_, _ = mac.Write(m.Body) // never fails
		h.Set("X-Webhook-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		h.Set("X-Webhook-Timestamp", strconv.FormatInt(now.UnixMilli(), 10))
		return
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(e.Secrets))
	for i, secret := range e.Secrets {
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write([]byte(m.ID + "." + timestamp + ".")) // never fails
		_, _ = mac.Write(m.Body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	h.Set("Webhook-Id", m.ID)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
}
