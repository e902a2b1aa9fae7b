package provider

import (
	"crypto/hmac"
	"crypto/sha1" // HMAC-SHA1, which the providers prescribe, does not need a hash without collisions (RFC 6151)
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"strings"
	"time"

	"atrium"
)

// A Reason says why a request is not verified; "" if it is. It has no value of the request. It is for the operators of a
// receiver: senders must not learn it.
type Reason string

// Reasons that several schemes have. Others name a header.
const (
	reasonNoSecret    Reason = "the receiver has no secret"
	reasonMismatch    Reason = "the signature does not match: the secret is another one, or the body was changed on its way"
	reasonCredentials Reason = "the credentials are not those of the receiver"
	reasonMalformed   Reason = "the signature is malformed"
	reasonTimestamp   Reason = "the timestamp is malformed"
	reasonTooOld      Reason = "the timestamp differs too much from the clock of the server"
	reasonBadSecret   Reason = "the secret is not valid for this provider: it must be whsec_ and base64"
	reasonMethod      Reason = "the method must be POST"
)

// signatures is the maximum number of signatures in one header.
const signatures = 20

// Verify reports why a request is not verified by any of the secrets that are valid at its time; "" if it is.
func Verify(name atrium.ReceiverProvider, r *Request, secrets [][]byte, v *atrium.Verification) Reason {
	p := Of(name)
	switch {
	case p == nil:
		return "the provider is unknown"
	case r.Method != methodPost:
		return reasonMethod
	}
	result := reasonNoSecret
	for _, secret := range secrets {
		if len(secret) == 0 {
			continue // every sender could sign with it
		}
		reason := p.verify(r, secret, v)
		if reason == "" {
			return ""
		}
		if result != reasonMismatch { // it tells more than a secret that is not valid
			result = reason
		}
	}
	return result
}

// VerifyHeaders verifies a request before its body has arrived. The reason says why no body could make it valid; it is "" if one could.
// verified means that every body does: the headers have a secret instead of a signature.
func VerifyHeaders(name atrium.ReceiverProvider, r *Request, secrets [][]byte, v *atrium.Verification) (verified bool, reason Reason) {
	headers := *r
	headers.Body = nil
	switch reason = Verify(name, &headers, secrets, v); reason {
	case "":
		return Of(name).credentials, ""
	case reasonMismatch:
		return false, ""
	}
	return false, reason
}

// A signature is a hash function and the notation of its HMACs.
type signature struct {
	hash   func() hash.Hash
	decode func(string) ([]byte, error)
}

// strictBase64 refuses line breaks and bits that are not used, so that a signature has one notation.
func strictBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, base64.CorruptInputError(0)
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

var (
	hexSHA1      = signature{sha1.New, hex.DecodeString}
	hexSHA256    = signature{sha256.New, hex.DecodeString}
	base64SHA256 = signature{sha256.New, strictBase64}
)

// check reports why text is not the HMAC of the concatenated content; "" if it is.
func (s signature) check(text string, secret []byte, content ...[]byte) Reason {
	return s.checkAny([]string{text}, secret, content...)
}

// checkAny is check for several texts, one of which is enough. It computes the HMAC at most once, and not if all
// texts are malformed.
func (s signature) checkAny(texts []string, secret []byte, content ...[]byte) Reason {
	mac := hmac.New(s.hash, secret)
	var sum []byte
	result := reasonMalformed
	for _, text := range texts {
		result = reasonMalformed
		if len(text) > 2*sha512.Size {
			continue
		}
		given, err := s.decode(text)
		if err != nil || len(given) != mac.Size() {
			continue
		}
		if sum == nil {
			for _, part := range content {
				_, _ = mac.Write(part) // never fails
			}
			sum = mac.Sum(nil)
		}
		if hmac.Equal(sum, given) {
			return ""
		}
		result = reasonMismatch
	}
	return result
}

// inHeader returns the verification by a header with a prefix and the signature of the body.
func (s signature) inHeader(name, prefix string) func(*Request, []byte, *atrium.Verification) Reason {
	return func(r *Request, secret []byte, _ *atrium.Verification) Reason {
		value, reason := r.header(name)
		if reason != "" {
			return reason
		}
		text, ok := strings.CutPrefix(value, prefix)
		if !ok {
			return reasonMalformed
		}
		return s.check(text, secret, r.Body)
	}
}

// inSeconds reports why a number of seconds since 1970 is not accepted as a timestamp.
func inSeconds(text string, now time.Time) Reason {
	n, ok := decimal(text, 10)
	if !ok {
		return reasonTimestamp
	}
	return near(time.Unix(n, 0), tolerance, now)
}

// near reports why a time is not accepted.
func near(at time.Time, tolerance time.Duration, now time.Time) Reason {
	if now.Sub(at).Abs() > tolerance {
		return reasonTooOld
	}
	return ""
}

