package kernel

import (
	"crypto/sha256"

	"atrium"
)

// The index of idempotency keys stores keys of up to maxShortKey bytes unchanged. A longer key is
// stored as its first longKeyPrefix bytes and a part of its SHA-256, longKeySize bytes in total, so
// that it never equals a short key. Keeping the prefix is faster than hashing: most clients number
// or date their keys, which keeps inserts close together in the index.
const (
	maxShortKey   = 32
	longKeySize   = 33
	longKeyPrefix = 16
)

// KeyMatch returns the indexed form of an idempotency key, for key_match columns.
func KeyMatch(key string) []byte {
	if len(key) <= maxShortKey {
		return []byte(key)
	}
	sum := sha256.Sum256([]byte(key))
	return append([]byte(key[:longKeyPrefix]), sum[:longKeySize-longKeyPrefix]...)
}

// KeyReused returns the error for an idempotency key that was used for a different request.
func KeyReused() error {
	return atrium.Errorf(atrium.CodeIdempotencyKeyReused, "The idempotency key was already used by a different request.")
}
