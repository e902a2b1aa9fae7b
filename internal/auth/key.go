// Package auth creates and verifies API keys, and authenticates requests.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"strings"

	"atrium"
)

// The format of a key: "atr_", the 26 characters of its identifier, "_", a secret of 27 base-62
// characters, and a checksum of 6. The secret has 160 random bits. The checksum is the CRC-32 of
// everything before it: it detects typing errors without a lookup, and is not a security measure.
const (
	keyPrefix   = "atr_"
	secretLen   = 27
	secretBits  = 160
	checksumLen = 6
	keyLen      = len(keyPrefix) + atrium.SuffixLen + 1 + secretLen + checksumLen
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
	secret := newSecret()
	body := keyPrefix + string(id[len(id.Prefix()):]) + "_" + secret
	return body + checksum(body), hashSecret(secret)
}

// ParseKey returns the parts of a key, or false if s is malformed.
func ParseKey(s string) (id atrium.KeyID, secret string, ok bool) {
	if len(s) != keyLen || !strings.HasPrefix(s, keyPrefix) {
		return "", "", false
	}
	body := s[:keyLen-checksumLen]
	suffix, secret := body[len(keyPrefix):len(keyPrefix)+atrium.SuffixLen], body[len(body)-secretLen:]
	if body[len(keyPrefix)+atrium.SuffixLen] != '_' || !atrium.IsSuffix(suffix) ||
		!isBase62(secret) || checksum(body) != s[len(body):] {
		return "", "", false
	}
	return atrium.KeyID(id.Prefix() + suffix), secret, true
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
