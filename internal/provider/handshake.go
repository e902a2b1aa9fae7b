package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"

	"github.com/go-json-experiment/json"

	"atrium"
)

// maxChallenge is the maximum number of bytes of a challenge. Slack's has 52, and Meta's 10.
const maxChallenge = 500

// Challenge returns the text that answers a verified request with which a provider makes sure that the receiver is
// reachable. Such a request has no event. It returns false for any other request.
func Challenge(name atrium.ReceiverProvider, r *Request) (text string, ok bool) {
	if name != atrium.ProviderSlack || len(r.Body) > 4<<10 {
		return "", false
	}
	var body struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(r.Body, &body) != nil || body.Type != "url_verification" || !isChallenge(body.Challenge) {
		return "", false
	}
	return body.Challenge, true
}

// Subscribe returns the text that answers a GET request of Meta, which has the verify token of one of the secrets. It
// returns the reason if the request is not verified.
func Subscribe(name atrium.ReceiverProvider, r *Request, secrets [][]byte) (text string, reason Reason) {
	query, err := url.ParseQuery(r.Query)
	given := query["hub.verify_token"]
	switch {
	case name != atrium.ProviderMeta || r.Method != methodGet:
		return "", reasonMethod
	case err != nil || len(given) != 1 || len(query["hub.mode"]) != 1 || len(query["hub.challenge"]) != 1:
		return "", "hub.mode, hub.challenge or hub.verify_token is missing or repeated"
	}
	text = query["hub.challenge"][0]
	if query["hub.mode"][0] != "subscribe" || !isChallenge(text) {
		return "", "hub.mode or hub.challenge is not valid"
	}
	for _, secret := range secrets {
		if len(secret) > 0 && hmac.Equal([]byte(VerifyToken(secret)), []byte(given[0])) {
			return text, ""
		}
	}
	return "", reasonCredentials
}

// VerifyToken returns the verify token of a receiver of ProviderMeta. It derives from the secret, so that it needs no
// place of its own, and does not reveal it.
func VerifyToken(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte("atrium verify token")) // never fails
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// isChallenge reports whether text can be sent back: it is short, and no markup.
func isChallenge(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.' && c != '=' && c != '+' && c != '/' {
			return false
		}
	}
	return text != "" && len(text) <= maxChallenge
}
