package provider

import (
	"crypto/sha1" // HMAC-SHA1, which senders prescribe, does not need a hash without collisions (RFC 6151)
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"strings"
	"time"

	"atrium"
)

// generic verifies as the receiver's Verification says.
func generic(r *Request, secret []byte, v *atrium.Verification) Reason {
	s, ok := signatureOf(v)
	if !ok {
		return "the verification of the receiver is not valid"
	}
	value, reason := r.header(strings.ToLower(v.Header))
	if reason != "" {
		return reason
	}
	text, ok := strings.CutPrefix(value, v.Prefix)
	if !ok {
		return reasonMalformed
	}
	values := map[string][]byte{"{body}": r.Body}
	for placeholder, name := range map[string]string{"{timestamp}": v.TimestampHeader, "{id}": v.IDHeader} {
		if name == "" {
			continue
		}
		value, reason := r.header(strings.ToLower(name))
		if reason != "" {
			return reason
		}
		values[placeholder] = []byte(value)
	}
	if timestamp, ok := values["{timestamp}"]; ok {
		at, ok := parseTimestamp(string(timestamp))
		if !ok {
			return reasonTimestamp
		}
		if reason := near(at, time.Duration(v.Tolerance)*time.Second, r.Now); reason != "" {
			return reason
		}
	}
	parts, _ := splitContent(v.Content)
	content := make([][]byte, len(parts))
	for i, part := range parts {
		if value, ok := values[part]; ok {
			content[i] = value
		} else {
			content[i] = []byte(part)
		}
	}
	return s.check(text, secret, content...)
}

// signatureOf returns the signature that a Verification describes; false if there is no such one.
func signatureOf(v *atrium.Verification) (s signature, ok bool) {
	switch v.Algorithm {
	case "sha1":
		s.hash = sha1.New
	case "sha256":
		s.hash = sha256.New
	case "sha512":
		s.hash = sha512.New
	default:
		return s, false
	}
	switch v.Encoding {
	case "hex":
		s.decode = hex.DecodeString
	case "base64":
		s.decode = strictBase64
	default:
		return s, false
	}
	return s, true
}

// splitContent splits the content of a Verification into placeholders and the texts between them. It returns false if
// it has a brace that is not part of a placeholder.
func splitContent(content string) (parts []string, ok bool) {
	if content == "" {
		return []string{"{body}"}, true
	}
	ok = true
	for content != "" {
		at, length := len(content), 0
		for _, placeholder := range []string{"{body}", "{timestamp}", "{id}"} {
			if i := strings.Index(content, placeholder); i >= 0 && i < at {
				at, length = i, len(placeholder)
			}
		}
		if at > 0 {
			parts = append(parts, content[:at])
			ok = ok && !strings.ContainsAny(content[:at], "{}")
		}
		if length > 0 {
			parts = append(parts, content[at:at+length])
		}
		content = content[at+length:]
	}
	return parts, ok
}

// parseTimestamp parses a number of seconds or milliseconds since 1970, or a time in RFC 3339.
func parseTimestamp(text string) (time.Time, bool) {
	if n, ok := decimal(text, maxDigits); ok {
		if len(text) > 11 { // in seconds, that would be after the year 5000
			return time.UnixMilli(n), true
		}
		return time.Unix(n, 0), true
	}
	if len(text) > 40 {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}