// decimal parses a number of at most the given digits, which fit into 64 bits.
func decimal(text string, digits int) (int64, bool) {
	if text == "" || len(text) > digits || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

const (
	tolerance = atrium.DefaultReceiverTolerance * time.Second
	maxDigits = 13 // of a number of milliseconds since 1970, until the year 2286
)

// stripe verifies a header Stripe-Signature: t=timestamp,v1=signature, where v1 can be repeated and other members are ignored.
func stripe(r *Request, secret []byte, _ *atrium.Verification) Reason {
	value, reason := r.header("stripe-signature")
	if reason != "" {
		return reason
	}
	timestamp, given := "", []string(nil)
	for member := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(member, "=")
		switch name {
		case "t":
			if timestamp != "" {
				return reasonTimestamp
			}
			timestamp = text
		case "v1":
			if given = append(given, text); len(given) > signatures {
				return reasonMalformed
			}
		}
	}
	if reason := inSeconds(timestamp, r.Now); reason != "" {
		return reason
	}
	return hexSHA256.checkAny(given, secret, []byte(timestamp), []byte("."), r.Body)
}

func slack(r *Request, secret []byte, _ *atrium.Verification) Reason {
	value, reason := r.header("x-slack-signature")
	if reason != "" {
		return reason
	}
	timestamp, reason := r.header("x-slack-request-timestamp")
	if reason != "" {
		return reason
	}
	if reason := inSeconds(timestamp, r.Now); reason != "" {
		return reason
	}
	text, ok := strings.CutPrefix(value, "v0=")
	if !ok {
		return reasonMalformed
	}
	return hexSHA256.check(text, secret, []byte("v0:"+timestamp+":"), r.Body)
}

// hubspotDecoded decodes what HubSpot decodes in an address before it signs it.
var hubspotDecoded = strings.NewReplacer(
	"%3A", ":", "%3a", ":", "%2F", "/", "%2f", "/", "%3F", "?", "%3f", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'",
	"%28", "(", "%29", ")", "%2A", "*", "%2a", "*", "%2C", ",", "%2c", ",", "%3B", ";", "%3b", ";",
)

func hubspot(r *Request, secret []byte, _ *atrium.Verification) Reason {
	value, reason := r.header("x-hubspot-signature-v3")
	if reason != "" {
		return reason
	}
	timestamp, reason := r.header("x-hubspot-request-timestamp")
	if reason != "" {
		return reason
	}
	n, ok := decimal(timestamp, maxDigits)
	if !ok {
		return reasonTimestamp
	}
	if reason := near(time.UnixMilli(n), tolerance, r.Now); reason != "" {
		return reason
	}
	return base64SHA256.check(value, secret, []byte(r.Method+hubspotDecoded.Replace(r.URL)), r.Body, []byte(timestamp))
}

// standardWebhooks verifies as Standard Webhooks 1.0 says, also with the older names of the headers.
func standardWebhooks(r *Request, secret []byte, _ *atrium.Verification) Reason {
	prefix := "webhook-"
	if !r.has(prefix + "signature") {
		prefix = "svix-"
	}
	id, reason := r.header(prefix + "id")
	if reason != "" {
		return "the header webhook-id or svix-id is missing or repeated"
	}
	timestamp, reason := r.header(prefix + "timestamp")
	if reason != "" {
		return reason
	}
	value, reason := r.header(prefix + "signature")
	if reason != "" {
		return reason
	}
	if reason := inSeconds(timestamp, r.Now); reason != "" {
		return reason
	}
	key, err := strictBase64(strings.TrimPrefix(string(secret), "whsec_"))
	if err != nil || len(key) == 0 {
		return reasonBadSecret
	}
	if prefix == "svix-" && r.has("webhook-id") {
		return "the header webhook-id is not signed" // mappings take it as the identifier of the event
	}
	var given []string
	for text := range strings.SplitSeq(value, " ") {
		if text, ok := strings.CutPrefix(text, "v1,"); ok {
			if given = append(given, text); len(given) > signatures {
				return reasonMalformed
			}
		}
	}
	return base64SHA256.checkAny(given, key, []byte(id+"."+timestamp+"."), r.Body)
}

// equal compares credentials. It takes the same time wherever they differ, and does not reveal their length.
func equal(one, other []byte) bool {
	a, b := sha256.Sum256(one), sha256.Sum256(other)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func token(r *Request, secret []byte, v *atrium.Verification) Reason {
	name := strings.ToLower(v.Header)
	value, reason := r.header(name)
	if reason != "" {
		return reason
	}
	var ok bool
	if name == "authorization" {
		value, ok = credentials(value, "bearer")
	} else {
		value, ok = strings.CutPrefix(value, v.Prefix)
	}
	if !ok || !equal([]byte(value), secret) {
		return reasonCredentials
	}
	return ""
}

func basic(r *Request, secret []byte, v *atrium.Verification) Reason {
	value, reason := r.header("authorization")
	if reason != "" {
		return reason
	}
	encoded, ok := credentials(value, "basic")
	decoded, err := strictBase64(encoded)
	if !ok || err != nil {
		return reasonCredentials
	}
	user, password, ok := strings.Cut(string(decoded), ":")
	sameUser, samePassword := equal([]byte(user), []byte(v.Username)), equal([]byte(password), secret)
	if !ok || !sameUser || !samePassword {
		return reasonCredentials
	}
	return ""
}

// credentials returns what follows the scheme of a header Authorization, whose case does not matter (RFC 9110 section 11.1).
func credentials(value, scheme string) (string, bool) {
	given, rest, ok := strings.Cut(value, " ")
	return strings.TrimLeft(rest, " "), ok && strings.ToLower(given) == scheme
}
