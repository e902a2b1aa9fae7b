// Package auth creates and verifies API keys and preview tokens, and authenticates requests.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"

	"atrium"
)

// The format of a key or token: a prefix such as "atr_", the 26 characters of its identifier, "_", a secret of 27 base-62
// characters, and a checksum of 6. The secret has 160 random bits. The checksum is the CRC-32 of
// everything before it: it detects typing errors without a lookup, and is not a security measure.
const (
	keyPrefix     = "atr_"
	previewPrefix = "atp_"
	loginPrefix   = "atl_"
	sessionPrefix = "ats_"
	secretLen     = 27
	secretBits    = 160
	checksumLen   = 6
	keyLen        = len(keyPrefix) + atrium.SuffixLen + 1 + secretLen + checksumLen
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewKey creates an identifier and a key for it. The key is shown once; only the hash of its secret
// is stored.
func NewKey() (id atrium.KeyID, key string, secretHash []byte) {
	id = atrium.NewID[atrium.KeyID]()
	key, secretHash = NewSecret(id)
	return id, key, secretHash
}

// NewSecret creates a key with a new secret for an existing identifier.
func NewSecret(id atrium.KeyID) (key string, secretHash []byte) {
	return newText(keyPrefix, string(id[len(id.Prefix()):]))
}

// NewPreviewToken creates an identifier and a token for a preview. The token is shown once; only the
// hash of its secret is stored.
func NewPreviewToken() (id atrium.PreviewID, token string, secretHash []byte) {
	id = atrium.NewID[atrium.PreviewID]()
	token, secretHash = newText(previewPrefix, string(id[len(id.Prefix()):]))
	return id, token, secretHash
}

// NewLoginToken creates an identifier and a token for a login link. Only the hash of its secret is stored.
func NewLoginToken() (id atrium.LoginLinkID, token string, secretHash []byte) {
	id = atrium.NewID[atrium.LoginLinkID]()
	token, secretHash = newText(loginPrefix, string(id[len(id.Prefix()):]))
	return id, token, secretHash
}

// newText creates a key or token with a new secret.
func newText(prefix, suffix string) (text string, secretHash []byte) {
	secret := newSecret()
	body := prefix + suffix + "_" + secret
	return body + checksum(body), hashSecret(secret)
}

// ParseKey returns the parts of a key, or false if s is malformed.
func ParseKey(s string) (id atrium.KeyID, secret string, ok bool) {
	suffix, secret, ok := parseText(keyPrefix, s)
	if !ok {
		return "", "", false
	}
	return atrium.KeyID(id.Prefix() + suffix), secret, true
}

// parseText returns the parts of a key or token, or false if s is malformed.
func parseText(prefix, s string) (suffix, secret string, ok bool) {
	if len(s) != keyLen || !strings.HasPrefix(s, prefix) {
		return "", "", false
	}
	body := s[:keyLen-checksumLen]
	suffix, secret = body[len(prefix):len(prefix)+atrium.SuffixLen], body[len(body)-secretLen:]
	if body[len(prefix)+atrium.SuffixLen] != '_' || !atrium.IsSuffix(suffix) ||
		!isBase62(secret) || checksum(body) != s[len(body):] {
		return "", "", false
	}
	return suffix, secret, true
}

func newSecret() string {
	// crypto/rand never returns an error; it ends the process instead.
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), secretBits))
	return toBase62(n, secretLen)
}

// hashSecret needs neither a salt nor a slow hash: the secret has 160 random bits.
func hashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

func checksum(body string) string {
	return toBase62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), checksumLen)
}

// toBase62 returns n with the given number of digits, which must suffice.
func toBase62(n *big.Int, digits int) string {
	b := make([]byte, digits)
	base, digit := big.NewInt(62), new(big.Int)
	for i := digits - 1; i >= 0; i-- {
		n.QuoRem(n, base, digit)
		b[i] = base62[digit.Int64()]
	}
	return string(b)
}

func isBase62(s string) bool {
	return strings.Trim(s, base62) == ""
}
